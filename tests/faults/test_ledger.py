"""The ledger against counts taken independently, at the engine and the trainer themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from whale_core.config import resolve
from whale_core.errors import CapReached, EngineError
from whale_core.plugins.manager import load_plugins
from whale_core.records import Generation, GenerationRequest, Row
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.run.session import resume, run
from whale_rsft.torch_trainer import TorchTrainer
from whale_transformers.engine import TransformersEngine

COUNTED = ("rollouts", "calls", "prompt_tokens", "cached_tokens", "sampled_tokens")
Key = tuple[str, int, int]  # role, phase, cycle


class Meter:
    """Counts at the engine's and the trainer's own doors, under where the run says it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: dict[Key, Counter[str]] = {}
        self.where = (0, 0)
        self.fails_at = -1  # this call of the engine fails
        self.spoils_at = -1  # the first answer of this call is none
        self.calls = 0
        generate, play, train = (
            TransformersEngine.generate,
            RolloutExecutor.run,
            TorchTrainer.train,
        )

        async def counted_generate(
            engine: TransformersEngine, requests: Sequence[GenerationRequest]
        ) -> list[Generation]:
            self.calls += 1
            if self.calls == self.fails_at:
                raise EngineError("planned")
            made = await generate(engine, requests)
            count = self.at("policy")
            for request, generation in zip(requests, made, strict=True):
                count["calls"] += 1
                count["prompt_tokens"] += len(request.prompt_ids)
                count["cached_tokens"] += generation.cached_tokens
                count["sampled_tokens"] += len(generation.token_ids)
            if self.calls == self.spoils_at:
                made[0] = evolve(made[0], finish_reason="?")
            return made

        async def counted_run(executor: RolloutExecutor, jobs: Sequence[Job], policy: Any) -> Any:
            if jobs[0].key.purpose != "null":
                self.where = self.place(jobs[0])
                self.at("policy")["rollouts"] += len(jobs)
            return await play(executor, jobs, policy)

        async def counted_train(
            trainer: TorchTrainer, batches: Sequence[Sequence[Row]], engine: Any
        ) -> Any:
            tokens = sum(int(row.loss_mask.sum()) for rows in batches for row in rows)
            self.at("trainer")["trained_tokens"] += tokens
            return await train(trainer, batches, engine)

        monkeypatch.setattr(TransformersEngine, "generate", counted_generate)
        monkeypatch.setattr(RolloutExecutor, "run", counted_run)
        monkeypatch.setattr(TorchTrainer, "train", counted_train)

    def at(self, role: str) -> Counter[str]:
        return self.counts.setdefault((role, *self.where), Counter())

    def place(self, job: Job) -> tuple[int, int]:
        """Return phase and cycle: of the set ``smoke``, three phases in two cycles."""
        key = job.key
        if key.purpose == "train":
            return (1, 1) if key.step <= 3 else (3, 2)
        if key.purpose in ("score", "smoke"):
            return key.step, key.cycle
        if key.purpose == "select":  # measured at the end of each phase, the first before all
            before = sum(count["rollouts"] > 0 for count in self.counts.values())
            return self.where if before else (0, 0)
        return 3, 2


def ledger_of(folder: Path) -> dict[Key, Counter[str]]:
    sums: dict[Key, Counter[str]] = {}
    for text in (folder / "ledger.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line["role"] == "proposer":
            continue
        sums.setdefault((line["role"], line["phase"], line["cycle"]), Counter()).update(
            {name: line[name] for name in (*COUNTED, "trained_tokens")}
        )
    return sums


def nonzero(counts: dict[Key, Counter[str]]) -> dict[Key, dict[str, int]]:
    return {key: {k: v for k, v in count.items() if v} for key, count in sorted(counts.items())}


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WHALE_STATE", str(tmp_path / "state"))


def test_it_equals_what_was_counted_also_after_a_fault_and_a_cap(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    meter = Meter(monkeypatch)
    meter.fails_at = 5  # in the second weight step: all of its rollouts are made again
    meter.spoils_at = 9
    plugins = load_plugins()
    folder = tmp_path / "run"
    # Reached in the search: a weight phase would train again after the resume, without charge.
    resolved = resolve(plugins, "smoke", [], ["cap.tokens=16600"])
    with pytest.raises(CapReached, match=r"cap\.tokens=16600"):
        run(resolved, plugins, folder)
    assert nonzero(ledger_of(folder)) == nonzero(meter.counts)
    spent = sum(c["prompt_tokens"] + c["sampled_tokens"] for c in meter.counts.values())
    assert spent >= 16600

    result = resume(folder, plugins, ["cap.tokens=0"])
    assert nonzero(ledger_of(folder)) == nonzero(meter.counts)
    totals = result["ledger"]
    for name in (*COUNTED, "trained_tokens"):
        assert totals[name] == sum(count[name] for count in meter.counts.values()), name
    phases = {key.split("/")[0] for key in totals["phases"]}
    assert phases == {"0", "1", "2", "3"}
    assert totals["harness_cpu_seconds"] > 0 and totals["peak_memory_mb"] > 100
    assert 0 < totals["cached_tokens"] < totals["prompt_tokens"]
