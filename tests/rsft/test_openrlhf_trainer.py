"""What trainer ``openrlhf`` refuses, in one line, before anything of Ray or OpenRLHF is needed.

What it does is tested in the cluster lane (tests/cluster).
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import evolve
from rsft_kit import row

from whale_core import ray_connection
from whale_core.errors import InputError, RunFolderError, TrainerError
from whale_rsft.config import Config, LoRA
from whale_rsft.openrlhf.options import Step
from whale_rsft.openrlhf.pin import OPENRLHF
from whale_rsft.openrlhf.settings import OpenRLHF
from whale_rsft.openrlhf.trainer import FACTS, OpenRLHFTrainer
from whale_rsft.trainers import make_trainer

CONFIG = Config(trainer="openrlhf", openrlhf=OpenRLHF(ranks=2, gpus_per_rank=0.0))


class Engine:
    """Serves weights of a name; saves a folder without any."""

    def __init__(self) -> None:
        self.served = "served"
        self.config = "{}"
        self.calls: list[str] = []

    async def weights_id(self) -> str:
        return self.served

    async def save(self, path: Path) -> str:
        path.mkdir()
        (path / "config.json").write_text(self.config)
        return self.served

    async def load(self, path: Path) -> str:
        self.calls.append("hand over")
        self.served += "'"
        return self.served

    async def sleep(self) -> None:
        self.calls.append("sleep")


ENGINE = cast(Any, Engine())


class FakeSession:
    """Writes into the engine's list what actors would be called for, but for hashes and scores."""

    calls: list[str]

    def __init__(self, settings: OpenRLHF, use: object) -> None:
        self.ranks = settings.ranks

    def start(self) -> None:
        self.calls.append("start")

    def call(self, method: str, *arguments: Any) -> list[Any]:
        self.calls.append(method)
        if method in ("save", "publish"):
            arguments[0].mkdir()
        return [None] * self.ranks

    def call_each(self, method: str, arguments: list[Any]) -> list[Any]:
        self.calls.append(method)
        return [Step(nll=1.0, gap=0.0, grad_norm=1.0, changed=1, values=2) for _ in arguments]

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine whose ``calls`` are its own and the actors', in order."""
    engine = Engine()
    monkeypatch.setattr(FakeSession, "calls", engine.calls, raising=False)
    monkeypatch.setattr("whale_rsft.openrlhf.trainer.Session", FakeSession)
    monkeypatch.setattr("whale_rsft.openrlhf.trainer.check_installed", lambda: None)
    return engine


def taken(calls: list[str]) -> list[str]:
    """Return the calls so far, and begin anew."""
    done = list(calls)
    calls.clear()
    return done


def state(folder: Path, **facts: object) -> Path:
    usual = {
        "openrlhf": OPENRLHF,
        "layout": {"ranks": 2, "zero": 2},
        "trained": True,
        "weights_id": "served",
    }
    (folder / FACTS).write_text(json.dumps({**usual, **facts}))
    return folder


@pytest.mark.skipif(find_spec("openrlhf") is not None, reason="openrlhf is installed here")
async def test_without_openrlhf_it_says_what_to_install() -> None:
    trainer = make_trainer(CONFIG, 0)  # a plan needs no more than this
    with pytest.raises(InputError, match=rf"{OPENRLHF} exactly, none is installed: pip install"):
        await trainer.prepare(ENGINE)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("whale_rsft.openrlhf.trainer.check_installed", lambda: None)
    (tmp_path / "file").touch(mode=0o777)
    for name in ("missing", "file"):
        settings = OpenRLHF(gpus_per_rank=0.0, folder=str(tmp_path / name))
        trainer = OpenRLHFTrainer(evolve(CONFIG, openrlhf=settings), 0)
        with pytest.raises(InputError, match=rf"openrlhf\.folder=.*/{name}: no folder"):
            trainer.check()


async def test_what_it_will_want_of_ray_is_known_before_the_engine_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whale_rsft.openrlhf.trainer.check_installed", lambda: None)
    settings = OpenRLHF(address="a:1", nodes=2, ranks=8, gpus_per_rank=0.5, folder="/tmp")
    trainer = OpenRLHFTrainer(evolve(CONFIG, openrlhf=settings), 0)
    for _ in range(2):
        trainer.check()
    (planned,) = ray_connection._planned
    assert (planned.setting, planned.address) == ("model_update.openrlhf.address", "a:1")
    assert planned.gpus == 8.0 and "nodes=2 x ranks=8 at gpus_per_rank=0.5" in planned.wish
    await trainer.close()
    assert not ray_connection._planned


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (evolve(CONFIG, lora=LoRA(rank=4)), r"no model_update\.lora\.rank"),
        (evolve(CONFIG, logits_at_once=64), r"no model_update\.logits_at_once"),
        (evolve(CONFIG, openrlhf=OpenRLHF(nodes=2)), r"set model_update\.openrlhf\.folder"),
    ],
)
def test_settings_that_do_not_go_together(config: Config, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_trainer(config, 0)


async def test_state_before_the_first_phase_starts_nothing(tmp_path: Path) -> None:
    await OpenRLHFTrainer(CONFIG, 0).save(tmp_path)
    await OpenRLHFTrainer(CONFIG, 0).load(tmp_path, ENGINE)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"layout": {"ranks": 4, "zero": 2}}, "written by 4 ranks with ZeRO 2 .* here are 2 ranks"),
        ({"layout": {"ranks": 2, "zero": 3}}, "written by 2 ranks with ZeRO 3"),
        ({"layout": "?"}, "can only be continued as it was"),
        ({"openrlhf": "0.11.1"}, r"openrlhf 0\.11\.1\), here"),
        ({"weights_id": "other"}, "does not serve the weights"),
    ],
)
async def test_state_of_another_layout_or_other_weights_is_refused(
    tmp_path: Path, facts: dict[str, object], message: str
) -> None:
    with pytest.raises(RunFolderError, match=message):
        await OpenRLHFTrainer(CONFIG, 0).load(state(tmp_path, **facts), ENGINE)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", "null"])
