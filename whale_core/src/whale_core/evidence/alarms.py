"""Signs that a run goes wrong: the policy collapsed, or a search stopped paying.

Pure functions of what a run has stored; nothing decides on them. Thresholds, with their reasons:

- ``WINDOW`` steps are compared with ``WINDOW`` steps: a step's prompts are others than the last
  step's, so one step alone says little.
- *entropy*: training on one's own accepted samples always lowers the negative log-likelihood of
  sampled tokens; it is an alarm below ``NLL_LEFT`` of the beginning, and only where the draws of a
  prompt hardly differ any more (fewer than ``FEW_ANSWERS`` answers among them) and the reward is
  below ``SOLVED``: then there is nothing left to select from, though much is unsolved.
- *pass@k*: the share of prompts that any draw solves fell by more than ``DROP`` from its best
  window, and by more than twice its standard error, while the mean reward did not fall as much:
  training concentrates on prompts that were solved anyway.
- *search*: none of the last ``PHASES`` harness phases had a confirmed gain on selection (paired by
  example, interval above 0), and together they gained less than ``SHARE`` of what training gained
  per rollout; or within a phase the best has not risen for ``STILL`` iterations, five rounds of
  proposals (the published patience is two).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from attrs import asdict, frozen

from whale_core.errors import RunFolderError
from whale_core.records import Json
from whale_core.run.folder import LEDGER
from whale_core.run.ledger import MEASURING
from whale_core.run.paired import paired
from whale_core.run.reader import StoredRun
from whale_core.stats import Interval, paired_difference

WINDOW = 3
NLL_LEFT = 0.25
FEW_ANSWERS = 1.5
SOLVED = 0.9
DROP = 0.1
PHASES = 2
SHARE = 0.25
STILL = 5


@frozen
class StepFacts:
    """A weight step by its stored rollouts; means are over prompts.

    ``nll`` is the mean over sampled tokens of their negative log-likelihood, an estimate of the
    policy's entropy per token; None where the engine tells no log-probabilities. ``answers`` is
    how many different answers a prompt got from its ``draws`` draws; ``any_pass`` (pass@k with k =
    draws) the share of prompts that one of them solved.
    """

    step: int
    prompts: int
    draws: float
    nll: float | None
    answers: float
    mean: float
    any_pass: float


@frozen
class PhaseFacts:
    """A finished phase: its ``gain`` on selection over the phase before, paired by example (None:
    no example in common), the rollouts it took, and the best of each search iteration."""

    phase: int
    kind: str
    gain: Interval | None
    rollouts: int
    best: tuple[float, ...] = ()


@frozen
class Alarm:
    """One alarm: its name (``entropy``, ``pass@k``, ``search``), and what was seen, in words."""

    name: str
    words: str

    def as_json(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return asdict(self)


def alarms_of(run: StoredRun) -> list[Alarm]:
    """Return the alarms on a run, running or finished; none where nothing is wrong.

    Raises:
        RunFolderError: its files are damaged.
    """
    return [*policy_alarms(step_facts(train_rollouts(run))), *search_alarms(phase_facts(run))]


def policy_alarms(steps: Sequence[StepFacts]) -> list[Alarm]:
    """Return the alarms ``entropy`` and ``pass@k``; none within the first two windows."""
    if len(steps) < 2 * WINDOW:
        return []
    first, last = steps[:WINDOW], steps[-WINDOW:]
    found = []
    then, now = _mean(each.nll for each in first), _mean(each.nll for each in last)
    answers = _mean(each.answers for each in last) or 0.0
    mean = _mean(each.mean for each in last) or 0.0
    collapsed = then is not None and now is not None and now < NLL_LEFT * then
    if collapsed and answers < FEW_ANSWERS and mean < SOLVED:
        draws = _mean(each.draws for each in last) or 0.0
        words = (
            f"the policy has collapsed: {now:.3g} nats a sampled token, {then:.3g} at first; "
            f"{draws:.0f} draws of a prompt give {answers:.1f} different answers, "
            f"{100 * mean:.0f} % of them right. Go back to an earlier checkpoint, or start again "
            "with a smaller model_update.lr"
        )
        found.append(Alarm("entropy", words))
    windows = [steps[i : i + WINDOW] for i in range(len(steps) - WINDOW + 1)]
    best = max(windows, key=_any_pass)
    fell = _any_pass(best) - _any_pass(last)
    lost = (_mean(each.mean for each in best) or 0.0) - mean
    if fell > max(DROP, 2 * _error(best, last)) and lost < fell / 2:
        found.append(
            Alarm(
                "pass@k",
                f"fewer prompts are solved by any draw: {100 * _any_pass(last):.0f} % in the last "
                f"{WINDOW} steps, {100 * _any_pass(best):.0f} % at steps {best[0].step} to "
                f"{best[-1].step}, while the mean reward went {_signed(-lost)} points. Training "
                "concentrates on what was solved anyway: model_update.max_accepted_per_prompt=1 or "
                "drop_all_pass=true work against it",
            )
        )
    return found


def search_alarms(phases: Sequence[PhaseFacts]) -> list[Alarm]:
    """Return the alarm ``search``, if there is one."""
    searches = [each for each in phases if each.kind == "harness"]
    last = searches[-PHASES:]
    if len(last) == PHASES and not any(each.gain and each.gain.low > 0 for each in last):
        trained = [each for each in phases if each.kind == "weights"]
        by_search, by_training = _per_rollout(last), _per_rollout(trained)
        if by_search <= 0 or by_search < SHARE * by_training:
            return [
                Alarm(
                    "search",
                    f"the search stopped paying: none of the last {PHASES} harness phases has a "
                    f"confirmed gain on selection; they gained {1e5 * by_search:+.2g} points per "
                    f"1,000 rollouts, training {1e5 * by_training:+.2g}. Fewer or shorter harness "
                    "phases, another proposer, or a larger search.examples",
                )
            ]
    best = searches[-1].best if searches else ()
    if len(best) > STILL and max(best[-STILL:]) <= max(best[:-STILL]):
        return [
            Alarm(
                "search",
                f"the search stopped paying: the best of phase {searches[-1].phase} has not risen "
                f"for {STILL} iterations ({100 * max(best):.1f} %)",
            )
        ]
    return []


def step_facts(rollouts: Iterable[Mapping[str, Json]]) -> list[StepFacts]:
    """Return the facts of each weight step, from its rollouts as a run stores them."""
    steps: dict[int, dict[str, list[Mapping[str, Json]]]] = defaultdict(lambda: defaultdict(list))
    for each in rollouts:
        if each["outcome"] != "not_scored":
            steps[int(each["key"]["step"])][str(each["example"])].append(each)
    return [_step(step, groups) for step, groups in sorted(steps.items())]


def train_rollouts(run: StoredRun) -> Iterable[Mapping[str, Json]]:
    """Yield a run's stored training rollouts."""
    return run.stored_rollouts(purpose="train")


