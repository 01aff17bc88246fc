"""The final pass: decide on the selection split, then open the sealed test once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import asdict, frozen

from whale_core.keys import content_hash
from whale_core.records import Example, Json
from whale_core.run.contexts import null_results
from whale_core.run.evaluation import Pair, PairScore, load_pair, measure
from whale_core.run.folder import RunFolder, write_json
from whale_core.run.loop import Alternation
from whale_core.run.paired import paired
from whale_core.run.parts import chosen_examples
from whale_core.run.passes import pass_table
from whale_core.run.sealed import record_opening, split_hash
from whale_core.stats import paired_difference

RESULT = "result.json"
CORNERS = ("theta0_h0", "theta0_h", "theta_h0", "theta_h")
COMPARED = (
    ("theta_h", "theta0_h0"),
    ("theta_h", "theta0_h"),
    ("theta_h", "theta_h0"),
    ("theta0_h", "theta0_h0"),
    ("theta_h0", "theta0_h0"),
)


@frozen
class RunIdentity:
    """What a result says about the run that made it."""

    plugin_set: str
    seed: int
    settings_hash: str
    jail_kind: str


async def finish(run: Alternation, identity: RunIdentity) -> dict[str, Json]:
    """Return the run's result, and write it to ``result.json``."""
    folder, parts = run.folder, run.parts
    chosen = _decide(folder, run.selection)
    start, final = run.selection[0].pair, run.selection[chosen].pair
    examples, _ = chosen_examples(parts.unsealed, "test", run.core.test.examples, "test")
    test_hash = split_hash(parts.unsealed.split("test"))
    openings = _open_test(folder, test_hash)
    scores = await _corners(run, start, final, examples)
    nulls = await null_results(final.harness, parts.domain, examples, run.rollouts)
    chance = dict(parts.unsealed.chance_levels(examples))
    result: dict[str, Json] = {
        "plugin_set": identity.plugin_set,
        "seed": identity.seed,
        "settings_hash": identity.settings_hash,
        "test_split_hash": test_hash,
        "test_openings": openings,
        "ended": "the scheduler's budget was used",
        "jail": identity.jail_kind,
        "engine": dict(parts.engine.facts()),
        "phases": run.number,
        "decided_at_phase": chosen,
        "pairs": {name: _corner(score) for name, score in scores.items()},
        "differences": [_difference(scores, a, b) for a, b in COMPARED],
        "chance": chance,
        "null_models": [asdict(null) for null in nulls],
        "selection": [_without_means(score) for score in run.selection],
        "ledger": run.rollouts.ledger.totals(),
        "seconds": round(folder.seconds, 1),
        "sentence": _sentence(
            scores,
            chance,
            parts.proposer.note if parts.proposer else "",
            run.rollouts.ledger.judge_note(),
        ),
    }
    path = folder.path / RESULT
    write_json(path, result)
    folder.stop = False  # there is nothing left to stop
    written = content_hash(path.read_text(encoding="utf-8"))
    folder.commit("run_done", seconds=result["seconds"], result_hash=written)
    return result


def _decide(folder: RunFolder, selection: Sequence[PairScore]) -> int:
    """Return the index of the pair to report: best on selection, the later of equals."""
    means = [score.interval.mean for score in selection]
    chosen = max(range(len(means)), key=lambda index: (means[index], index))
    folder.commit("decision", chosen=chosen, selection_means=means)
    return chosen


def _open_test(folder: RunFolder, test_hash: str) -> Json:
    recorded = folder.recorded_entry("test_opened")
    run = str(folder.entries[0].get("run"))
    openings = recorded.get("openings") if recorded else record_opening(test_hash, run)
    folder.commit("test_opened", test_split_hash=test_hash, openings=openings)
    return openings


async def _corners(
    run: Alternation, start: Pair, final: Pair, examples: Sequence[Example]
) -> dict[str, PairScore]:
    """Measure the 2 × 2 of the pair on the test split; equal pairs are measured once."""
    pairs = {
        "theta0_h0": start,
        "theta0_h": Pair(final.harness, start.checkpoint, start.weights_id),
        "theta_h0": Pair(start.harness, final.checkpoint, final.weights_id),
        "theta_h": final,
    }
    scores: dict[str, PairScore] = {}
    for name in CORNERS:
        pair = pairs[name]
        same = [s for s in scores.values() if _identity(s.pair) == _identity(pair)]
        if same:
            scores[name] = same[0]
        else:
            await load_pair(run.parts.engine, run.folder.path, pair)
            draws = run.core.test.draws
            scores[name] = await measure(run.rollouts, pair, "test", examples, draws, "test")
        told = not run.folder.replaying
        run.folder.commit("evaluation", pair=name, score=scores[name].as_json())
        if told:
            run.observers.on_evaluation(scores[name].event(name))
    return scores


def _identity(pair: Pair) -> tuple[str, str]:
    return pair.harness.id, pair.weights_id


def _difference(scores: Mapping[str, PairScore], a: str, b: str) -> dict[str, Json]:
    """Compare two pairs on the examples scored on both sides; None where there are none.

    A pair does not differ from itself: no interval is needed.
    """
    ours, theirs = paired(scores[a].means, scores[b].means)
    if not len(ours):
        return {"a": a, "b": b, "examples": 0, "mean": None, "low": None, "high": None}
    if _identity(scores[a].pair) == _identity(scores[b].pair):
        return {"a": a, "b": b, "examples": len(ours), "mean": 0.0, "low": 0.0, "high": 0.0}
    interval = paired_difference(ours, theirs)
    return {"a": a, "b": b, "examples": len(ours), **asdict(interval)}


def _without_means(score: PairScore) -> dict[str, Json]:
    left_out = ("means", "passes")
    return {key: value for key, value in score.as_json().items() if key not in left_out}


def _corner(score: PairScore) -> dict[str, Json]:
    return {**_without_means(score), "pass_at": pass_table(score.passes, score.draws)}


def _sentence(scores: Mapping[str, PairScore], chance: Mapping[str, float], *notes: str) -> str:
    """Say in plain words what happened, and what ``notes`` say."""
    percent = {name: f"{100 * score.interval.mean:.1f} %" for name, score in scores.items()}
    gain = _difference(scores, "theta_h", "theta0_h0")
    if gain["mean"] is None:
        verdict = "No example was scored under both the trained and the starting pair"
    elif gain["low"] > 0:
        verdict = "The trained pair beats the pair it started from"
    elif gain["high"] < 0:
        verdict = "The trained pair is worse than the pair it started from"
    else:
        verdict = "No difference to the starting pair can be seen"
    start, final = scores["theta0_h0"].pair, scores["theta_h"].pair
    if final.harness.id == start.harness.id:
        harness = "its harness is the one it started from"
    else:
        harness = f"the new harness with the old weights reaches {percent['theta0_h']}"
    if final.weights_id == start.weights_id:
        weights = "its weights are the ones it started from"
    else:
        weights = f"the new weights with the old harness reach {percent['theta_h0']}"
    words = (
        f"{verdict}: {percent['theta_h']} against {percent['theta0_h0']} of the sealed test; "
        f"{harness}, {weights}."
    )
    if chance:
        lines = ", ".join(f"{name} {100 * value:.1f} %" for name, value in chance.items())
        words += f" For scale: {lines}."
    return " ".join(filter(None, (words, *notes)))
