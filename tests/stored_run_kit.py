"""Run folders made by hand, past any model: every number in them is known, every text is given.

They are written through the run folder's own classes, so that any reader takes them for runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]
from attrs import asdict, frozen

from whale_core.keys import DrawKey, content_hash
from whale_core.records import Call, Message, Outcome, ToolEvent, Trajectory, Verdict
from whale_core.roles import Rejection, Score
from whale_core.run.archive import ArchiveEntry, ScoreRecord, metadata_bytes
from whale_core.run.folder import RunFolder, write_json
from whale_core.run.ledger import Charge, Ledger, rollout_charge
from whale_core.run.stored import trajectory_json
from whale_core.stats import mean_interval, paired_difference

EXAMPLES = 16
BASE = 'class Harness:\n    """Asks once."""\n\n    PROMPT = "Name a letter."\n    TRIES = 1\n'
BETTER = BASE.replace("TRIES = 1", "TRIES = 3").replace("once", "three times")
SEALED_ANSWER = "sealed answer of the test split"


@frozen
class Told:
    """What a stored run is made to say. ``text`` stands wherever a model could have written."""

    text: str = "plain words"
    seed: int = 0
    start: float = 0.125  # solved by the first pair
    weights: float = 0.5  # after the weight phase
    final: float = 0.75  # after the harness phase
    finished: bool = True
    iterations: int = 2  # of the search, at most 2
    coordinates: str = "both"  # or "weights", "harness", "none": what ran
    trained: int | None = EXAMPLES  # rollouts a weight step trained on at most; None: not told
    plugin_set: str = "smoke"
    domain: str = "toy"

    @property
    def words(self) -> str:
        """The text for files that are strict UTF-8: without lone surrogates."""
        return self.text.encode("utf-8", "ignore").decode()


def rewards(share: float) -> list[float]:
    """Return the rewards of all examples, the first ones solved."""
    return [float(index < round(share * EXAMPLES)) for index in range(EXAMPLES)]


def score(harness: str, weights: str, share: float) -> Score:
    """Return a candidate's score of one draw each."""
    got = {f"harness-{index:02}": (each,) for index, each in enumerate(rewards(share))}
    return Score(harness, weights, share, EXAMPLES, 0, got, 1.0, 8 * EXAMPLES, {"format": share})


def episodes(
    told: Told, purpose: str, harness: str, weights: str, share: float, cycle: int, step: int
) -> list[Trajectory]:
    """Return a rollout of each example."""
    words = SEALED_ANSWER if purpose == "test" else told.text
    made = []
    for index, reward in enumerate(rewards(share)):
        example = f"{purpose}-{index:02}"
        sent = (Message("system", f"Do it. {words}"), Message("user", f"Task {index}: {words}"))
        ids, prompt = np.arange(8, dtype=np.int32), np.arange(20, dtype=np.int32)
        said = Call(prompt, ids, np.zeros(8, np.float32), words, "end", weights, sent)
        made.append(
            Trajectory(
                example_id=example,
                harness_id=harness,
                weights_id=weights,
                key=DrawKey(told.seed, purpose, cycle, step, example, 0),
                calls=(said,),
                events=(ToolEvent("say", {"letter": words}, {"heard": words}, 1),),
                answer=words,
                record={},
                outcome=Outcome.PASS if reward else Outcome.FAIL,
                verdict=Verdict(reward, {"exact": reward}),
                metrics={"format": share},
            )
        )
    return made


