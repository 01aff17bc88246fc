"""TensorBoard, with the real library: in the program's own writer, or in the run's folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import frozen
from trackers_kit import Told, scalars

from whale_core.config import resolve
from whale_core.errors import CapReached, InputError
from whale_core.plugins import Registration, hookimpl
from whale_core.plugins.manager import Plugins, load_plugins
from whale_core.plugins.registered import Origin
from whale_core.run.session import resume, run
from whale_core.testing.engine import ScriptedEngine
from whale_trackers import to_tensorboard

pytest.importorskip("tensorboardX", reason="needs whale-trackers[tensorboard]")


def test_a_continued_run_goes_on_with_its_lines(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    killed = to_tensorboard()
    Told(folder, killed).steps([1, 2])
    assert len(scalars(folder / "tensorboard")["train/reward"]) == 2  # on disk, before any end
    killed.end()
    told = Told(folder, to_tensorboard())
    told.steps([3, 4])
    told.end()
    assert told.failed == []
    found = scalars(folder / "tensorboard")
    assert [step for step, _ in found["train/reward"]] == [8, 16, 24, 32]
    assert [value for _, value in found["train/reward"]] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert found["test/theta_h/mean"] == [(32, 0.5)]


def test_the_program_s_own_writer_is_used_and_stays_open(tmp_path: Path) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(tmp_path / "mine")) as mine:
        told = Told(tmp_path / "run", to_tensorboard(mine, prefix="whale/", x="weight_step"))
        told.steps([1, 2])
        told.end()
        mine.add_scalar("after", 1.0, 9)
    assert told.failed == [] and not (tmp_path / "run" / "tensorboard").exists()
    found = scalars(tmp_path / "mine")
    assert [step for step, _ in found["whale/train/loss"]] == [1, 2]
    assert found["after"] == [(9, 1.0)]


@frozen
class NoSettings:
    """Nothing to set."""


def guess(prompt: str, rng: np.random.Generator) -> str:
    return str(rng.choice(list("aeioubcdfg")))


class Guessing:
    """Registers a function as an engine."""

    @hookimpl
    def whale_register_rollout_engines(self) -> list[Registration]:
        def engine(settings: object, setup: object) -> ScriptedEngine:
            return ScriptedEngine(guess)

        return [Registration("guessing", engine, NoSettings, "for a test")]


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plugins:
    monkeypatch.setenv("WHALE_STATE", str(tmp_path / "state"))
    made = load_plugins()
    made.add(Guessing(), Origin("test", "1", "guessing"))
    return made


SETTINGS = [
    *("engine=guessing", "domain=toy", "verifier=toy", "harness=first-listed-letter"),
    *("domain.harness=8", "search.examples=8", "selection={examples: 6, draws: 1}"),
    *("test={examples: 6, draws: 1}", "harness_search.candidates=1", "scheduler.iterations=2"),
]


def test_a_run_by_settings_that_is_stopped_and_continued(plugins: Plugins, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    wanted = [*SETTINGS, "trackers.use=[tensorboard]", "trackers.prefix=w/", "cap.rollouts=15"]
    with pytest.raises(CapReached):
        run(resolve(plugins, "harness-only", [], wanted), plugins, folder)
    before = scalars(folder / "tensorboard")
    assert len(before["w/selection/mean"]) == 1 and "w/test/theta_h/mean" not in before
    result = resume(folder, plugins, ["cap.rollouts=0"])
    found = scalars(folder / "tensorboard")
    assert [value for _, value in found["w/search/iteration"]] == [1.0, 2.0]
    assert len(found["w/selection/mean"]) == 2
    at, mean = found["w/test/theta_h/mean"][0]
    assert mean == pytest.approx(result["pairs"]["theta_h"]["mean"])  # type: ignore[index,call-overload]
    assert at == result["ledger"]["rollouts"]  # type: ignore[index,call-overload]
    assert all(len({step for step, _ in points}) == len(points) for points in found.values())
    assert '"observer_error"' not in (folder / "journal.jsonl").read_text()


def test_settings_that_cannot_be_followed_are_one_line(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*settings: str) -> str:
        with pytest.raises(InputError) as error:
            resolve(plugins, "harness-only", [], [*SETTINGS, *settings])
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "no tracker is called 'tensorbord', did you mean 'tensorboard'?" in refused(
        "trackers.use=[tensorbord]"
    )
    assert "'wandb' stands in the list twice" in refused("trackers.use=[wandb, wandb]")
    assert "trackers.x: must be in" in refused("trackers.x=epochs")
    resolved = resolve(plugins, "harness-only", [], [*SETTINGS, "trackers.use=[tensorboard]"])
    monkeypatch.setattr("whale_trackers.registered.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'whale-trackers\[tensorboard\]'"):
        run(resolved, plugins, tmp_path / "run")
    assert not (tmp_path / "run").exists()  # before anything is spent


def test_trackers_are_no_part_of_what_makes_the_numbers(plugins: Plugins) -> None:
    def settings_hash(*more: str) -> str:
        return resolve(plugins, "harness-only", [], [*SETTINGS, *more]).settings_hash()

    assert settings_hash("trackers.use=[tensorboard]", "trackers.x=tokens") == settings_hash()
