"""Trajectories as JSON: readable without the framework, and read back exactly.

Prompts and conversations grow by what was said, so a call keeps only what is new in it:
``kept_messages`` and ``kept_ids`` count what it has in common with the call before (with that
call's sampled ids, for ids). Log-probabilities have the nine digits that make a float32 exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from attrs import asdict

from whale_core.errors import RunFolderError
from whale_core.keys import DrawKey
from whale_core.records import Call, Json, Message, Outcome, Spent, ToolEvent, Trajectory, Verdict

T = TypeVar("T")


def trajectory_json(trajectory: Trajectory) -> dict[str, Json]:
    """Return a trajectory as plain JSON."""
    calls = []
    before: Call | None = None
    for call in trajectory.calls:
        calls.append(_call_json(call, before))
        before = call
    verdict = trajectory.verdict
    return {
        "example": trajectory.example_id,
        "harness": trajectory.harness_id,
        "weights": trajectory.weights_id,
        "key": asdict(trajectory.key),
        "outcome": str(trajectory.outcome),
        "reward": trajectory.reward,
        "reason": trajectory.reason,
        "answer": trajectory.answer,
        "verdict": None if verdict is None else _verdict_json(verdict),
        "metrics": dict(trajectory.metrics),
        "calls": calls,
        "events": [asdict(event) for event in trajectory.events],
        "record": dict(trajectory.record),
        "spent_else": asdict(trajectory.spent_else),
        "judging": asdict(trajectory.judging),
        "cpu_seconds": round(trajectory.cpu_seconds, 6),
        "seconds": round(trajectory.seconds, 6),
    }


def read_trajectory(data: Mapping[str, Json]) -> Trajectory:
    """Return the trajectory that ``trajectory_json`` wrote down.

    Raises:
        RunFolderError: it is not one.
    """
    try:
        calls: list[Call] = []
        for call in data["calls"]:
            calls.append(_read_call(call, calls[-1] if calls else None, data["weights"]))
        verdict = data["verdict"]
        return Trajectory(
            example_id=data["example"],
            harness_id=data["harness"],
            weights_id=data["weights"],
            key=DrawKey(**data["key"]),
            calls=tuple(calls),
            events=tuple(ToolEvent(**event) for event in data["events"]),
            answer=data["answer"],
            record=data["record"],
            outcome=Outcome(data["outcome"]),
            reason=data["reason"],
            verdict=None if verdict is None else Verdict(**verdict),
            metrics=data["metrics"],
            spent_else=Spent(**data["spent_else"]),
            judging=Spent(**data.get("judging", {})),  # older files have none
            cpu_seconds=data["cpu_seconds"],
            seconds=data["seconds"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"a stored trajectory is damaged ({type(error).__name__}: {error})"
        ) from error


def _verdict_json(verdict: Verdict) -> dict[str, Json]:
    """Return a verdict; what it cost is told by the trajectory."""
    return {"reward": verdict.reward, "parts": dict(verdict.parts)}


def _call_json(call: Call, before: Call | None) -> dict[str, Json]:
    messages = before.messages if before is not None else ()
    kept_messages = _common(messages, call.messages)
    ids = call.prompt_ids.tolist()
    kept_ids = _common(_context(before), ids)
    return {
        "kept_messages": kept_messages,
        "messages": [
            asdict(message, filter=lambda _, value: value is not None)
            for message in call.messages[kept_messages:]
        ],
        "text": call.text,
        "finish_reason": call.finish_reason,
        "kept_ids": kept_ids,
        "prompt_ids": ids[kept_ids:],
        "cached_tokens": call.cached_tokens,
        "usd": call.usd,
        **({"rejected": True} if call.rejected else {}),
        "sampled_ids": call.token_ids.tolist(),
        "logprobs": [float(f"{value:.9g}") for value in call.logprobs.tolist()],
    }


def _read_call(data: Mapping[str, Json], before: Call | None, weights_id: str) -> Call:
    messages = before.messages[: data["kept_messages"]] if before is not None else ()
    ids = [*_context(before)[: data["kept_ids"]], *data["prompt_ids"]]
    return Call(
        prompt_ids=np.array(ids, np.int32),
        token_ids=np.array(data["sampled_ids"], np.int32),
        logprobs=np.array(data["logprobs"], np.float32),
        text=data["text"],
        finish_reason=data["finish_reason"],
        weights_id=weights_id,
        messages=(*messages, *(Message(**message) for message in data["messages"])),
        cached_tokens=data["cached_tokens"],
        usd=data.get("usd", 0.0),  # of an endpoint's; older files have none
        rejected=data.get("rejected", False),
    )


def _context(call: Call | None) -> list[int]:
    """Return the tokens that ``call`` consumed and produced."""
    return [] if call is None else [*call.prompt_ids.tolist(), *call.token_ids.tolist()]


def _common(a: Sequence[T], b: Sequence[T]) -> int:
    """Return the length of the common prefix."""
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return index
    return min(len(a), len(b))
