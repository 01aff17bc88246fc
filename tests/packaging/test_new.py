"""``whale new``: what it writes is a package that builds, passes its own tests and is clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm_kit

from whale_core.cli.main import main
from whale_core.errors import InputError
from whale_core.new.package import LONGEST_NAME, ROLES, check_name, write_package

HERE = Path(sys.executable).parent
# Of whole runs: as many blocks as ever, of fewer rollouts.
FEW = ("search.examples=8", "selection.examples=8", "test.examples=8", "test.draws=1")
FEW_NULLS = "domain.harness=16"  # of the toy domain
PYTEST = "import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))\n"


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [str(each) for each in command], capture_output=True, text=True, check=False, **options
    )


def written(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("role", ROLES)
def test_writes_a_package_without_placeholders(role: str, tmp_path: Path) -> None:
    folder = tmp_path / "my-plugin"
    files = write_package(role, "my-plugin", folder)
    assert [folder / path for path in files] == written(folder)
    names = {path.as_posix() for path in files}
    assert {"pyproject.toml", "README.md", "src/my_plugin/plugin.py"} <= names
    assert any(name.startswith("tests/test_") for name in names)
    for path in written(folder):
        text = path.read_text()
        assert not any(mark in text for mark in ("@NAME@", "@MODULE@", "@CLASS@", "@ROLE@"))
        if path.suffix == ".py":
            compile(text, str(path), "exec")


@pytest.mark.parametrize("name", ["ab", "a" * LONGEST_NAME, "whole-number-searcher", "zz-zz"])
def test_is_clean_whatever_the_name(name: str, tmp_path: Path) -> None:
    for role in ROLES:
        write_package(role, name, tmp_path / role)
    ruff = HERE / "ruff"
    assert not (found := run(ruff, "check", "--no-cache", tmp_path)).returncode, found.stdout
    formatted = run(ruff, "format", "--no-cache", "--check", "--diff", tmp_path)
    assert not formatted.returncode, formatted.stdout


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MyScheduler", "my-scheduler"),
        ("my_scheduler", "my-scheduler"),
        ("2nd try!", "nd-try"),
        ("my--scheduler", "my-scheduler"),
        ("../../etc", "etc"),
    ],
)
def test_a_bad_name_is_refused_with_the_one_that_is_meant(name: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"for example '{meant}'$"):
        check_name(name)


@pytest.mark.parametrize("name", ["", "-", "ß", "a" * (LONGEST_NAME + 1), "json", "class", "torch"])
def test_a_name_that_python_has_already_or_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be a plugin's name"):
        check_name(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["schedulr", "mine"], "did you mean 'scheduler'?"),
        (["scheduler", "My_Plugin"], "for example 'my-plugin'"),
        (["scheduler", "fixed"], "is there already, in whale-schedulers"),
        (["domain", "chess-line"], "verifier 'chess-line' is there already, in whale-chess"),
        (["scheduler", "pyyaml"], "the installed package PyYAML"),
        (["scheduler", "taken"], "taken is there already"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    assert main(["new", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert not list((tmp_path / "taken").iterdir())


def test_says_what_to_do_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "domain", "mine", "--dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"pip install -e '{tmp_path / 'mine'}[dev]'" in said  # dev brings pytest
    assert "whale-run --plugin-set smoke domain=mine\n" in said
    assert main(["new", "engine", "other", "--dir", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["folder"] == str(tmp_path / "other")
    assert all((tmp_path / "other" / path).is_file() for path in answer["files"])


# --- built and installed --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A package of each role."""
    folder = tmp_path_factory.mktemp("packages")
    made = {}
    for role in ROLES:
        made[role] = folder / f"my-{role}"
        assert main(["new", role, f"my-{role}", "--dir", str(folder)]) == 0
    return made


@pytest.fixture(scope="module")
def site(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheels of all seven are installed."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    done = run(*pip, "--no-build-isolation", "--target", folder, *packages.values())
    assert not done.returncode, done.stderr
    return folder


def environment(site: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}


@pytest.mark.packaging
def test_all_are_listed(site: Path) -> None:
    done = warm_kit.run(["plugins", "--json"], env=environment(site))
    assert not done.returncode, done.stderr
    rows = {(row["role"], row["name"]): row for row in json.loads(done.stdout)}
    for role in ROLES:
        row = rows[role.replace("-", "_"), f"my-{role}"]
        assert (row["state"], row["distribution"], row["version"]) == ("ok", f"my-{role}", "0.1.0")
    assert ("verifier", "my-domain") in rows


@pytest.mark.packaging
@pytest.mark.parametrize("role", ROLES)
def test_its_own_tests_pass_at_once(role: str, packages: dict[str, Path], site: Path) -> None:
    tests = packages[role] / "tests"
    started_warm = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    arguments = ["-W", "error", "-W", started_warm, "-q", "-p", "no:cacheprovider", str(tests)]
    done = warm_kit.run(arguments, code=PYTEST, env=environment(site), cwd=packages[role])
    assert not done.returncode, done.stdout
    assert "passed" in done.stdout and "skipped" not in done.stdout


@pytest.mark.packaging
def test_mypy_strict_is_content(packages: dict[str, Path], root: Path) -> None:
    sources = [str(folder / "src") for folder in packages.values()]
    done = run(
        HERE / "mypy",
        "--strict",
        "--explicit-package-bases",
        f"--cache-dir={root / '.mypy_cache'}",
        *sources,
        env={**os.environ, "MYPYPATH": os.pathsep.join(sources)},
        cwd=packages["domain"].parent,
    )
    assert not done.returncode, done.stdout


@pytest.mark.packaging
@pytest.mark.parametrize(
    "settings",
    [
        [
            "scheduler=my-scheduler",
            "model_update=my-model-update",
            "model_update.lr=1e-1",
            FEW_NULLS,
        ],
        [
            *("domain=my-domain", "harness_search=my-harness-search", "proposer=my-proposer"),
            *("domain.weight=64", "domain.harness=16", "harness_search.candidates=1"),
            "model_update.group_size=4",
        ],
        ["engine=my-engine", "scheduler=harness-only", "scheduler.iterations=2", FEW_NULLS],
    ],
)
def test_each_drives_a_run(settings: list[str], site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = ["run", "--plugin-set", "smoke", "--run-dir", str(folder), *FEW, *settings]
    state = {"WHALE_STATE": str(tmp_path / "state")}
    done = warm_kit.run(arguments, env={**environment(site), **state}, cwd=tmp_path)
    assert not done.returncode, done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert set(result["pairs"]) == {"theta0_h0", "theta0_h", "theta_h0", "theta_h"}
