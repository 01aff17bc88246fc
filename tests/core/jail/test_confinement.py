"""What a jail shows of the machine. What harness code tries is in ``tests/faults/jail_corpus``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from whale_core.jail import Ended, Finished

Run = Callable[..., Finished | Ended]


def test_nothing_of_the_machine_is_visible_under_bubblewrap(
    kind: str, run: Run, tmp_path: Path
) -> None:
    if kind != "bubblewrap":
        pytest.skip("the process kind does not hide files (PROCESS_JAIL_GAPS)")
    secret = tmp_path / "secret"
    secret.write_text("reference")
    body = """
import os, json, sys
def there(path):
    return os.path.lexists(path)
found = [path for path in task["paths"] if there(path)]
stdlib = os.path.dirname(os.__file__)
packages = [
    name
    for folder in (stdlib, os.path.dirname(stdlib), "/usr/lib", "/usr/lib/python3")
    for path in (folder, folder + "/site-packages", folder + "/dist-packages")
    if there(path)
    for name in os.listdir(path)
    if name.startswith(("numpy", "chess", "torch", "whale_core"))
]
return json.dumps([found, os.listdir("/tmp"), packages, os.getuid(), os.uname().nodename])
"""
    here = str(Path(__file__).resolve().parents[3])
    paths = [str(secret), here, "/proc", "/sys", "/dev", "/etc/passwd", "/home", "/var", "/run"]
    outcome = run(body, {"paths": paths})
    assert isinstance(outcome, Finished), outcome
    assert json.loads(outcome.answer) == [[], [], [], 65534, "jail"]


def test_the_home_folder_shows_nothing_but_the_way_to_the_interpreter(kind: str, run: Run) -> None:
    if kind != "bubblewrap":
        pytest.skip("the process kind does not hide files (PROCESS_JAIL_GAPS)")
    body = """
import os, sys
files = []
for folder, _, names in os.walk(task):
    inside = folder.startswith(sys.base_prefix)
    files += [] if inside else names
return str([name for name in files if not name.startswith("python")])
"""
    assert run(body, str(Path.home())) == Finished("[]")
