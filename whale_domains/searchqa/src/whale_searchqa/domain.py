"""The domain ``searchqa``: questions, environment, base harnesses and what proposers need to
know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from attrs import frozen

from whale_core.abilities import Labelled
from whale_core.edits import uncapped
from whale_core.errors import InputError
from whale_core.keys import json_hash
from whale_core.plugins import Setup
from whale_core.recordings import shipped_recordings
from whale_core.records import Example, Spent
from whale_core.roles import Limits
from whale_searchqa import benchmarks
from whale_searchqa.agreement import agreement_set
from whale_searchqa.answers import contained
from whale_searchqa.catalogue import CATALOGUE
from whale_searchqa.chance import chance_levels, first_answers
from whale_searchqa.config import Config
from whale_searchqa.environment import SEARCH, SearchEnvironment
from whale_searchqa.metrics import METRICS
from whale_searchqa.nulls import null_models
from whale_searchqa.questions import Question, bundled, load
from whale_searchqa.retrieval.build import build_retriever
from whale_searchqa.retrieval.passages import read_passages
from whale_searchqa.retrieval.retriever import RetrieverFault
from whale_searchqa.splits import ORDER, Pool, one_pool, share_out

HARNESSES = ("published", "text", "strong")
PROBED = 8  # questions whose passages tell an index from another one
ASKED, ASKED_TOPK = 32, 3  # one-hop questions: their own corpus answers all, another one none


class SearchQADomain:
    """Questions with a search tool. The final answer must be a span of a reply.

    ``notes`` are lines a user must see: smaller splits than asked for.
    """

    name = "searchqa"
    limits = Limits(model_calls=16, sampled_tokens=8192, env_calls=32)
    tools = (SEARCH,)
    answer_is_sampled = True
    base_harness = "published"
    verifier = "em"
    metrics = METRICS
    catalogue = CATALOGUE
    recordings = shipped_recordings("whale_searchqa")

    def __init__(self, config: Config, setup: Setup) -> None:
        """Load and share out the questions, and open the retriever.

        Raises:
            InputError: settings that do not go together, or questions, corpus or index that cannot
                serve.
        """
        self.harnesses = {name: _text(f"harnesses/{name}.py") for name in HARNESSES}
        self.harnesses["paper"] = uncapped(self.harnesses["published"])
        self.brief = _text("brief.md")
        source = _source(config)
        splits = share_out(source.pools, config.split_seed, source.place)
        self.notes = (*source.notes, *splits.notes)
        self._splits = {
            name: tuple(question.example() for question in questions)
            for name, questions in splits.questions.items()
        }
        easy = [question for question in splits.questions["weight"] if question.hops == 1]
        self._easy = tuple(question.example() for question in easy[:ASKED])
        self._probed = [question.text for question in splits.questions["weight"][:PROBED]]
        self.service = ""  # which index answers at an address, once it was probed
        self._elsewhere = "" if config.questions or config.benchmarks else _searched(config)
        world = bundled(_world(config)) / "corpus.jsonl.gz"
        self._retriever = build_retriever(
            config.retriever, config.corpus, lambda: tuple(read_passages(world))
        )
        self.version = "1-" + json_hash(dict(self._retriever.facts()), length=8)
        self.null_models = null_models(first_answers(self._splits["weight"]))

    @property
    def agreement_set(self) -> Sequence[Labelled]:
        """Labelled replies to questions of the weight split."""
        return agreement_set(self.split("weight"))

    def split(self, name: str) -> Sequence[Example]:
        """Return the examples of ``weight``, ``harness``, ``selection`` or ``test``."""
        return self._splits[name]

    def environment(self, example: Example) -> SearchEnvironment:
        """Return a fresh episode of ``example``."""
        return SearchEnvironment(example, self._retriever)

    def chance_levels(self, examples: Sequence[Example]) -> Mapping[str, float]:
        """Return what programs score on ``examples`` that look nothing up."""
        return chance_levels(examples, self._splits["weight"])

    async def probe(self) -> Spent:
        """Check that the retriever can be reached, and that it knows the bundled world if that is
        asked about; raise ``InputError`` otherwise."""
        found = await self._retriever.probe(self._probed)
        self.service = f"index {found}" if found else ""
        asked = self._easy if self._elsewhere else ()
        if asked and (known := await self._known(asked)) < len(asked) / 2:
            raise InputError(
                f"{self._elsewhere} is set, but the questions are those of the bundled world, and "
                f"of {len(asked)} it finds an answer to {known}: set domain.questions or "
                "domain.benchmarks too, or leave it out"
            )
        return Spent()

    async def _known(self, examples: Sequence[Example]) -> int:
        """Return for how many of these questions a search finds a passage with an answer."""
        questions = [example.content["question"] for example in examples]
        try:
            found = await self._retriever.search(questions, ASKED_TOPK)
        except RetrieverFault as error:
            raise InputError(f"{self._elsewhere}: {error}") from error
        finally:
            await self._retriever.close()  # the run has another event loop
        return sum(
            any(contained(hit.passage.contents, example.content["answers"]) for hit in hits)
            for example, hits in zip(examples, found, strict=True)
        )

    async def close(self) -> None:
        """Free the retriever. Idempotent."""
        await self._retriever.close()


@frozen
class _Source:
    """Where each split's questions come from."""

    pools: Mapping[str, Sequence[Pool]]
    place: str
    notes: tuple[str, ...] = ()