async def test_a_bad_state_is_one_clear_error(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / FACTS).write_text(content)
    with pytest.raises(RunFolderError, match="no readable state"):
        await OpenRLHFTrainer(CONFIG, 0).load(tmp_path, ENGINE)


INIT = "init_model_from_pretrained"
ROWS = [row([1, 2, 3], [0, 1, 1])]


async def test_offloaded_state_is_on_the_gpus_only_while_it_is_used(
    served: Any, tmp_path: Path
) -> None:
    """And the engine sleeps meanwhile."""
    config = evolve(CONFIG, openrlhf=OpenRLHF(ranks=2, gpus_per_rank=0.5, offload=True))
    trainer = OpenRLHFTrainer(config, 0)
    await trainer.prepare(served)
    assert taken(served.calls) == ["sleep", "start", INIT, "offload"], "before the first rollouts"
    await trainer.train([ROWS, ROWS], served)
    steps = ["sleep", "reload", "step", "step", "offload", "publish", "hand over"]
    assert taken(served.calls) == steps
    await trainer.save(tmp_path / "state")
    assert taken(served.calls) == ["sleep", "reload", "save", "offload"]
    await trainer.close()
    assert taken(served.calls) == ["close"]
    await trainer.load(tmp_path / "state", served)
    assert taken(served.calls) == ["sleep", "start", INIT, "load", "offload"]
    await trainer.close()


async def test_without_offload_nothing_moves_and_saving_wakes_nobody(
    served: Any, tmp_path: Path
) -> None:
    trainer = OpenRLHFTrainer(CONFIG, 0)
    await trainer.prepare(served)
    await trainer.train([ROWS], served)
    await trainer.save(tmp_path / "state")
    done = taken(served.calls)
    assert done == ["sleep", "start", INIT, "sleep", "step", "publish", "hand over", "save"]
    await trainer.close()


async def test_a_model_that_also_sees_is_refused_before_actors_start(served: Any) -> None:
    served.config = '{"model_type": "qwen3_5", "vision_config": {}}'
    with pytest.raises(InputError, match=r"\(qwen3_5\) .* python -m whale_rsft\.text_part"):
        await OpenRLHFTrainer(CONFIG, 0).prepare(served)
    assert served.calls == []


async def test_state_that_ended_with_its_actors_is_never_begun_anew(
    served: Any, tmp_path: Path
) -> None:
    """Neither trained nor loaded state; only loading brings it back."""
    trainer = OpenRLHFTrainer(CONFIG, 0)
    await trainer.prepare(served)
    await trainer.train([ROWS], served)
    kept = tmp_path / "kept"
    await trainer.save(kept)
    for _ in range(2):
        await trainer.close()
        with pytest.raises(TrainerError, match="state with them: resume the run"):
            await trainer.prepare(served)
        with pytest.raises(TrainerError, match="state with them: resume the run"):
            await trainer.save(tmp_path / "ended")
        assert not (tmp_path / "ended").exists()
        await trainer.load(kept, served)
        await trainer.prepare(served)  # it is there
    await trainer.close()


async def test_loaded_state_that_ended_is_not_begun_anew_either(
    served: Any, tmp_path: Path
) -> None:
    """Also by a trainer that has trained nothing itself, as after a resume."""
    first = OpenRLHFTrainer(CONFIG, 0)
    await first.prepare(served)
    await first.train([ROWS], served)
    await first.save(tmp_path / "kept")
    await first.close()
    resumed = OpenRLHFTrainer(CONFIG, 0)
    await resumed.load(tmp_path / "kept", served)
    await resumed.close()
    with pytest.raises(TrainerError, match="state with them: resume the run"):
        await resumed.prepare(served)


async def test_a_state_says_whether_anything_was_trained(served: Any, tmp_path: Path) -> None:
    """Before the first update there is nothing to continue, whoever serves and computes then."""
    trainer = OpenRLHFTrainer(CONFIG, 0)
    await trainer.prepare(served)
    await trainer.save(tmp_path / "before")
    assert [file.name for file in (tmp_path / "before").iterdir()] == [FACTS]
    await trainer.train([ROWS], served)
    await trainer.save(tmp_path / "after")
    said = [json.loads((tmp_path / name / FACTS).read_text()) for name in ("before", "after")]
    assert [each["trained"] for each in said] == [False, True]

    taken(served.calls)
    await trainer.load(tmp_path / "before", served)
    await trainer.prepare(served)
    assert taken(served.calls) == ["close", "sleep", "start", INIT], "not the later state"
    await trainer.close()
    one_rank = evolve(CONFIG, openrlhf=OpenRLHF(ranks=1, gpus_per_rank=0.0))
    await OpenRLHFTrainer(one_rank, 0).load(tmp_path / "before", served)
