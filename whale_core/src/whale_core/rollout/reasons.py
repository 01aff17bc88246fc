"""Why rollouts ended early, counted: so that a harness which crashes is seen to crash."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from whale_core.records import Trajectory

CRASHES = ("error", "died", "stalled", "bytes", "protocol", "cpu", "memory", "context", "env calls")
KEPT = 4  # different reasons; rarer ones are counted together
LENGTH = 100
OTHER_CRASHES = "error: others"
OTHERS = "others"


def is_crash(reason: str) -> bool:
    """Say whether a rollout that failed for ``reason`` failed by the harness's own breakdown."""
    return reason.startswith(CRASHES)


def count_reasons(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Return how many rollouts ended before a verdict, by reason, the most frequent first.

    Numbers and quoted text in a reason are left out, so that one fault is one reason. At most
    ``KEPT`` reasons are named; what is rarer is counted under "error: others" (crashes) and
    "others".
    """
    counted = Counter(normalised_reason(t.reason) for t in trajectories if t.reason is not None)
    order = sorted(counted, key=lambda reason: (-counted[reason], reason))
    result = {reason: counted[reason] for reason in order[:KEPT]}
    for reason in order[KEPT:]:
        rest = OTHER_CRASHES if is_crash(reason) else OTHERS
        result[rest] = result.get(rest, 0) + counted[reason]
    return result


def crashes(reasons: Mapping[str, int]) -> int:
    """Return how many of the rollouts that ``count_reasons`` counted crashed."""
    return sum(number for reason, number in reasons.items() if is_crash(reason))


def without_message(reason: str) -> str:
    """Return a reason without the text that a harness put into it.

    Of an exception its type stays, where it is one of Python's own: another's name is the harness's
    text too.
    """
    if not reason.startswith("error"):
        return reason
    name = reason.removeprefix("error:").strip().partition(":")[0]
    kind = getattr(builtins, name, None)
    known = isinstance(kind, type) and issubclass(kind, BaseException)
    return f"error: {name}" if known else OTHER_CRASHES


def without_messages(reasons: Mapping[str, int]) -> dict[str, int]:
    """Return what ``count_reasons`` counted, each reason ``without_message``."""
    result: dict[str, int] = {}
    for reason, number in reasons.items():
        short = without_message(reason)
        result[short] = result.get(short, 0) + number
    return result


def normalised_reason(reason: str) -> str:
    """Return a reason without numbers and quoted text, cut short: equal faults read the same."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", " ".join(reason.split()))
    text = re.sub(r"(?<![A-Za-z])\d+", "N", text)
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"
