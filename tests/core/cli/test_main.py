"""The commands: what they pass on, what they print, how they exit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from whale_core.cli.main import COMMANDS, main, main_run
from whale_core.errors import (
    CapReached,
    InputError,
    PluginError,
    RunFolderError,
    TooMuchNotScored,
)
from whale_core.plugins.events import RunInfo

RESULT = {
    "pairs": {"theta0_h0": {"mean": 0.041, "low": 0.02, "high": 0.07}},
    "differences": [],
    "chance": {"uniform": 0.16},
    "sentence": "It learned.",
}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand in for the run itself: records what it was given, does what a test says."""
    given: dict[str, Any] = {"do": lambda: dict(RESULT)}

    def run(resolved: Any, plugins: Any, run_dir: Path) -> Any:
        given.update(resolved=resolved, plugins=plugins, run_dir=run_dir)
        return given["do"]()

    def resume(run_dir: Path, plugins: Any, cap: int | None) -> Any:
        given.update(run_dir=run_dir, plugins=plugins, cap=cap)
        return given["do"]()

    module = ModuleType("whale_core.run.session")
    module.run, module.resume = run, resume  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "whale_core.run.session", module)
    return given


def raising(error: BaseException) -> Callable[[], Any]:
    def do() -> Any:
        raise error

    return do


def one_line(captured: str) -> str:
    (line,) = captured.splitlines()
    assert line.startswith("whale: ")
    return line.removeprefix("whale: ")


