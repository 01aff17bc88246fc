from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for contracts_kit


@pytest.fixture(autouse=True)
def one_thread():  # type: ignore[no-untyped-def]
    """Tiny models are slower on two threads, and far slower on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
