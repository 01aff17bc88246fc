"""What is written of each record: names and numbers."""

from __future__ import annotations

from collections.abc import Mapping

from whale_core.plugins.events import Evaluation, PhaseInfo
from whale_core.roles import PhaseResult, SearchIteration, WeightStep

Numbers = dict[str, float]


def of_weight_step(step: WeightStep) -> Numbers:
    """Return a step's numbers below ``train/``; those that the update does not know are left out.

    ``accepted`` is the share of the step's rollouts that it trained on.
    """
    known: Mapping[str, float | None] = {
        "step": step.step,
        "reward": step.reward,
        "accepted": step.accepted / step.rollouts if step.rollouts else None,
        "updates": step.updates,
        "loss": step.loss,
        "grad_norm": step.grad_norm,
        "changed_share": step.changed_share,
        "trained_tokens": step.trained_tokens,
        "seconds": step.seconds,
        "rollout_seconds": step.rollout_seconds,
    }
    found = {f"train/{name}": float(value) for name, value in known.items() if value is not None}
    return found | _below("train", step.metrics)


def of_search_iteration(iteration: SearchIteration) -> Numbers:
    """Return an iteration's numbers below ``search/``."""
    scored = sum(each.score is not None for each in iteration.candidates)
    return {
        "search/iteration": float(iteration.iteration),
        "search/best": iteration.best,
        "search/scored": float(scored),
        "search/refused": float(len(iteration.candidates) - scored),
        "search/seconds": iteration.seconds,
        "search/usd": iteration.proposer_spent.usd,
    }


def of_evaluation(evaluation: Evaluation) -> Numbers:
    """Return a score below its split's name, on the test split below that of the pair, too."""
    place = evaluation.split
    if evaluation.split == "test":
        place = f"test/{evaluation.pair}"
    found = {
        f"{place}/mean": evaluation.mean,
        f"{place}/low": evaluation.low,
        f"{place}/high": evaluation.high,
    }
    return found | _below(place, evaluation.metrics)


def of_phase(phase: PhaseInfo, result: PhaseResult) -> Numbers:
    """Return which phase has ended, of which cycle, and its length in steps or iterations."""
    return {
        "phase/number": float(phase.number),
        "phase/cycle": float(phase.cycle),
        f"phase/{phase.kind}_length": float(result.length),
    }


def _below(place: str, metrics: Mapping[str, float]) -> Numbers:
    return {f"{place}/{name}": float(value) for name, value in metrics.items()}
