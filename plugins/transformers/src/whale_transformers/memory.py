"""Giving freed memory back to the system.

The C library keeps what was freed for later use; after batches of ever new sizes that is a gigabyte
that nobody uses while a trainer would need it.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Return freed memory to the system where the C library can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
