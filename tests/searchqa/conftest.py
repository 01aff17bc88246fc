from __future__ import annotations

import sys
from pathlib import Path

import pytest

from whale_core.plugins import Setup
from whale_searchqa.config import Config
from whale_searchqa.domain import SearchQADomain

sys.path.insert(0, str(Path(__file__).parent))  # for searchqa_kit


@pytest.fixture(scope="session")
def domain() -> SearchQADomain:
    return SearchQADomain(Config(), Setup(seed=1))
