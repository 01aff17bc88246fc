"""The terminal view: an observer that keeps ``Progress`` and describes events in one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from whale_core.cli.progress import Progress
from whale_core.cli.text import count, duration, percent, plural, printable
from whale_core.plugins import hookimpl
from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
from whale_core.roles import Conclusion, PhaseResult, SearchIteration, WeightStep
from whale_core.rollout.reasons import crashes, is_crash

LENGTH_UNITS = {"weights": "step", "harness": "iteration"}


class Output(Protocol):
    """Draws what the view tells it."""

    def event(self, progress: Progress, line: str) -> None:
        """Show a line that stays."""
        ...

    def tick(self, progress: Progress) -> None:
        """Take notice that ``progress`` changed inside a batch."""
        ...


class View:
    """Observes a run. ``clock`` returns seconds; only differences of it are used."""

    def __init__(self, output: Output, clock: Callable[[], float]) -> None:
        self._output = output
        self._progress = Progress(clock, started=clock())

    def _event(self, line: str) -> None:
        self._output.event(self._progress, line)

    @hookimpl
    def whale_on_run_started(self, run: RunInfo) -> None:
        """Say what runs where, and what the user should know of it."""
        progress = self._progress
        progress.name = printable(run.name, 60)
        progress.planned_rollouts = run.facts.get("planned_rollouts")
        progress.done_before = run.facts.get("done_rollouts", 0)
        self._event(f"run {progress.name} in {run.folder}, seed {run.config.get('seed')}")
        for note in run.notes:
            self._event(f"note: {printable(note, 300)}")

    @hookimpl
    def whale_on_run_finished(self, run: RunInfo, result: Mapping[str, Any]) -> None:
        """Say what the run took."""
        spent = result.get("ledger", {})
        rollouts = spent.get("rollouts", self._progress.rollouts)
        tokens = spent.get("sampled_tokens", self._progress.sampled_tokens)
        self._event(f"run finished: {count(rollouts)} rollouts, {count(tokens)} sampled tokens")

    @hookimpl
    def whale_before_phase(self, phase: PhaseInfo) -> None:
        """Say which phase starts, from which pair."""
        self._progress.phase = phase
        self._progress.position = phase.done
        unit = LENGTH_UNITS[phase.kind]
        planned = plural(phase.planned, unit) if phase.planned else "until its rule says stop"
        if phase.done:
            planned += f", {phase.done} of them done before"
        self._event(
            f"cycle {phase.cycle}, phase {phase.number}: {phase.kind}, {planned}; "
            f"harness {phase.harness_id[:8]}, weights {phase.weights_id[:8]}"
        )

    @hookimpl
    def whale_after_phase(self, phase: PhaseInfo, result: PhaseResult) -> None:
        """Say how the training signal went."""
        signals = " ".join(percent(each) for each in result.signals)
        length = plural(result.length, LENGTH_UNITS[phase.kind])
        self._event(f"phase {phase.number} done after {length}: {signals}")

    @hookimpl
    def whale_on_phase_error(self, phase: PhaseInfo, error: Exception) -> None:
        """Say that a phase failed."""
        cause = printable(f"{type(error).__name__}: {error}")
        self._event(f"phase {phase.number} failed: {cause}")

    @hookimpl
    def whale_on_weight_step(self, phase: PhaseInfo, step: WeightStep) -> None:
        """Say what the step's training reward was and what was learned from."""
        progress = self._progress
        progress.position += 1
        progress.rewards.append(step.reward)
        loss = f", loss {step.loss:.3f}" if step.loss is not None else ""
        learned = plural(step.updates, "update") + loss
        crashed = _crashed(step.reasons, step.rollouts)
        self._event(
            f"step {_position(progress, phase)}: training reward {percent(step.reward)}, accepted "
            f"{step.accepted} of {step.scored}, {learned}, {duration(step.seconds)}"
            f"{f'; {crashed}' if crashed else ''}"
        )

    @hookimpl
    def whale_on_search_iteration(self, phase: PhaseInfo, iteration: SearchIteration) -> None:
        """Say what was tried and which harness stands now."""
        progress = self._progress
        progress.position += 1
        progress.best = iteration.best
        accepted = printable(iteration.accepted.name, 40)
        progress.accepted = f"{accepted} {iteration.accepted.id[:8]}".strip()
        scored = sum(each.score is not None for each in iteration.candidates)
        refused = len(iteration.candidates) - scored
        tried = f"{scored} scored" + (f", {refused} refused" if refused else "")
        self._event(
            f"iteration {_position(progress, phase)}: {tried}, archive's best "
            f"{percent(iteration.best)}, accepted {progress.accepted}: "
            f"{printable(iteration.accepted_reason, 80)}, {duration(iteration.seconds)}"
            f"{_leak(iteration)}{_crashing(iteration)}"
        )

    @hookimpl
    def whale_on_search_conclusion(self, phase: PhaseInfo, conclusion: Conclusion) -> None:
        """Say which harness the phase ends with, and why."""
        progress = self._progress
        accepted = printable(conclusion.accepted.name, 40)
        progress.accepted = f"{accepted} {conclusion.accepted.id[:8]}".strip()
        self._event(
            f"phase {phase.number} accepts {progress.accepted}: "
            f"{printable(conclusion.accepted_reason, 300)}, {duration(conclusion.seconds)}"
        )

    @hookimpl
    def whale_on_evaluation(self, evaluation: Evaluation) -> None:
        """Say what a pair scored on a held-out split."""
        interval = f"{percent(evaluation.low)} to {percent(evaluation.high)}"
        self._event(
            f"{evaluation.pair} on {evaluation.split}: {percent(evaluation.mean)} ({interval}), "
            f"{evaluation.examples} examples × {evaluation.draws}"
        )

    @hookimpl
    def whale_on_notice(self, text: str) -> None:
        """Show the notice."""
        self._event(printable(text, 300))

    @hookimpl
    def whale_on_rollouts(self, purpose: str, done: int, total: int, sampled_tokens: int) -> None:
        """Count rollouts and tokens."""
        self._progress.advance(purpose, done, total, sampled_tokens)
        self._output.tick(self._progress)


def _position(progress: Progress, phase: PhaseInfo) -> str:
    return f"{progress.position} of {phase.planned}" if phase.planned else str(progress.position)


def _crashed(reasons: Mapping[str, int], rollouts: int) -> str:
    """Say how many rollouts the harness crashed in, and why, if they are more than half."""
    number = crashes(reasons)
    if 2 * number <= rollouts:
        return ""
    most = next(reason for reason in reasons if is_crash(reason))
    return f"{number} of {rollouts} rollouts crashed, most often: {printable(most, 100)}"


def _crashing(iteration: SearchIteration) -> str:
    """Say of each candidate that crashed in most of its rollouts that it did."""
    words = ""
    for each in iteration.candidates:
        if (score := each.score) is not None:
            rollouts = score.scored + score.not_scored
            if crashed := _crashed(score.reasons, rollouts):
                words += f"; {printable(each.harness.name or each.harness.id[:8], 40)}: {crashed}"
    return words


def _leak(iteration: SearchIteration) -> str:
    """Say what positional null models score under the accepted harness, if it is new."""
    for each in iteration.candidates:
        if each.harness.id == iteration.accepted.id and each.position_leak:
            shares = [f"{printable(n, 20)} {percent(v)}" for n, v in each.position_leak.items()]
            return "; position leak: " + ", ".join(shares)
    return ""
