"""The domain ``jsonl``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from whale_core.plugins import Setup
from whale_core.records import Example, Json, Trajectory
from whale_core.roles import Limits, Metric, Tool

from whale_example_jsonl.catalogue import CATALOGUE
from whale_example_jsonl.config import Config
from whale_example_jsonl.nulls import null_models
from whale_example_jsonl.rows import read_examples, share_out

FILES = resources.files("whale_example_jsonl")


class Episode:
    """The question is seen, the final answer counts; there are no tools."""

    def __init__(self, question: str) -> None:
        """Take the question alone: the answer stays outside."""
        self._question = question

    def view(self) -> Mapping[str, Json]:
        """Return what a harness sees."""
        return {"question": self._question}

    def call(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """There are no tools."""
        raise ValueError(f"there is no tool {name!r}")

    def record(self) -> Mapping[str, Json]:
        """The verifier judges the final answer and needs nothing else."""
        return {}


class JsonlDomain:
    """Questions and answers of a file."""

    name = "jsonl"
    version = "1"
    limits = Limits(model_calls=4, sampled_tokens=384)
    tools: Sequence[Tool] = ()
    answer_is_sampled = True
    base_harness = "plain"
    verifier = "answer-match"
    metrics = (Metric("format", lambda trajectory: _marked(trajectory), tie_break=True),)
    catalogue = CATALOGUE

    def __init__(self, config: Config, setup: Setup) -> None:
        """Read the file; raise ``InputError`` where it does not fit the settings."""
        path = Path(config.path) if config.path else Path(str(FILES / "data" / "sample.jsonl"))
        examples = read_examples(path, config)
        self._splits = share_out(examples, config, path)
        self.null_models = null_models([str(each.content["answer"]) for each in examples])
        self.harnesses = {"plain": (FILES / "harnesses" / "plain.py").read_text(encoding="utf-8")}
        self.brief = (FILES / "brief.md").read_text(encoding="utf-8")

    def split(self, name: str) -> Sequence[Example]:
        """Return the examples of a split."""
        return self._splits[name]

    def environment(self, example: Example) -> Episode:
        """Return a fresh episode."""
        return Episode(str(example.content["question"]))

    def chance_levels(self, examples: Sequence[Example]) -> Mapping[str, float]:
        """Return what naming the commonest answer scores, for scale."""
        counts = Counter(str(example.content["answer"]).casefold() for example in examples)
        return {"the commonest answer": max(counts.values()) / len(examples)}


def _marked(trajectory: Trajectory) -> float:
    """1 if the last reply marks its answer as it was asked to."""
    return float(bool(trajectory.calls) and "Answer:" in trajectory.calls[-1].text)