class Writer:
    """Writes one run."""

    def __init__(self, path: Path, told: Told) -> None:
        self.told = told
        self.folder = RunFolder.create(path)
        self.ledger = Ledger()
        self.h0, self.h1 = content_hash(BASE), content_hash(BETTER)
        self.ends: list[dict[str, Any]] = []

    def rollouts(
        self, purpose: str, phase: int, harness: str, weights: str, share: float, step: int = 0
    ) -> None:
        """Commit a block of rollouts with its charges."""
        cycle = min(phase, 1)
        made = episodes(self.told, purpose, harness, weights, share, cycle, step)
        name = f"rollouts/phase-{phase:03d}.jsonl"
        self.folder.append(name, [trajectory_json(each) for each in made])
        self.charge(rollout_charge(made, purpose, phase, cycle, 2.0))
        self.folder.commit("rollouts", phase=phase, purpose=purpose, rollouts=len(made))

    def charge(self, charge: Charge) -> None:
        """Append a charge; the next block commits it."""
        self.folder.append("ledger.jsonl", [self.ledger.charge(charge)])

    def end(self, phase: int, kind: str, harness: str, weights: str, share: float) -> None:
        """Measure on selection and end the phase."""
        self.rollouts("select", phase, harness, weights, share)
        selection = pair_score(harness, weights, share, "selection")
        self.ends.append(selection)
        signals = {"start": [], "weights": [0.25, 0.5], "harness": [0.5, 0.75]}[kind]
        cycle = min(phase, 1)
        result = {"kind": kind, "cycle": cycle, "length": len(signals), "signals": signals}
        self.folder.commit(
            "phase_done",
            phase=phase,
            kind=kind,
            cycle=cycle,
            step=0 if kind == "start" else 2,
            result=result if signals else None,
            harness=harness[:8],
            harness_id=harness,
            checkpoint=None if kind == "start" else "step-000002",
            weights_id=weights,
            sampler={"epoch": 0, "taken": 0},
            search={},
            selection={**selection, "means": {}},
        )
        source = BETTER if harness == self.h1 else BASE
        (self.folder.path / "accepted" / f"phase-{phase:03d}.py").write_text(source)

    def weight_step(self, step: int, reward: float) -> None:
        """Train a step."""
        self.rollouts("train", 1, self.h0, "weights-0", reward, step)
        self.charge(Charge("trainer", "train", 1, 1, trained_tokens=64, seconds=1.0))
        accepted = round(reward * EXAMPLES)
        self.folder.commit(
            "weight_step",
            phase=1,
            step=step,
            weights_id="weights-1",
            prompts=2,
            rollouts=EXAMPLES,
            scored=EXAMPLES,
            accepted=accepted,
            reward=reward,
            updates=1,
            trained_tokens=64,
            loss=1.0,
            changed_share=0.5,
            seconds=1.0,
            metrics={},
            trained_on=None
            if self.told.trained is None
            else [
                {"step": step, "example_id": f"train-{i:02}", "draw": 0, "tokens": 8}
                for i in range(min(accepted, self.told.trained))
            ],
            reasons={f"error: {self.told.text}": 2},
        )

    def search(self) -> None:
        """Search two iterations: score the incoming harness, then accept one of two candidates."""
        told, at = self.told, "weights-1"
        entries = [
            entry("h0000", BASE, None, told, 1, [score(self.h0, at, told.weights)]),
            entry("h0001", BETTER, "h0000", told, 2, [score(self.h1, at, told.final)]),
            entry("h0002", BASE + "\n", "h0000", told, 2, [], Rejection("load", told.words)),
        ]
        for each in entries:
            put(self.folder.path, each)
        self.rollouts("score", 2, self.h0, at, told.weights)
        self.iteration(1, told.weights, "h0000", entries[:1])
        if told.iterations < 2:
            return
        self.folder.append("answers.jsonl", [{"candidates": [], "tokens": 900, "usd": 0.25}])
        self.charge(
            Charge("proposer", "propose", 2, 1, calls=3, prompt_tokens=800, sampled_tokens=100,
                   seconds=5.0, usd=0.25)
        )  # fmt: skip
        self.folder.commit("proposal", phase=2, iteration=2)
        self.rollouts("score", 2, self.h1, at, told.final)
        self.charge(
            Charge("judge", "score", 2, 1, calls=16, prompt_tokens=320, sampled_tokens=16, usd=0.05)
        )
        self.iteration(2, told.final, "h0001", entries[1:])

    def iteration(
        self, number: int, best: float, accepted: str, entries: Sequence[ArchiveEntry]
    ) -> None:
        """Commit a search iteration."""
        ids = {"h0000": self.h0, "h0001": self.h1}
        self.folder.commit(
            "search_iteration",
            phase=2,
            iteration=number,
            best=best,
            accepted=accepted,
            accepted_id=ids[accepted],
            reason=self.told.text,
            seconds=1.0,
            candidates=[
                {
                    "harness": each.id,
                    "id": each.harness.id,
                    "parent": each.parent,
                    "axis": each.axis,
                    "changes": each.changes,
                    "mean": each.scores[-1].score.mean if each.scores else None,
                    "metrics": {},
                    "reasons": {},
                    "rejection": None if each.rejection is None else asdict(each.rejection),
                    "position_leak": {},
                }
                for each in entries
            ],
        )

    def finish(self) -> None:
        """Decide, open the test, write the result."""
        told = self.told
        self.folder.commit("decision", chosen=2, selection_means=[e["mean"] for e in self.ends])
        self.folder.commit("test_opened", openings=2)
        shares = {
            "theta0_h0": (self.h0, "weights-0", told.start),
            "theta0_h": (self.h1, "weights-0", told.start),
            "theta_h0": (self.h0, "weights-1", told.weights),
            "theta_h": (self.h1, "weights-1", told.final),
        }
        pairs = {}
        for name, (harness, weights, share) in shares.items():
            self.rollouts("test", 2, harness, weights, share)
            pairs[name] = pair_score(harness, weights, share, "test")
            means = {f"test-{i:02}": got for i, got in enumerate(rewards(share))}
            self.folder.commit("evaluation", pair=name, score={**pairs[name], "means": means})
        compared = [("theta_h", "theta0_h0"), ("theta_h", "theta0_h"), ("theta_h", "theta_h0")]
        result = {
            "plugin_set": told.plugin_set,
            "seed": told.seed,
            "test_openings": 2,
            "test_split_hash": "00ff" * 4,
            "ended": "the scheduler's budget was used",
            "jail": "bubblewrap",
            "decided_at_phase": 2,
            "pairs": pairs,
            "differences": [difference(a, b, shares[a][2], shares[b][2]) for a, b in compared],
            "chance": {"uniform": 0.1},
            "null_models": [{"name": "first-listed", "mean": 0.2, "chance": 0.1, "examples": 16}],
            "selection": self.ends,
            "ledger": self.ledger.totals(),
            "seconds": 100.0,
            "sentence": f"What the run says of itself. {told.words}",
        }
        write_json(self.folder.path / "result.json", result)
        text = (self.folder.path / "result.json").read_text(encoding="utf-8")
        self.folder.commit("run_done", seconds=100.0, result_hash=content_hash(text))


