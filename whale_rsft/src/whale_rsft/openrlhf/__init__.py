"""Trainer ``openrlhf``: our own Ray actors made of OpenRLHF's parts (Ray and DeepSpeed ZeRO)."""
