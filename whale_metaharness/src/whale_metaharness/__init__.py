"""Harness search with an archive over all cycles, gates and published acceptance."""
