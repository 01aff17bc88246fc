"""Which stored episodes a report shows, and what was learned from them.

The rule: of each phase, the first rollout that passed and the first that failed, in stored order;
training rollouts of a weight phase, scoring rollouts of the harness it ended with of a harness
phase, selection rollouts of the start. The sealed test's are never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from whale_core.evidence.report.facts import ReportedRun
from whale_core.records import Json, Outcome, Trajectory
from whale_core.run.restore import PhaseEnd
from whale_core.run.stored import read_trajectory

PHASES = 24  # shown at most: the first and the last of them
SEARCHED = 16_000_000  # bytes of a phase's rollouts in which the two are looked for
WANTED = (Outcome.PASS, Outcome.FAIL)
PURPOSES = {"start": "select", "weights": "train", "harness": "score"}
RULE = (
    "Of each phase, the first rollout that passed and the first that failed in stored order (of "
    f"the first {SEARCHED // 1_000_000} MB): training rollouts of a weight phase, scoring rollouts "
    "of the harness that a harness phase ended with, selection rollouts of the start. Rollouts on "
    "the sealed test are never shown."
)


@frozen
class Episode:
    """A stored rollout of a phase. ``learned`` says what training made of what the model wrote;
    ``trained`` are the model calls whose sampled tokens are known to have had loss mask 1."""

    phase: int
    kind: str
    trajectory: Trajectory
    harness: str
    learned: str
    trained: frozenset[int]


def episodes_of(run: ReportedRun) -> list[Episode]:
    """Return the episodes to show, in order.

    Raises:
        RunFolderError: a file of rollouts is damaged.
    """
    ends = list(run.ends)
    if len(ends) > PHASES:
        ends = [*ends[: PHASES // 2], *ends[-PHASES // 2 :]]
    return [episode for end in ends for episode in _of_phase(run, end)]


def _of_phase(run: ReportedRun, end: PhaseEnd) -> Iterator[Episode]:
    purpose = PURPOSES.get(end.kind, "select")
    harness = end.harness_id if end.kind == "harness" else None
    found: dict[Outcome, Mapping[str, Json]] = {}
    for stored in run.run.phase_rollouts(end.phase, harness, purpose, SEARCHED):
        outcome = Outcome(stored["outcome"])
        if outcome in WANTED:
            found.setdefault(outcome, stored)
        if len(found) == len(WANTED):
            break
    for outcome in WANTED:
        if outcome in found:
            trajectory = read_trajectory(found[outcome])
            learned, trained = _learned(run, end, trajectory)
            name = run.harness_label(trajectory.harness_id)
            yield Episode(end.phase, end.kind, trajectory, name, learned, trained)


def _learned(run: ReportedRun, end: PhaseEnd, trajectory: Trajectory) -> tuple[str, frozenset[int]]:
    """Return what the journal says of the rollout's training, and the calls that were trained."""
    if end.kind != "weights":
        return "Not trained on: rollouts for scores never are.", frozenset()
    key = trajectory.key
    steps = [step for step in run.events("weight_step") if step["phase"] == end.phase]
    own = next((step for step in steps if step["step"] == key.step), {})
    if own.get("trained_on") is None:
        return "Whether it was trained on was not recorded.", frozenset()
    mine = [key.step, key.example_id, key.draw]
    for step in steps:
        for each in step.get("trained_on") or ():
            if [each["step"], each["example_id"], each["draw"]] == mine:
                return _trained(trajectory, step["step"], each["tokens"])
    return (
        f"Not trained on: reward {trajectory.reward:.3g}; of the {own['scored']} scored rollouts "
        f"of weight step {key.step}, {own['accepted']} were accepted.",
        frozenset(),
    )


def _trained(trajectory: Trajectory, step: int, tokens: int) -> tuple[str, frozenset[int]]:
    """Say which of a rollout's replies make up the ``tokens`` it was trained on."""
    sampled = {number: len(call.token_ids) for number, call in enumerate(trajectory.calls)}
    of_use = {n: size for n, size in sampled.items() if n not in trajectory.rejected_calls}
    for calls in (sampled, of_use):
        if sum(calls.values()) == tokens:
            return (
                f"Trained on in weight step {step}: the {tokens} tokens that the model sampled in "
                "the marked replies, sampled end-of-turn tokens included, had loss mask 1; all "
                "other tokens had 0.",
                frozenset(number for number, size in calls.items() if size),
            )
    return (
        f"Trained on in weight step {step}: {tokens} of its {sum(sampled.values())} sampled tokens "
        "had loss mask 1; which ones was not recorded, so none is marked.",
        frozenset(),
    )
