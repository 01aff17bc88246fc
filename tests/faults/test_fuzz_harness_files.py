"""Harness files, damaged: one line with file and line, exit code 2, before anything has started."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whale_core.config import resolve
from whale_core.errors import InputError
from whale_core.jail import probe
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.roles import Limits
from whale_core.run.parts import HARNESS_BYTES, Parts, base_harness, check_loads
from whale_core.testing.toy import DomainConfig, ToyDomain

DOMAIN = ToyDomain(DomainConfig(), Setup(seed=0))
GOOD = DOMAIN.harnesses[DOMAIN.base_harness].encode()
HEAD = b"from whale_harness import BaseHarness\nclass Harness(BaseHarness):\n"


def attempt(path: Path, name: str | None = None, seconds: float = 20.0) -> str | None:
    """Load the file as a run's first harness; return the message, None when it was loaded."""
    try:
        h0 = base_harness(DOMAIN, name or str(path))
        limits = SimpleNamespace(limits=Limits(cpu_seconds=1.0, wall_seconds=seconds))
        parts = SimpleNamespace(h0=h0, domain=limits, jail_kind=probe("process"))
        asyncio.run(check_loads(cast(Parts, parts)))
    except InputError as error:
        message = str(error)
        assert error.exit_code == 2 and "\n" not in message and len(message) < 1000
        assert message.startswith(f"harness={name or path}: ")
        return message
    return None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it defines no class Harness(BaseHarness)"),
        (b"\xff\xfe\0\0", "line 1: not UTF-8 text"),
        (GOOD + b"\n# \xff", "line 34: not UTF-8 text"),
        (b"\x7fELF\x02\x01\x01" + bytes(500), "null bytes"),
        (GOOD.replace(b"class Harness(", b"class Harness(("), "line 8: SyntaxError"),
        (GOOD.replace(b"class Harness(", b"class Other("), "it defines no class Harness"),
        (HEAD + b"    def run(self, task, model, env): pass\n", "no `async def run(self, task, "),
        (HEAD + b"    async def run(self, task): pass\n", "no `async def run(self, task, "),
        (HEAD + b"    async def run(self, task, model, env, x): pass\n", "no `async def run(self"),
        (HEAD + b"    def __init__(self, x): pass\n", "Harness has no `async def run"),
        (
            HEAD + b"    async def run(self, task, model, env): pass\n"
            b"    def __init__(self):\n        raise KeyError('x')\n",
            "line 5: KeyError: 'x'",
        ),
        (b"import os\n\nraise RuntimeError('a\\nb')\n", "line 3: RuntimeError: a"),
        (b"import numpy\n", "line 1: ModuleNotFoundError: No module named 'numpy'"),
        (b"from whale_core.keys import json_hash\n", "line 1: ModuleNotFoundError"),
        (b"import socket\nsocket.socket()\n", "line 2: "),
        (b"open('/etc/passwd', 'w')\n", "line 1: "),
        (b"def f():\n  f()\nf()\n", "RecursionError"),
        (b"while True:\n    pass\n", "loading it ended with: cpu"),
        (b"x = [0] * (1 << 34)\n", "loading it ended with: memory"),
        (b"raise SystemExit\n", "SystemExit"),
        (b"import os\nos.kill(os.getpid(), 9)\n", "line 2: PermissionError"),
        (b"x = 1\n" * (HARNESS_BYTES // 6 + 1), f"larger than {HARNESS_BYTES} bytes"),
        (b"(" * 100_000, "line 1: SyntaxError"),
        (b"x = " + b"-" * 100_000 + b"1\n", ""),
    ],
    ids=range(24),
)
def test_a_file_that_is_no_harness(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(data)
    message = attempt(path)
    assert message is not None and said in message


def test_a_file_that_waits_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(b"import time\ntime.sleep(1e9)\n")
    assert "loading it ended with: stalled" in str(attempt(path, seconds=0.5))


def test_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(GOOD)
    plain = base_harness(DOMAIN, str(path))
    for data in (b"\xef\xbb\xbf" + GOOD, GOOD.replace(b"\n", b"\r\n"), GOOD.replace(b"\n", b"\r")):
        path.write_bytes(data)
        assert base_harness(DOMAIN, str(path)) == plain
    assert attempt(path) is None


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    (tmp_path / "memory.py").symlink_to("/proc/self/mem")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    said = {
        "gone.py": "No such file",
        "folder.py": "not a regular file",
        "pipe.py": "not a regular file",  # and nobody waits for a writer
        "zero.py": "not a regular file",
        "loop.py": "symbolic links",
        "memory.py": "Input/output error",
        "nul\0.py": "null byte",
        f"{'x' * 300}.py": "File name too long",
    }
    for name, reason in said.items():
        message = attempt(tmp_path / name)
        assert message is not None and reason in message
    assert "~nobody" in str(attempt(Path(), "~nobody-of-this-name/x.py"))
    assert "or give a .py file" in str(attempt(Path(), "mine.txt"))


@given(
    places=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=3),
    length=st.integers(0, len(GOOD)),
    cut=st.booleans(),
)
@settings(max_examples=40)  # each starts a jail
def test_flipped_and_missing_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    places: list[tuple[int, int]],
    length: int,
    cut: bool,
) -> None:
    data = bytearray(GOOD)
    for place, value in places:
        data[place] = value
    path = tmp_path_factory.mktemp("harness") / "mine.py"
    path.write_bytes(data[:length] if cut else data)
    attempt(path)  # loaded, or one line that names the file