def _text(name: str) -> str:
    return (resources.files("whale_searchqa") / name).read_text(encoding="utf-8")


def _world(config: Config) -> str:
    return "tuning" if config.tuning else "world"


def _sizes(config: Config) -> Mapping[str, int]:
    sizes = config.split_sizes()
    empty = [name for name in ORDER if sizes[name] == 0]
    if empty:
        raise InputError(f"domain.{empty[0]}=0: every split needs questions; -1 is the default")
    return sizes


def _source(config: Config) -> _Source:
    """Return the questions that the settings choose, of the bundled world if they choose none."""
    chosen = {
        "questions": bool(config.questions),
        "benchmarks": bool(config.benchmarks),
        "tuning": config.tuning,
    }
    given = [f"domain.{name}" for name, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} are both set; each brings questions, so drop one")
    if (config.questions or config.benchmarks) and not _searched(config):
        raise InputError(
            f"{given[0]} is set, but nothing to search: the bundled passages do not answer it; set "
            "domain.corpus, domain.retriever.index or domain.retriever.kind=http"
        )
    if config.benchmarks:
        if config.hops:
            raise InputError("domain.hops is for questions that say it; the benchmarks do not")
        sizes = _sizes(config)
        pools, notes = benchmarks.pools(config.benchmarks, config.revision, sizes)
        return _Source(pools, f"domain.benchmarks={config.benchmarks}", notes)
    path = Path(config.questions or bundled(_world(config)) / "questions.jsonl.gz")
    loaded = load(path)
    kept = _wanted(loaded.questions, config.hops, path)
    place = config.questions or f"the bundled {_world(config)}"
    pools, notes = one_pool(kept, _sizes(config), place)
    return _Source(pools, place, (*loaded.notes, *notes))


def _searched(config: Config) -> str:
    """Return the setting that says what is searched in place of the bundled passages, if any."""
    if config.retriever.kind == "http":
        return "domain.retriever.kind=http"
    if config.retriever.index:
        return f"domain.retriever.index={config.retriever.index}"
    return f"domain.corpus={config.corpus}" if config.corpus else ""


def _wanted(questions: Sequence[Question], hops: int, path: Path) -> list[Question]:
    kept = [question for question in questions if not hops or question.hops == hops]
    if not kept:
        raise InputError(
            f"{path}: no question's metadata say hops={hops}; leave domain.hops out to take all"
        )
    return kept