def phase_facts(run: StoredRun) -> list[PhaseFacts]:
    """Return the facts of each phase after the start, the unfinished one's without a gain."""
    spent = _rollouts_by_phase(run)
    best: dict[int, list[float]] = defaultdict(list)
    for line in run.entries:
        if line["event"] == "search_iteration":
            best[int(line["phase"])].append(float(line["best"]))
    ends = run.ends()
    facts = [
        PhaseFacts(
            phase=end.phase,
            kind=end.kind,
            gain=_gain(before.selection, end.selection),
            rollouts=spent.get(end.phase, 0),
            best=tuple(best[end.phase]),
        )
        for before, end in pairwise(ends)
    ]
    number = len(ends)  # the start is phase 0
    if best[number]:
        facts.append(PhaseFacts(number, "harness", None, spent.get(number, 0), tuple(best[number])))
    return facts


def _step(step: int, groups: Mapping[str, Sequence[Mapping[str, Json]]]) -> StepFacts:
    logprobs = [
        value
        for group in groups.values()
        for each in group
        for call in each["calls"]
        for value in call["logprobs"]
    ]
    rewards = [[float(each["reward"]) for each in group] for group in groups.values()]
    answers = [len({str(each["answer"]).strip() for each in group}) for group in groups.values()]
    return StepFacts(
        step=step,
        prompts=len(groups),
        draws=float(np.mean([len(group) for group in rewards])),
        nll=-float(np.mean(logprobs)) if any(logprobs) else None,
        answers=float(np.mean(answers)),
        mean=float(np.mean([np.mean(group) for group in rewards])),
        any_pass=float(np.mean([max(group) > 0.5 for group in rewards])),
    )


def _gain(before: Mapping[str, Json], after: Mapping[str, Json]) -> Interval | None:
    """Return the difference of two evaluations on the examples that both scored."""
    now, then = paired(after.get("means", {}), before.get("means", {}))
    return paired_difference(now, then) if len(now) else None


def _rollouts_by_phase(run: StoredRun) -> dict[int, int]:
    """Return the rollouts that each phase made, those that only measure left out."""
    size, path = run.lengths.get(LEDGER, 0), run.path / LEDGER
    counts: dict[int, int] = defaultdict(int)
    try:
        text = path.read_bytes()[:size] if size else b""
        for line in map(json.loads, text.splitlines()):
            if line["purpose"] not in MEASURING:
                counts[int(line["phase"])] += int(line["rollouts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} cannot be read: {error!r}") from error
    return counts


def _per_rollout(phases: Sequence[PhaseFacts]) -> float:
    gained = sum(each.gain.mean for each in phases if each.gain is not None)
    return gained / max(1, sum(each.rollouts for each in phases))


def _any_pass(steps: Sequence[StepFacts]) -> float:
    return sum(s.any_pass * s.prompts for s in steps) / sum(s.prompts for s in steps)


def _error(a: Sequence[StepFacts], b: Sequence[StepFacts]) -> float:
    """Return the standard error of the difference of two windows' pass@k, prompts independent."""
    p = _any_pass([*a, *b])
    return math.sqrt(p * (1 - p) * sum(1 / sum(s.prompts for s in each) for each in (a, b)))


def _mean(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None


def _signed(points: float) -> str:
    return f"{100 * points:+.0f}"
