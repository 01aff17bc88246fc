from __future__ import annotations

import sys
from pathlib import Path

import pytest

from whale_core.plugins import Setup
from whale_math.config import Config
from whale_math.domain import MathDomain

sys.path.insert(0, str(Path(__file__).parent))  # for math_kit


@pytest.fixture(scope="session")
def domain() -> MathDomain:
    return MathDomain(Config(), Setup(seed=1))
