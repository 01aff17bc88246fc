"""Which part of a trajectory may be judged: the last reply, after its thinking."""

from __future__ import annotations

from whale_core.records import Trajectory
from whale_math.answers import committed


def final_answer(trajectory: Trajectory) -> str | None:
    """Return the final answer if it is a span of what the last reply says after its thinking.

    The core has checked that it is a span of some reply; an earlier one does not count here.
    """
    answer = trajectory.answer
    if not answer or not trajectory.calls or answer not in trajectory.calls[-1].text:
        return None
    said = committed(trajectory.calls[-1].text)
    if answer in said:
        return answer
    # The answer is the whole reply, say: what of it comes after the thinking counts.
    inside = committed(answer)
    return inside if inside and inside in said else None
