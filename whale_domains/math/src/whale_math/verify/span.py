"""Which part of a trajectory may be judged: the last reply, after its thinking."""

from __future__ import annotations

import re

from whale_core.records import Trajectory
from whale_math.answers import BOX, END_TAG, TAG, committed, stated


def final_answer(trajectory: Trajectory) -> str | None:
    """Return the final answer if it is a span of what the last reply says after its thinking.

    The core has checked that it is a span of some reply; an earlier one does not count here. Nor
    may a harness choose: where the reply itself commits to an answer, in a box or in tags, the span
    must commit to the same; elsewhere it must be a whole word or number, not a part of one.
    """
    answer = trajectory.answer
    if not answer or not trajectory.calls or answer not in trajectory.calls[-1].text:
        return None
    said = committed(trajectory.calls[-1].text)
    # The answer may be the whole reply: what of it comes after the thinking counts.
    inside = answer if answer in said else committed(answer)
    if not inside or inside not in said:
        return None
    if any(mark in said for mark in (BOX, TAG, END_TAG)):
        return inside if stated(inside) == stated(said) else None
    return inside if _whole(inside, said) else None


def _whole(span: str, text: str) -> bool:
    """Return whether ``span`` stands in ``text`` without cutting a word or a number."""
    before = r"(?<![\w.,\\])" if re.match(r"\w", span) else ""
    after = r"(?![\w]|[.,]\d)" if re.search(r"\w$", span) else ""
    return re.search(before + re.escape(span) + after, text) is not None
