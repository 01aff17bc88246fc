"""What a comparison reads of run folders, plans, and does with what is there already."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, evolve
from run_kit import blocks_of

from whale_core.api import run
from whale_core.cli.main import main
from whale_core.errors import CapReached, InputError, RunFolderError
from whale_core.evidence.analysis import Condition
from whale_core.evidence.budget import Budget
from whale_core.evidence.collect import RunRecord, collect
from whale_core.evidence.execute import Ended, execute, standing
from whale_core.evidence.gather import conditions_of
from whale_core.evidence.kept import keep, kept, kept_at
from whale_core.evidence.plan import ComparisonPlan, parse_seeds, plan_comparison
from whale_core.plugins.manager import load_plugins

TOY: dict[str, Any] = {
    "domain": "toy",
    "verifier": "toy",
    "engine": "null-model",
    "scheduler": "evaluation-only",
    "selection": {"examples": 4, "draws": 2},
    "test": {"examples": 16, "draws": 4},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs of one condition, one of another, and one that its cap stopped."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHALE_STATE", str(folder / "state"))
        for seed in (0, 1):
            run({**TOY, "seed": seed}, run_dir=folder / f"random-{seed}", progress=False)
        first = {"name": "null-model", "model": "first-listed"}
        run({**TOY, "engine": first}, run_dir=folder / "first-0", progress=False)
        with pytest.raises(CapReached):
            capped = {**TOY, "seed": 2, "cap": {"rollouts": 20}}
            run(capped, run_dir=folder / "random-2", progress=False)
    return folder


def test_a_finished_run_as_a_record(runs: Path) -> None:
    made = collect(runs / "random-0")
    result = json.loads((runs / "random-0" / "result.json").read_text())
    assert made.finished and made.seed == 0 and made.domain == "toy" and made.phases == ""
    assert made.final == result["pairs"]["theta_h"] and made.test_openings == 1
    assert made.spent["rollouts"] == 8 + 64 and made.by["policy/test"]["rollouts"] == 64
    (start,) = made.points
    assert start.rollouts == 8 and made.update_rollouts == 0  # the final pass comes after it
    assert start.mean == result["selection"][0]["mean"]
    evaluated = [line for line in blocks_of(runs / "random-0") if line["event"] == "evaluation"]
    assert made.means["theta_h"] == evaluated[-1]["score"]["means"]
    assert made.machine["engine"] == {"engine": "null-model", "null_model": "random"}
    assert json.loads(json.dumps(made.as_json()))["settings_hash"] == result["settings_hash"]


def test_a_pair_does_not_differ_from_itself(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither half moved, so the four corners are one pair."""
    result = json.loads((runs / "random-0" / "result.json").read_text())
    assert {(d["mean"], d["low"], d["high"]) for d in result["differences"]} == {(0.0, 0.0, 0.0)}
    assert main(["report", str(runs / "random-0"), "--format", "md"]) == 0
    told = capsys.readouterr().out
    assert told.count("the same pair as (θ0, h0)") == 3 and "All four corners are one pair" in told
    assert "(θ, h) − (θ0, h0)" not in told


def test_a_stopped_run_is_a_record_too(runs: Path) -> None:
    made = collect(runs / "random-2")
    assert (made.state, made.reason[:15]) == ("stopped", "cap.rollouts=20")
    assert made.pairs == {} and made.means == {} and len(made.points) == 1
    with pytest.raises(RunFolderError, match="not a run folder"):
        collect(runs)


def test_runs_are_compared_by_name_and_grouped(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(runs / name) for name in ("random-0", "random-1", "random-2", "first-0")]
    assert main(["compare", *names, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    first, second = told["conditions"]
    assert first["name"].startswith("settings (") and first["name"] != second["name"]
    assert list(first["seeds"]) == ["0", "1"] and list(second["seeds"]) == ["0"]
    assert first["unfinished"][0]["seed"] == 2
    assert set(first["pass_at"]) == {"1", "2", "4"}
    assert first["pass_at"]["1"]["mean"] == pytest.approx(first["mean"])  # all were scored
    by_run = told["runs"][0]["pass_at"]["4"]
    assert by_run["low"] < by_run["mean"] < by_run["high"]
    assert told["differences"][0]["examples"] == 16
    assert main(["compare", *names, "--format", "md"]) == 0
    assert "\n| condition | test |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--jobs", "0", "smoke"], 2, "--jobs 0"),
        (["domain=toy"], 2, "name plugin sets"),
        (["no-such-set"], 2, "no plugin set is called 'no-such-set'"),
        (["smoke", "smoke"], 2, "condition smoke is named twice"),
        (["smoke", "--seeds", "0,0"], 2, "seed 0 is named twice"),
        (["smoke", "--seeds", "a"], 2, "--seeds a"),
        (["smoke", "seed=3"], 2, "given as --seeds"),
        (["smoke", "--budget", "rollouts=9", "cap.rollouts=3"], 2, "--budget sets it"),
        (["smoke", "search.draw=3"], 2, "did you mean 'draws'"),
        (["RUNS/random-0", "domain=toy"], 2, "finished runs are compared as they are"),
        (["RUNS/random-0", "RUNS/random-0"], 2, "the same settings and seed"),
        (["RUNS/random-0", "RUNS/no-such"], 4, "no run folder at"),
        (["smoke", "--dir", "RUNS"], 4, "holds no comparison"),
    ],
)
def test_wrong_arguments_are_one_line(
    words: list[str], code: int, said: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *(word.replace("RUNS", str(runs)) for word in words)]) == code
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0", (0,)), ("0,1,2", (0, 1, 2)), ("0..4", (0, 1, 2, 3, 4)), ("3,5..6", (3, 5, 6))],
)
def test_seeds(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "4..0", "-1", "1.5", "0...3", "1,"])
def test_wrong_seeds(text: str) -> None:
    with pytest.raises(InputError, match=r"^--seeds "):
        parse_seeds(text)