def pair_score(harness: str, weights: str, share: float, split: str) -> dict[str, Any]:
    """Return a pair's score as results hold it."""
    found = mean_interval(np.array(rewards(share)))
    return {
        "harness": harness[:8],
        "harness_id": harness,
        "weights_id": weights,
        "split": split,
        "examples": EXAMPLES,
        "draws": 1,
        **asdict(found),
        "metrics": {"format": share},
        "parts": {},
        "sources": {},
    }


def difference(a: str, b: str, first: float, second: float) -> dict[str, Any]:
    """Return a paired difference as results hold it."""
    found = paired_difference(np.array(rewards(first)), np.array(rewards(second)))
    return {"a": a, "b": b, "examples": EXAMPLES, **asdict(found)}


def entry(
    name: str,
    source: str,
    parent: str | None,
    told: Told,
    iteration: int,
    scores: Sequence[Score],
    rejection: Rejection | None = None,
) -> ArchiveEntry:
    """Return a harness of the archive."""
    records = tuple(
        ScoreRecord(number, 1, 2, iteration, each) for number, each in enumerate(scores)
    )
    said = told.words if parent else ""
    return ArchiveEntry(
        name, source, 1, 2, iteration, parent, said, said, said, rejection, scores=records
    )


def put(run: Path, each: ArchiveEntry) -> None:
    """Write a harness into the archive."""
    folder = run / "harnesses" / each.id
    folder.mkdir()
    (folder / "harness.py").write_bytes(each.source.encode())
    (folder / "metadata.json").write_bytes(metadata_bytes(each))


def write_run(path: Path, told: Told) -> Path:
    """Write a run of a weight and a harness phase, and return its folder."""
    run = Writer(path, told)
    roles = ("domain", "verifier", "engine", "proposer", "model_update", "harness_search")
    settings: dict[str, Any] = {"plugin_set": told.plugin_set, "seed": told.seed, "harness": ""}
    settings |= {role: {"name": told.domain} for role in roles}
    settings["note"] = told.words
    (path / "config.yaml").write_text(yaml.safe_dump(settings, allow_unicode=False))
    (path / "h0.py").write_text(BASE)
    split = {"examples": EXAMPLES, "hash": "00ff" * 4}
    manifest = {
        "whale": "0.1.0",
        "seed": told.seed,
        "settings_hash": "0123456789abcdef",
        "engine": {"engine": "transformers", "model": told.words, "dtype": "bfloat16"},
        "harness": run.h0,
        "domain": {"name": told.domain, "version": "1"},
        "verifier": "toy-1",
        "splits": dict.fromkeys(("weight", "harness", "selection", "test"), split),
        "plugins": {"domain": "whale-core 0.1.0"},
        "jail": "bubblewrap",
        "python": "3.11.7",
        "machine": "Linux x86_64",
        "packages": {"numpy": "2.4.6"},
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
    try:
        _play(run)
    finally:
        run.folder.close()
    return path


def _play(run: Writer) -> None:
    told = run.told
    known = content_hash(told.plugin_set)
    run.folder.commit("run_started", run="run", settings_hash=known, started=0.0)
    run.end(0, "start", run.h0, "weights-0", told.start)
    if told.coordinates in ("both", "weights"):
        run.weight_step(1, 0.25)
        run.weight_step(2, 0.5)
        run.end(1, "weights", run.h0, "weights-1", told.weights)
    if told.coordinates in ("both", "harness"):
        run.search()
    if told.finished:
        run.end(2, "harness", run.h1, "weights-1", told.final)
        run.finish()
