"""A small domain with a catalogue, and a context whose scores are a function of the source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attrs import define, evolve, field

from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import Example, Replayed, Spent, Trajectory
from whale_core.roles import (
    Conclusion,
    Edit,
    Harness,
    Metric,
    NullModel,
    NullResult,
    Proposal,
    Score,
    SearchIteration,
    Workspace,
)
from whale_core.run.contexts import ask
from whale_metaharness.config import Config
from whale_metaharness.mutation import MutationProposer
from whale_metaharness.outbox import read_outbox, write_candidate
from whale_metaharness.proposers.settings import MutationConfig
from whale_metaharness.search import MetaHarness

H0 = '''\
"""A base harness."""

import re

from whale_harness import BaseHarness


class Harness(BaseHarness):
    """Asks once."""

    # --- prompts ---

    SYSTEM_PROMPT = "You answer."
    USER_PROMPT = """Question:
{question}
Answer:"""  # the slot is filled by replacement
    RETRIES = 0

    # Fills the slot.
    def ask(self, task):
        return self.USER_PROMPT.replace("{question}", task["question"])

    def parse(self, text):
        match = re.search(r"\\d+", text)
        return match.group() if match else text

    async def run(self, task, model, env):
        reply = await model.chat([{"role": "user", "content": self.ask(task)}])
        return self.parse(reply.text)
'''

CATALOGUE = (
    Edit(
        "steps", "prompt", "Steps help.", {"SYSTEM_PROMPT": 'SYSTEM_PROMPT = "Think."\n'}, "useful"
    ),
    Edit(
        "rude", "prompt", "Rudeness helps.", {"SYSTEM_PROMPT": 'SYSTEM_PROMPT = "Go!"\n'}, "harmful"
    ),
    Edit(
        "last-number",
        "parser",
        "The last number is meant.",
        {"parse": 'def parse(self, text):\n    return (re.findall(r"\\d+", text) or [text])[-1]\n'},
        "useful",
    ),
    Edit("retry", "retries", "A second try helps.", {"RETRIES": "RETRIES = 1\n"}, "neutral"),
    Edit(
        "example",
        "context",
        "An example helps.",
        {
            "EXAMPLE": 'EXAMPLE = """Question:\n1 + 1\nAnswer: 2\n"""\n',
            "ask": "def ask(self, task):\n    return self.EXAMPLE + task['question']\n",
        },
        "useful",
    ),
)

MARKS = {  # what marks an edit in a source, and what it adds to the mean reward and format rate
    '"Think."': (0.125, 0.1),
    '"Go!"': (-0.125, -0.1),
    "findall": (0.25, 0.2),
    "EXAMPLE +": (0.25, 0.2),
    "RETRIES = 1": (0.0, 0.05),
}


def h(body: str = "", docstring: str = "") -> str:
    """Return a minimal harness with ``body`` (lines at column 0) in its class."""
    lines = [f"    {line}" for line in body.splitlines()]
    return "\n".join(
        [
            "from whale_harness import BaseHarness",
            "",
            "",
            "class Harness(BaseHarness):",
            f'    """{docstring}"""',
            *lines,
            "    async def run(self, task, model, env):",
            "        return (await model.chat([])).text",
            "",
        ]
    )


@define
class FakeDomain:
    name: str = "fake"
    version: str = "1"
    harnesses: Mapping[str, str] = {"base": H0}
    base_harness: str = "base"
    metrics: Sequence[Metric] = (
        Metric("retries", lambda trajectory: 0.0),
        Metric("format_rate", lambda trajectory: 0.0, tie_break=True),
    )
    null_models: Sequence[NullModel] = (
        NullModel("random", lambda view, messages, rng: "1", lambda views: 0.05),
        NullModel("last", lambda view, messages, rng: "9", lambda views: 0.05, refuses=False),
    )
    catalogue: Sequence[Edit] = CATALOGUE
    brief: str = "Change one mechanism."

    def split(self, name: str) -> Sequence[Example]:
        return ()


def score_of(
    mean: float,
    *,
    weights_id: str = "w0",
    calls: float = 1.0,
    scored: int = 64,
    harness_id: str = "",
    **metrics: float,
) -> Score:
    """Return a score of one draw on each of ``scored`` examples."""
    rewards = {f"e{n}": (float(n < mean * scored),) for n in range(scored)}
    return Score(harness_id, weights_id, mean, scored, 0, rewards, calls, 640, metrics)


def marked(harness: Harness) -> tuple[float, float]:
    """Return the mean reward and format rate that the edits in a source earn."""
    gains = [gain for mark, gain in MARKS.items() if mark in harness.source]
    return max(0.0, sum(gain[0] for gain in gains)), max(0.0, 0.2 + sum(gain[1] for gain in gains))


EXAMPLES = tuple(Example(f"e{n}", {"question": str(n)}, f"g{n}") for n in range(128))


@define
class Questioning(FakeDomain):
    """A domain whose examples ask something."""

    def split(self, name: str) -> Any:
        question = "In which year did Leonora Brask open the first ferry to Ostmark?"
        return (evolve(EXAMPLES[0], content={"question": question}),) if name == "harness" else ()

    def environment(self, example: Any) -> Any:
        return SimpleNamespace(view=lambda: example.content)


@define
class FakeContext:
    folder: Path
    harness: Harness = field(factory=lambda: Harness(content_hash(H0), H0, "base"))
    domain: Any = field(factory=FakeDomain)
    weights_id: str = "w0"
    cycle: int = 0
    phase: int = 0
    seed: int = 0
    means: Callable[[Harness], tuple[float, float]] = marked
    pools: list[list[str]] = field(factory=list)
    truth: Callable[[Harness], tuple[float, float]] | None = None  # of fresh draws, if another
    draws: list[tuple[str, int, int, list[str]]] = field(factory=list)  # asked of score
    broken: Mapping[str, str] = {}  # gate -> text in a source that makes it refuse

    examples: Sequence[Example] = EXAMPLES[:64]
    shown: Sequence[Example] = EXAMPLES[:32]
    unseen: Sequence[Example] = EXAMPLES[32:]

    def traces(self, harness: Harness) -> list[Trajectory]:
        return []

    async def replay(self, harness: Harness, recorded: Trajectory) -> Replayed:
        raise AssertionError("there are no trajectories to replay")

    async def score(
        self,
        harnesses: Sequence[Harness],
        examples: Sequence[Example] | None = None,
        draws: int | None = None,
        purpose: str = "score",
        first_draw: int = 0,
    ) -> list[Score]:
        on = self.examples if examples is None else examples
        self.pools.append([harness.name for harness in harnesses])
        self.draws.append((purpose, first_draw, draws or 1, [example.id for example in on]))
        result = []
        for harness in harnesses:
            mean, rate = (self.truth or self.means if purpose == "confirm" else self.means)(harness)
            passed = round(mean * len(on))
            rewards = {e.id: (float(n < passed),) * (draws or 1) for n, e in enumerate(on)}
            result.append(
                evolve(
                    score_of(
                        passed / len(on),
                        weights_id=self.weights_id,
                        harness_id=harness.id,
                        scored=len(on) * (draws or 1),
                        format_rate=rate,
                    ),
                    rewards=rewards,
                )
            )
        return result

    async def propose(self, proposer: Any, iteration: int, workspace: Any) -> Proposal:
        with workspace() as opened:
            return await ask(proposer, opened)

    async def load_check(self, harness: Harness) -> str | None:
        return "NameError: x" if self._breaks("load", harness) else None

    async def smoke(self, harness: Harness) -> str | None:
        return "2 of 2 episodes crashed" if self._breaks("smoke", harness) else None

    async def null_check(self, harness: Harness) -> list[NullResult]:
        refused = self._breaks("null", harness)
        return [
            NullResult("random", 0.5 if refused else 0.05, 0.05, 64, refused),
            NullResult("last", 0.75, 0.05, 64, False),
        ]

    def _breaks(self, gate: str, harness: Harness) -> bool:
        return gate in self.broken and self.broken[gate] in harness.source


@define
class ScriptedProposer:
    """Writes the candidates of each iteration from a script; an exception in it is raised."""

    script: list[Any]
    seen: list[Workspace] = field(factory=list)
    note: str = ""
    writes_code: bool = False

    async def propose(self, workspace: Workspace) -> Proposal:
        self.seen.append(workspace)
        step = self.script[len(self.seen) - 1]
        if isinstance(step, BaseException):
            raise step
        for slot, candidate in enumerate(step, 1):
            write_candidate(workspace, slot, candidate)
        return Proposal(read_outbox(workspace), Spent(1, 8, 4, 2, 0.5))


def search(proposer: Any, domain: Any = None, **settings: Any) -> MetaHarness:
    setup = Setup(seed=0, domain=domain or FakeDomain(), proposer=proposer)
    return MetaHarness(Config(**settings), setup)


def mutation(seed: int = 0, domain: Any = None) -> MutationProposer:
    return MutationProposer(MutationConfig(), Setup(seed=seed, domain=domain or FakeDomain()))


def conclude(engine: MetaHarness, context: FakeContext, count: int) -> Conclusion | None:
    """Run a phase of ``count`` iterations and return what it concludes, as the loop does."""
    run(engine, context, count)
    return asyncio.run(engine.conclude(context))


def run(engine: MetaHarness, context: FakeContext, count: int) -> list[SearchIteration]:
    """Run ``count`` iterations of a phase and close it, as the loop does."""

    async def collect() -> list[SearchIteration]:
        found: list[SearchIteration] = []
        iterations = engine.iterations(context)
        async for iteration in iterations:
            found.append(iteration)
            if len(found) == count:
                break
        await iterations.aclose()  # type: ignore[attr-defined]
        return found

    return asyncio.run(collect())
