"""The domain ``math``: problems, Python tool, base harnesses and what proposers need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from whale_core.edits import uncapped
from whale_core.plugins import Setup
from whale_core.recordings import shipped_recordings
from whale_core.records import Example, Spent
from whale_core.roles import Limits
from whale_math.catalogue import CATALOGUE
from whale_math.chance import chance_levels
from whale_math.config import Config
from whale_math.environment import PYTHON, MathEnvironment
from whale_math.metrics import METRICS
from whale_math.nulls import NULL_MODELS
from whale_math.python.endpoint import EndpointPython
from whale_math.python.jailed import JailedPython
from whale_math.python.result import Runner
from whale_math.sources import load, load_tests
from whale_math.splits import share_out

HARNESSES = ("text", "published", "strong", "short")


class MathDomain:
    """Math problems. The final answer is what the model said in its last reply.

    ``notes`` are lines a user must see: smaller splits than asked for, rows left out.
    """

    name = "math"
    version = "1"
    limits = Limits(model_calls=16, sampled_tokens=8192, env_calls=16, message_bytes=1_000_000)
    tools = (PYTHON,)
    answer_is_sampled = True
    base_harness = "text"
    verifier = "math-verify"
    metrics = METRICS
    null_models = NULL_MODELS
    catalogue = CATALOGUE
    recordings = shipped_recordings("whale_math")

    def __init__(self, config: Config, setup: Setup) -> None:
        """Load and share out the problems; raise ``InputError`` for data that cannot serve."""
        self.harnesses = {name: _text(f"harnesses/{name}.py") for name in HARNESSES}
        self.harnesses["paper"] = uncapped(self.harnesses["published"])
        self.brief = _text("brief.md")
        self.python: Runner = (
            EndpointPython(config.python) if config.python.url else JailedPython(config.python)
        )
        loaded, tests = load(config), load_tests(config.test_from)
        sizes = {
            "weight": config.weight,
            "harness": config.harness,
            "selection": config.selection,
            "test": config.test,
        }
        splits = share_out(loaded.problems, sizes, config.split_seed, loaded.name, tests.problems)
        self.notes = (*loaded.notes, *tests.notes, *splits.notes)
        self._splits = {
            name: tuple(problem.example() for problem in problems)
            for name, problems in splits.problems.items()
        }

    def split(self, name: str) -> Sequence[Example]:
        """Return the examples of ``weight``, ``harness``, ``selection`` or ``test``."""
        return self._splits[name]

    def environment(self, example: Example) -> MathEnvironment:
        """Return a fresh episode of ``example``."""
        return MathEnvironment(example, self.python)

    def chance_levels(self, examples: Sequence[Example]) -> Mapping[str, float]:
        """Return what programs that do no arithmetic score on ``examples``."""
        return chance_levels(examples)

    async def probe(self) -> Spent:
        """Try the tool; it costs nothing. Raise ``InputError`` when no program can be run."""
        await self.python.probe()
        return Spent()

    async def close(self) -> None:
        """End the tool's processes. Idempotent."""
        await self.python.close()


def _text(name: str) -> str:
    return (resources.files("whale_math") / name).read_text(encoding="utf-8")
