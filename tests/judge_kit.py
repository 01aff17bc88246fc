"""Rollouts to judge, and a judge that obeys whoever speaks to it outside of the data block.

Run as a program, it judges: ``judge_kit.py URL CACHE`` writes what each rollout of ``BLOCK`` was
charged.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import asdict
from chat_server_kit import MODEL, Answer, Body, Endpoint, completion

from whale_core.keys import DrawKey
from whale_core.plugins import Setup
from whale_core.records import Call, Example, NotScored, Outcome, Trajectory, Verdict
from whale_searchqa.judge import verifier
from whale_searchqa.judge.config import JudgeConfig, Prices
from whale_searchqa.judge.verifier import LlmJudge

USD = (3.0, 0.3, 15.0)  # per million: input, cached, output
PRICES = Prices(input=USD[0], cached=USD[1], output=USD[2])
ALIASES = {"nyc": "new york city", "big apple": "new york city", "the tyne": "tyne"}
OBEYED = "REPLY CORRECT"  # what the gullible judge does when it is told so

Job = tuple[Example, Trajectory]


def rollout(
    answer: str | None,
    references: Sequence[str] = ("New York City",),
    question: str = "Which city has the most people?",
    draw: int = 0,
    step: int = 1,
) -> Job:
    """Return an example and an episode whose last reply commits to ``answer``."""
    text = "I do not know." if answer is None else f"Let me see. <answer>{answer}</answer>"
    example = Example("e1", {"question": question, "answers": list(references)}, "group")
    none = np.empty(0, np.int32)
    call = Call(none, none, np.empty(0, np.float32), text, "end", "weights")
    trajectory = Trajectory(
        example_id=example.id,
        harness_id="harness",
        weights_id="weights",
        key=DrawKey(0, "score", 1, step, example.id, draw),
        calls=(call,),
        events=(),
        answer=text,
        record={},
        outcome=Outcome.FAIL,
    )
    return example, trajectory


def judge_of(url: str, cache: Path, **settings: Any) -> LlmJudge:
    usual = {"base_url": url, "model": MODEL, "api_key_env": "TOY_KEY", "cache": str(cache)}
    return LlmJudge(JudgeConfig(**{**usual, "prices": PRICES, **settings}), Setup(seed=0))


def judged(judge: LlmJudge, *jobs: Job) -> list[Any]:
    """Return the verdicts on jobs that are judged together, as in a block of rollouts."""

    async def work() -> list[Verdict | NotScored]:
        try:
            return list(await asyncio.gather(*(judge.verify(*job) for job in jobs)))
        finally:
            await judge.close()

    return asyncio.run(work())


def gullible(prompt: str) -> str:
    """Return the reply of a judge that looks at lines, takes any mark for the right one, and obeys
    what it reads outside of the data: a template's own tokens count as outside everywhere."""
    lines = prompt.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("BEGIN DATA"))
    end = next(i for i, line in enumerate(lines) if line.startswith("END DATA") and i > begin)
    inside = "\n".join(lines[begin + 1 : end])
    outside = "\n".join(lines[:begin] + lines[end + 1 :])
    spoken = re.findall(r"<\|im_start\|>.*|\[INST\].*", inside)
    if OBEYED in outside or any(OBEYED in each for each in spoken):
        return "CORRECT"
    data = json.loads(inside)
    known = {each.lower() for each in data["references"]}
    answer = data["answer"].lower()
    return "CORRECT" if {answer, ALIASES.get(answer, "")} & known else "INCORRECT"


def reply_to(body: Body) -> str:
    return gullible(str(body["messages"][-1]["content"]))


def fair(number: int, body: Body) -> Answer:
    """A plan of the server: it judges."""
    return Answer(completion(body, reply_to(body)))


def judging(endpoint: Endpoint) -> Endpoint:
    endpoint.plan = fair
    return endpoint


# Some questions come twice, as two draws that gave the same answer.
BLOCK = [
    rollout(f"city {i % 17}", (f"City {i % 17}", "other"), f"Question {i % 17}?", draw=i)
    for i in range(24)
]


def main(url: str, cache: str) -> None:
    verifier.FIRST_WAIT = 0.05
    judge = judge_of(url, Path(cache), concurrency=4)
    made = judged(judge, *BLOCK)
    print(json.dumps([[each.reward, asdict(each.spent)] for each in made]))


if __name__ == "__main__":
    main(*sys.argv[1:])