# --- where relative paths count from --------------------------------------------------------------


def test_relative_paths_mean_the_same_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = load_plugins()
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "model").mkdir(parents=True)
    there.mkdir()
    (there / "mine.yaml").write_text("harness: own.py\ndomain: {name: chess, puzzles: ../p.csv}\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))

    def tree(*overrides: str, files: tuple[str, ...] = ()) -> dict[str, Any]:
        over = ("domain=chess", *overrides)
        return resolve(plugins, "default", [Path(file) for file in files], over).tree

    typed = tree("harness=./a.py", "domain.puzzles=b.csv", "engine.model=model")
    assert typed["harness"] == str(here / "a.py")
    assert typed["domain"]["puzzles"] == str(here / "b.csv")
    assert typed["engine"]["model"] == str(here / "model")
    filed = tree(files=("../there/mine.yaml",))
    assert filed["harness"] == str(there / "own.py")
    assert filed["domain"]["puzzles"] == str(tmp_path / "p.csv")
    home = tree("domain.puzzles=~/c.csv", "harness=/x/../d.py")
    assert (home["domain"]["puzzles"], home["harness"]) == (str(tmp_path / "c.csv"), "/d.py")
    made = tree("domain.puzzles='data/${seed}.csv'", "seed=3")
    assert made["domain"]["puzzles"] == str(here / "data" / "3.csv")


def test_names_stay_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = load_plugins()
    monkeypatch.chdir(tmp_path)
    for name in ("strong", "tiny-random", "owner"):
        (tmp_path / name).mkdir()
    for model in ("tiny-random", "owner/name", "smollm2-135m-instruct"):
        given = ("domain=chess", "harness=strong", f"engine.model={model}")
        found = resolve(plugins, "default", (), given).tree
        assert (found["harness"], found["engine"]["model"]) == ("strong", model)
        assert found["domain"]["puzzles"] == ""
    (tmp_path / "owner" / "name").mkdir()  # the engine, too, takes a folder before a hub id
    found = resolve(plugins, "default", (), ("engine.model=owner/name",)).tree
    assert found["engine"]["model"] == str(tmp_path / "owner" / "name")


def test_a_stored_configuration_is_read_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = load_plugins()
    monkeypatch.chdir(tmp_path)
    given = ("domain=chess", "harness=a.py", "domain.puzzles=b.csv")
    first = resolve(plugins, "default", (), given)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(first.to_yaml())
    monkeypatch.chdir("/")
    again = resolve(plugins, "default", (tmp_path / "run" / "config.yaml",), ())
    assert again.settings_hash() == first.settings_hash()