@pytest.mark.usefixtures("acme")
def test_run_resolves_its_arguments(session: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("test: {draws: 3}\n")
    arguments = ["domain.size=5", "--plugin-set", "acme", "--config", str(file), "--seed", "7"]
    assert main_run([*arguments, "rollout.top_k=9"]) == 0
    resolved = session["resolved"]
    assert resolved.chosen["domain"].config.size == 5
    assert (resolved.core.seed, resolved.core.test.draws, resolved.core.rollout.top_k) == (7, 3, 9)
    folder = session["run_dir"]
    assert folder.parent == Path("runs")
    assert len(folder.name) == len("acme-20260101-120000") and folder.name.startswith("acme-")
    assert main(["run", *arguments, "--run-dir", "elsewhere"]) == 0
    assert session["run_dir"] == Path("elsewhere")


@pytest.mark.usefixtures("acme")
def test_a_used_run_folder_is_refused(
    session: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("used").mkdir()
    assert main_run(["--plugin-set", "acme", "--run-dir", "used"]) == 0  # empty: fine
    Path("used/journal.jsonl").touch()
    assert main_run(["--plugin-set", "acme", "--run-dir", "used"]) == 4
    assert "continue it with `whale resume used`" in one_line(capsys.readouterr().err)


@pytest.mark.usefixtures("acme")
def test_resume_continues_a_folder(
    session: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", "runs/none"]) == 4
    assert one_line(capsys.readouterr().err) == "no run folder at runs/none"
    Path("runs/some").mkdir(parents=True)
    assert main(["resume", "runs/some"]) == 0
    assert session["run_dir"] == Path("runs/some")


@pytest.mark.usefixtures("acme")
def test_the_view_observes_and_json_is_alone_on_stdout(
    session: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> Any:
        run = RunInfo("x", Path("runs/x"), session["resolved"].tree)
        session["plugins"].hooks.on_run_started(run)
        return dict(RESULT)

    session["do"] = work
    assert main_run(["--plugin-set", "acme", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == RESULT
    assert "[0:00] run x in runs/x, seed 0" in captured.err
    assert main_run(["--plugin-set", "acme", "--run-dir", "again"]) == 0
    captured = capsys.readouterr()
    assert "[0:00] run x in runs/x, seed 0" in captured.out
    assert "4.1 %" in captured.out and "It learned." in captured.out
    assert captured.err == ""


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("bad"), 2),
        (PluginError("bad"), 3),
        (RunFolderError("bad"), 4),
        (CapReached("bad"), 5),
        (TooMuchNotScored("bad"), 6),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    session: dict[str, Any], capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    session["do"] = raising(error)
    assert main_run(["--plugin-set", "acme"]) == code
    assert one_line(capsys.readouterr().err) == "bad"


@pytest.mark.usefixtures("acme")
def test_an_interruption_says_how_to_continue(
    session: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    session["do"] = raising(KeyboardInterrupt())
    assert main_run(["--plugin-set", "acme", "--run-dir", "mine"]) == 130
    captured = capsys.readouterr()
    assert one_line(captured.err) == "interrupted"
    assert "to continue: whale resume mine" in captured.out


@pytest.mark.usefixtures("acme")
def test_a_defect_shows_its_traceback_only_on_demand(
    session: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session["do"] = raising(ZeroDivisionError("division \x1b[31mby zero"))
    assert main_run(["--plugin-set", "acme"]) == 1
    line = one_line(capsys.readouterr().err)
    assert line.startswith("ZeroDivisionError: division [31mby zero (this is a defect, at ")
    monkeypatch.setenv("WHALE_DEBUG", "1")
    assert main_run(["--plugin-set", "acme", "--run-dir", "again"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.usefixtures("acme")
def test_a_defect_names_the_innermost_line_of_a_plugin(
    session: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = import_module("acme_cli")
    source = "import json\ndef broken():\n    json.loads('{')\n"
    exec(compile(source, "acme_cli.py", "exec"), vars(plugin))
    session["do"] = plugin.broken
    assert main_run(["--plugin-set", "acme"]) == 1
    assert "(this is a defect, at acme_cli.py:3; set " in one_line(capsys.readouterr().err)


@pytest.mark.usefixtures("acme", "session")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["domain.sise=4"], "domain.sise: unknown key, did you mean 'size'?"),
        (["domain=acne"], "domain: no domain is called 'acne', did you mean 'acme'?"),
        (["--config", "no.yaml"], "configuration file no.yaml: No such file or directory"),
        (["--seed", "-1"], "seed: must be >= 0: -1"),
    ],
)
def test_bad_input_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main_run(["--plugin-set", "acme", *arguments]) == 2
    assert one_line(capsys.readouterr().err) == told
    assert not Path("runs").exists()


@pytest.mark.usefixtures("acme", "session")
def test_several_errors_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main_run(["--plugin-set", "acme", "domain.sise=4", "seed=x"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "whale: domain.sise: unknown key, did you mean 'size'?",
        "       seed: expected int, got str 'x'",
    ]


def test_wrong_usage_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["rum"], ["run"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
    assert "--plugin-set" in capsys.readouterr().err


def test_plugins_lists_what_works_and_what_does_not(
    acme: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = acme / "broken_cli-0.1.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-cli\nVersion: 0.1\n")
    (broken / "entry_points.txt").write_text("[whale]\nbroken = absent_cli\n")
    assert main(["plugins", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {
        "role": "domain",
        "name": "acme",
        "distribution": "acme-cli",
        "version": "1.2",
        "entry_point": "acme",
        "state": "ok",
        "note": "for a test",
    } in rows
    (failed,) = [row for row in rows if row["distribution"] == "broken-cli"]
    assert (failed["state"], failed["role"]) == ("broken", "")
    assert "No module named 'absent_cli'" in failed["note"]
    assert [row["name"] for row in rows if row["role"] == "plugin_set"].count("acme") == 1
    assert main(["plugins"]) == 0
    assert "acme-cli" in capsys.readouterr().out


HEAVY = (
    "torch",
    "transformers",
    "numpy",
    "omegaconf",
    "attrs",
    "pluggy",
    "rich",
    "yaml",
    "asyncio",
)


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = f"""
import sys
from whale_core.cli.main import main
try:
    main({arguments!r})
except SystemExit as stopped:
    assert stopped.code == 0
print("loaded:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: []"
    assert "examples:" in done.stdout


def test_whale_run_help_is_that_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main_run(["--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: whale-run ") and "key.sub=value" in out


def test_a_full_disk_behind_the_output_is_no_defect() -> None:
    code = "import sys; from whale_core.cli.main import main; sys.exit(main(['plugins']))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == RunFolderError.exit_code
    assert "whale: cannot write the output: No space left on device" in done.stderr
    assert "defect" not in done.stderr


def test_a_reader_that_goes_away_is_told_nothing_whoever_notices(
    session: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def as_rich_does() -> Any:
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            raise SystemExit(1)  # noqa: B904

    session["do"] = as_rich_does
    assert main_run(["--plugin-set", "smoke"]) == 0
    assert not capsys.readouterr().err
