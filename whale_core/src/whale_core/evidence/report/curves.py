"""What a run measured over the rollouts it had spent by then: the x-axis is all of them, scoring
and selection included, test excluded."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from whale_core.roles import begins_cycle
from whale_core.run.journal import Entry

REWARD = "training reward"
BEST = "archive's best"
SELECTION = "selection score"


@frozen
class Point:
    """A measurement after ``rollouts``; ``low`` and ``high`` where it has an interval."""

    series: str
    phase: int
    cycle: int
    rollouts: int
    mean: float
    low: float | None = None
    high: float | None = None


@frozen
class Ribbon:
    """A phase on the x-axis, from its first rollout to its last."""

    phase: int
    kind: str
    cycle: int
    start: int
    end: int


@frozen
class Curves:
    """The points of all series in order, and the phases they lie in."""

    points: Sequence[Point]
    ribbons: Sequence[Ribbon]
    rollouts: int

    def series(self, name: str) -> list[Point]:
        """Return the points of one series."""
        return [point for point in self.points if point.series == name]


def curves_of(entries: Sequence[Entry]) -> Curves:
    """Return the curves of a run's committed blocks."""
    points: list[Point] = []
    ribbons: list[Ribbon] = []
    total = start = 0
    kind = ""
    phase = cycle = 0
    open_points: list[tuple[str, int, float]] = []
    for entry in entries:
        event = entry["event"]
        if event == "decision":
            break  # what comes then is on the test split
        if event == "rollouts":
            total += int(entry["rollouts"])
        elif event == "weight_step":
            kind, phase = "weights", int(entry["phase"])
            open_points.append((REWARD, total, float(entry["reward"])))
        elif event == "search_iteration":
            kind, phase = "harness", int(entry["phase"])
            open_points.append((BEST, total, float(entry["best"])))
        elif event == "phase_done":
            kind, phase, cycle = str(entry["kind"]), int(entry["phase"]), int(entry["cycle"])
            points += [Point(n, phase, cycle, at, mean) for n, at, mean in open_points]
            open_points = []
            score = entry["selection"]
            points.append(
                Point(SELECTION, phase, cycle, total, score["mean"], score["low"], score["high"])
            )
            ribbons.append(Ribbon(phase, kind, cycle, start, total))
            start, kind = total, ""
    if open_points or total > start:  # of a phase that has not ended
        number = len(ribbons)
        first = ribbons[1].kind if len(ribbons) > 1 else kind
        cycle += bool(ribbons and kind) and begins_cycle(kind, first)
        points += [Point(n, phase, cycle, at, mean) for n, at, mean in open_points]
        ribbons.append(Ribbon(number, kind, cycle, start, total))
    return Curves(tuple(points), tuple(ribbons), total)
