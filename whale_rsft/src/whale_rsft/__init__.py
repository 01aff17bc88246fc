"""RSFT: online rejection-sampling fine-tuning, θ ← ModelUpdate(θ; h).

``rsft`` is the method, ``torch_trainer`` makes its optimizer steps on one machine, ``packing``
computes tokens that rows share once.
"""