# --- the plan ------------------------------------------------------------------------------------


def planned(**changes: Any) -> ComparisonPlan:
    given: dict[str, Any] = {"sets": ["smoke"], "seeds": [0, 1], "settings": ["search.draws=2"]}
    given["budget"] = Budget("rollouts", 100.0)
    return plan_comparison(load_plugins(), **{**given, **changes})


def test_a_plan_is_read_back_as_it_was(tmp_path: Path) -> None:
    assert ComparisonPlan.read(tmp_path) is None
    plan = planned().counted("smoke", {"least": 90, "most": 100})
    plan.write(tmp_path)
    read = ComparisonPlan.read(tmp_path)
    assert read is not None and read == plan and read.differs(planned()) == ""
    assert read.conditions[0].rollouts == {"least": 90, "most": 100}
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(RunFolderError, match="not the plan of a comparison"):
        ComparisonPlan.read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": [0, 1, 2]}, "seeds [0, 1, 2], not [0, 1]"),
        ({"settings": []}, "settings [], not"),
        ({"budget": None}, "budget null, not"),
        ({"budget": Budget("tokens", 100.0)}, "budget"),
        ({"sets": ["smoke", "default"]}, "conditions smoke default, not smoke"),
    ],
)
def test_another_comparison_is_told_apart(changes: dict[str, Any], words: str) -> None:
    assert words in planned().differs(planned(**changes))


def test_a_set_that_says_something_else_now_is_told_apart() -> None:
    plan = planned()
    (condition,) = plan.conditions
    changed = evolve(plan, conditions=(evolve(condition, settings_hash="other"),))
    assert "other settings in smoke" in plan.differs(changed)


def test_the_runs_of_a_plan_seed_by_seed(tmp_path: Path) -> None:
    plan = planned(sets=["smoke", "default"], files=[])
    made = plan.runs(tmp_path)
    assert [each.folder.name for each in made] == ["smoke-0", "default-0", "smoke-1", "default-1"]
    assert made[3].arguments == (
        *("--plugin-set", "default", "search.draws=2", "cap.rollouts=105", "--seed", "1"),
    )


# --- what is there already -----------------------------------------------------------------------


def test_what_each_run_folder_needs(runs: Path, tmp_path: Path) -> None:
    assert standing(runs / "random-0") == "finished"
    assert standing(runs / "random-2") == "capped"
    assert standing(tmp_path / "none") == "new"
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / ".lock").touch()
    (torn / "journal.jsonl").write_text('{"event": "run_st')
    assert standing(torn) == "new" and not torn.exists()


def test_runs_that_are_there_are_not_made_again(runs: Path) -> None:
    """No process is started: what is finished stands, and at its cap it would only stop again."""
    there = [
        evolve(each, folder=runs / name)
        for each, name in zip(
            planned(seeds=[0, 1]).runs(runs), ("random-0", "random-2"), strict=True
        )
    ]
    said: list[str] = []
    ended = execute(there, said.append)
    assert ended == {2: Ended(5, collect(runs / "random-2").reason)}
    assert said == ["1 of 2 runs are finished already"]


def test_a_record_stands_for_the_folder_of_a_finished_run(runs: Path, tmp_path: Path) -> None:
    for name in ("random-0", "random-2"):
        shutil.copytree(runs / name, tmp_path / name)
    whole, capped = tmp_path / "random-0", tmp_path / "random-2"
    assert kept(whole) is None
    made = keep(whole)
    assert made == collect(whole) and kept(whole) == made
    assert keep(capped) == collect(capped) and kept(capped) is None  # it has no result
    shutil.rmtree(whole)
    assert standing(whole) == "finished"
    (first, _) = planned().runs(tmp_path)
    run = evolve(first, folder=whole)
    assert execute([run], lambda words: None) == {}
    with pytest.raises(RunFolderError, match="not those of the comparison's plan"):
        gathered(evolve(made, run="smoke-0"), tmp_path)
    (condition,) = gathered(
        evolve(made, run="smoke-0", settings_hash=run.condition.settings_hash), tmp_path
    )
    assert condition.scores == {0: made.final["mean"]}
    assert [each.state for each in condition.runs] == ["finished", "failed"]


def gathered(record: RunRecord, folder: Path) -> list[Condition]:
    """Return the conditions of ``planned`` where no more than this record is there."""
    path = kept_at(folder / record.run)
    path.write_text(json.dumps({"format": 1, "record": asdict(record)}))
    return conditions_of(planned(), folder, {})


@pytest.mark.parametrize(
    "text", ["{}", "[]", "{", '{"format": 2}', '{"format": 1, "record": {"run": "a"}}']
)
def test_a_record_that_cannot_be_read_is_an_error(text: str, tmp_path: Path) -> None:
    path = kept_at(tmp_path / "a-0")
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(RunFolderError, match=r"a-0\.json is not the record of a run"):
        standing(tmp_path / "a-0")


def test_a_record_of_another_run_is_an_error(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "random-0", tmp_path / "random-0")
    keep(tmp_path / "random-0")
    kept_at(tmp_path / "random-0").rename(kept_at(tmp_path / "other-0"))
    with pytest.raises(RunFolderError, match="not the record of a finished run other-0"):
        kept(tmp_path / "other-0")
