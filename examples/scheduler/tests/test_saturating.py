from whale_core.plugins import Setup
from whale_core.roles import PhaseResult, RunFacts, WeightPhase
from whale_core.testing.contracts import check_registrations, check_scheduler

from whale_example_scheduler import plugin
from whale_example_scheduler.config import Config
from whale_example_scheduler.scheduler import Saturating


def test_contract() -> None:
    check_registrations(plugin)
    check_scheduler(Saturating, Config())
    check_scheduler(Saturating, Config(epochs=3.0, shortest=1.0, iterations=2, total_epochs=0.5))


def lengths(reward: float) -> list[int]:
    """Return the lengths of the weight phases when every step has that reward."""
    found = []
    phases = Saturating(Config(epochs=0.4, total_epochs=1.0), Setup(0)).phases(RunFacts(20))
    phase = next(phases, None)
    while phase is not None:
        count = phase.until.planned() or 0
        kind = "weights" if isinstance(phase, WeightPhase) else "harness"
        if kind == "weights":
            found.append(count)
        try:
            phase = phases.send(PhaseResult(kind, 1, count, (reward,) * count))
        except StopIteration:
            phase = None
    return found


def test_weight_phases_shorten_as_the_reward_rises() -> None:
    assert lengths(0.0) == [8, 8, 4]
    assert lengths(0.5) == [8, 4, 4, 4]
    assert lengths(1.0) == [8, 2, 2, 2, 2, 2, 2]  # never under a quarter of the full length
