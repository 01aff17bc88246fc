"""What all test folders share: the hypothesis profile, the import guard, real sample data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import whale_core

sys.path.insert(0, str(Path(__file__).parent))  # for the *_kit modules, also in child processes

from shared_kit import made_once

# No deadline: shared machines stall. In CI the examples are a function of the test alone.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("many", deadline=None, max_examples=2000)  # --hypothesis-profile=many
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A folder named like the package imports as an empty namespace when nothing is installed.
assert whale_core.__file__, "whale_core is not installed: run python3 scripts/install.py --dev"

LONG = ("docs", "packaging", "cross", "faults")  # folders of few tests that each run programs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first: last in line, they would leave the other process without work."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        inside = item.path.is_relative_to(here)
        folder = item.path.relative_to(here).parts[0] if inside else ""
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=place)


@pytest.fixture(scope="session")
def sample_data() -> Path:
    """The folder of real sample files, from ``$WHALE_SAMPLE_DATA``; skips where it is unset."""
    name = os.environ.get("WHALE_SAMPLE_DATA")
    if not name:
        pytest.skip("WHALE_SAMPLE_DATA is unset: no real sample data here")
    folder = Path(name)
    assert folder.is_dir(), f"WHALE_SAMPLE_DATA names no folder: {folder}"
    return folder


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder of the tests' own, so that test openings are counted apart."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="session")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the set ``smoke`` by the installed program, as users start it; only to be read."""

    def make(folder: Path) -> None:
        program = Path(sys.executable).parent / "whale"
        done = subprocess.run(
            [program, "run", "--plugin-set", "smoke", "--run-dir", folder / "run"],
            capture_output=True,
            text=True,
            env={**os.environ, "WHALE_STATE": str(folder / "state")},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (folder / "stdout").write_text(done.stdout)

    return made_once(tmp_path_factory, "smoke", make) / "run"
