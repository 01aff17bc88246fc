"""Each contract finds a plugin that is broken on purpose, and says what is wrong in one line."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from contracts_kit import factory_and_config, tiny_engine

from whale_core.plugins import Registration, Setup, hookimpl
from whale_core.records import Spent, Verdict
from whale_core.roles import (
    Candidate,
    Conclusion,
    Edit,
    Harness,
    HarnessPhase,
    Metric,
    NullModel,
    Proposal,
    WeightPhase,
)
from whale_core.testing import contracts
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import (
    DomainConfig,
    ToyDomain,
    ToyEnvironment,
    ToyVerifier,
    VerifierConfig,
)
from whale_metaharness.config import Config as SearchConfig
from whale_metaharness.search import MetaHarness
from whale_rsft.config import Config as RsftConfig
from whale_rsft.rsft import RSFT

SETUP = Setup(seed=0)
TOY = ToyDomain(DomainConfig(), SETUP)
SMALL = DomainConfig(weight=16, harness=16, selection=16, test=16)
BASE = TOY.harnesses[TOY.base_harness]


def violated(check: Callable[..., None], *arguments: Any) -> str:
    """Return the one line in which ``check`` says what is violated."""
    with pytest.raises(AssertionError) as caught:
        check(*arguments)
    line = str(caught.value)
    assert line and "\n" not in line
    return line


# --- registrations --------------------------------------------------------------------------------


def module_with(**hooks: Any) -> ModuleType:
    module = ModuleType("broken")
    for name, hook in hooks.items():
        setattr(module, name, hookimpl(hook))
    return module


def one(factory: str, config: str) -> Callable[[], list[Registration]]:
    return lambda: [Registration("mine", factory, config, "for a test")]


FIXED = ("whale_schedulers.fixed:Fixed", "whale_schedulers.config:FixedConfig")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (module_with(), "registers nothing"),
        (module_with(whale_register_schedulrs=one(*FIXED)), "did you mean"),
        (module_with(whale_register_schedulers=one("no_such:Thing", FIXED[1])), "no_such"),
        (module_with(whale_register_schedulers=one(FIXED[0], "json:JSONDecoder")), "attrs class"),
        (module_with(whale_register_schedulers=lambda: ["fixed"]), "Registration"),
    ],
)
def test_registrations(module: ModuleType, said: str) -> None:
    assert said in violated(contracts.check_registrations, module)


# --- scheduler ------------------------------------------------------------------------------------


class Count:
    def __init__(self, count: int, says: int | None) -> None:
        self.left, self.says = count, says

    def observe(self, signal: float) -> bool:
        self.left -= 1
        return self.left <= 0

    def planned(self) -> int | None:
        return self.says


class Never(Count):
    def observe(self, signal: float) -> bool:
        return False


class Until(Count):
    def observe(self, signal: float) -> bool:
        return signal > 2


def scheduler(phases: Callable[[Any], Any]) -> Callable[[Any, Setup], Any]:
    """Return a scheduler's factory; ``phases`` gets the scheduler itself."""

    class Scheduler:
        def __init__(self, config: Any, setup: Setup) -> None:
            self.seen = 0

        def phases(self, facts: Any) -> Any:
            return phases(self)

    return Scheduler


def endless(self: Any) -> Any:
    while True:
        yield WeightPhase(Count(1, 1))


def remembers(self: Any) -> Any:
    for _ in range(2):
        self.seen += 1
        yield WeightPhase(Count(self.seen, None))


def chance(self: Any) -> Any:
    yield WeightPhase(Count(int(np.random.default_rng().integers(1, 1000)), None))


def late_kind(self: Any) -> Any:
    self.seen += 1
    yield (WeightPhase if self.seen < 3 else HarnessPhase)(Count(1, 1))


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        (lambda self: iter(()), "no phase at all|raised AttributeError"),
        (endless, "no end after"),
        (lambda self: (WeightPhase(Never(1, None)) for _ in "a"), "does not end"),
        (lambda self: (WeightPhase(Until(1, None)) for _ in "a"), "does not end"),
        (lambda self: (HarnessPhase(Count(3, 4)) for _ in "a"), "planned() said 4.*after 3"),
        (lambda self: (HarnessPhase(Count(3, 0)) for _ in "a"), "at least 1"),
        (lambda self: ("weights" for _ in "a"), "yielded a str"),
        (remembers, "outside the generator"),
        (late_kind, "was one of weights, now it is one of harness"),
        (chance, "now"),
        (lambda self: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_scheduler(phases: Callable[[Any], Any], said: str) -> None:
    pattern = said.replace("(", r"\(").replace(")", r"\)")
    assert re.search(pattern, violated(contracts.check_scheduler, scheduler(phases), None))


# --- domain ---------------------------------------------------------------------------------------


def domain(**changes: Any) -> Callable[[Any, Setup], ToyDomain]:
    """Return the factory of a toy domain with attributes or methods in place of its own."""
    return type("Broken", (ToyDomain,), changes)


def environment(**changes: Any) -> Callable[[Any, Setup], ToyDomain]:
    """Return the factory of a toy domain whose environment differs."""
    kind = type("Environment", (ToyEnvironment,), changes)

    def new(self: ToyDomain, example: Any) -> Any:
        made = kind(example.content["letters"])
        made.example = example
        return made

    return domain(environment=new)


def shared(self: ToyDomain, example: Any) -> ToyEnvironment:
    made: ToyEnvironment = self.__dict__.setdefault("only", {}).setdefault(
        example.id, ToyEnvironment(example.content["letters"])
    )
    return made


LEAK: list[str] = []


def leaky(self: Any, name: str, arguments: Mapping[str, Any]) -> Any:
    LEAK.append("said")
    return {"listed": True}


def overlapping(self: ToyDomain, name: str) -> Any:
    return self._splits["weight" if name == "test" else name]


def shuffled(self: ToyDomain, name: str) -> Any:
    return np.random.default_rng().permutation(np.array(self._splits[name], object)).tolist()


def hasty(self: Any, name: str, arguments: Mapping[str, Any]) -> Any:
    return {"listed": arguments["letter"] in self._letters}


def tupled(self: Any) -> Mapping[str, Any]:
    return {"letters": self._letters, "many": tuple(self._letters)}


def harness(source: str, name: str = ToyDomain.base_harness) -> Callable[[Any, Setup], ToyDomain]:
    class Broken(ToyDomain):
        def __init__(self, config: Any, setup: Setup) -> None:
            super().__init__(config, setup)
            self.harnesses = {name: source}

    return Broken


CHEAT = BASE.replace(
    'character in task["letters"])', 'character in task["letters"] and character in "aeiou")'
)
REFUSES = TOY.null_models[0]


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (domain(split=overlapping), "share an example"),
        (domain(split=shuffled), "differs in a second domain"),
        (domain(split=lambda self, name: ()), "split weight is empty"),
        (domain(environment=shared), "same object twice"),
        (environment(call=leaky, record=lambda self: {"said": list(LEAK)}), "changes another"),
        (environment(call=hasty), "KeyError"),
        (environment(view=tupled), "view() changes when"),
        (environment(view=lambda self: {"letters": {1}}), "view() is not JSON"),
        (
            environment(view=lambda self: {"letters": self._letters, "id": self.example.id}),
            "tells the example's id",
        ),
        (
            environment(
                view=lambda self: {"letters": self._letters, "name": self.example.content["name"]}
            ),
            "tells",
        ),
        (
            environment(
                view=lambda self: {"letters": f"{self._letters}: {self.example.content['name']}!"}
            ),
            "tells",
        ),
        (
            environment(view=lambda self: {"letters": [{self.example.content["name"]: 1}]}),
            "tells",
        ),
        (domain(null_models=(evolve(REFUSES, refuses=False),)), "no null model refuses"),
        (domain(null_models=(evolve(REFUSES, chance=lambda views: 1.5),)), "not in [0, 1]"),
        (
            domain(null_models=(evolve(REFUSES, reply=lambda view, messages, rng: 7),)),
            "reply with a text",
        ),
        (
            domain(
                null_models=(
                    NullModel(
                        "own",
                        lambda view, messages, rng: str(next(COUNTER)),
                        lambda views: 0.5,
                    ),
                )
            ),
            "randomness from elsewhere",
        ),
        (domain(metrics=(Metric("calls", lambda t: len(t.calls[0].text)),)), "metric calls"),
        (domain(metrics=(Metric("share", lambda t: float("nan")),)), "not a finite number"),
        (domain(tools=(evolve(TOY.tools[0], sampled=()),)), "who does the work"),
        (domain(tools=(evolve(TOY.tools[0], sampled=("word",)),)), "names no parameter"),
        (harness(BASE, "other"), "base_harness"),
        (domain(brief=" "), "brief must be a text"),
        (domain(chance_levels=lambda self, examples: {"all": 2.0}), "chance_levels: all is 2.0"),
        (harness("import numpy\n"), "does not load"),
        (harness(BASE.replace("        letter = ", "        letter = 1 / 0  # ")), "crashed"),
        (harness(CHEAT), "solves the task itself"),
        (
            domain(catalogue=(Edit("a", "x", "h", {"parse": "def other(self): ..."}),)),
            "of that name",
        ),
        (
            domain(catalogue=(Edit("a", "x", "h", {"MAX": "MAX = unknown"}),)),
            "edit a does not load",
        ),
    ],
)
def test_domain(factory: Callable[..., Any], said: str) -> None:
    verifier = ToyVerifier(VerifierConfig(), SETUP)
    assert said in violated(contracts.check_domain, factory, SMALL, verifier, ("name",))


COUNTER = itertools.count()


# --- verifier -------------------------------------------------------------------------------------


def verifier(judge: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Setup], Any]:
    """Return the factory of a verifier; ``judge`` gets the verifier, example and trajectory."""

    class Verifier:
        version = "1"

        def __init__(self, config: Any, setup: Setup) -> None:
            self.count = 0

        async def verify(self, example: Any, trajectory: Any) -> Any:
            return judge(self, example, trajectory)

    return Verifier


def counting(self: Any, example: Any, trajectory: Any) -> Verdict:
    self.count += 1
    return Verdict(0.001 * self.count)


def touching(self: Any, example: Any, trajectory: Any) -> Verdict:
    trajectory.record["said"].append("a")
    return Verdict(0.0)


def answer_length(self: Any, example: Any, trajectory: Any) -> Verdict:
    return Verdict(float(len(trajectory.answer or "") > 2))


def of_identity(self: Any, example: Any, trajectory: Any) -> Verdict:
    return Verdict(0.4 * (id(self) % 997) / 997)


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (lambda self, e, t: Verdict(1.0), "nothing happened passes"),
        (lambda self, e, t: Verdict(-0.5), "not in [0, 1]"),
        (lambda self, e, t: Verdict(float("nan")), "not a finite number"),
        (lambda self, e, t: Verdict(0.0, {"share": float("inf")}), "share is inf"),
        (lambda self, e, t: 0.0, "returned a float"),
        (lambda self, e, t: Verdict(float("x" in t.answer)), "TypeError"),
        (lambda self, e, t: Verdict(float(t.record["word"] == "a")), "KeyError"),
        (counting, "second verdict"),
        (touching, "changed the example or the record"),
        (of_identity, "a second verifier"),
    ],
)
def test_verifier(judge: Callable[..., Any], said: str) -> None:
    assert said in violated(contracts.check_verifier, verifier(judge), None, TOY)


def test_verifier_that_does_not_know_the_solution() -> None:
    told = (verifier(lambda self, e, t: Verdict(0.0)), None, TOY, lambda example: "a")
    assert "does not pass" in violated(contracts.check_verifier, *told)


# --- engine ---------------------------------------------------------------------------------------


class Engine(ScriptedEngine):
    """A sound scripted engine, to be broken."""

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(lambda prompt, rng: "".join(rng.permutation(list("abcdefghij"))))


def engine(**changes: Any) -> Callable[[Any, Setup], Any]:
    return type("Broken", (Engine,), changes)


async def by_place(self: Engine, requests: Any) -> Any:
    made = await Engine.generate(self, requests)
    return [
        self._reply(evolve(request, stream=bytes([index]) * 16))
        for index, request in enumerate(requests)
    ] or made


async def fewer(self: Engine, requests: Any) -> Any:
    return (await Engine.generate(self, requests))[1:]


async def constant(self: Engine, requests: Any) -> Any:
    return await Engine.generate(self, [evolve(r, stream=b"0" * 16) for r in requests])


async def deaf(self: Engine, requests: Any) -> Any:
    return await Engine.generate(self, [evolve(r, max_tokens=99) for r in requests])


async def unstopped(self: Engine, requests: Any) -> Any:
    return await Engine.generate(self, [evolve(r, stop=()) for r in requests])


async def other_weights(self: Engine, requests: Any) -> Any:
    made = await Engine.generate(self, requests)
    return [evolve(each, weights_id="others") for each in made]


async def wrong_id(self: Engine, path: Any) -> str:
    return "another"


def test_engine_that_is_sound_but_for_long_prompts() -> None:
    """The scripted engine takes a prompt of any length, which no model can."""
    assert "is taken, where max_context" in violated(contracts.check_engine, Engine, None)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (engine(generate=by_place), "other tokens"),
        (engine(generate=fewer), "generations for"),
        (engine(generate=constant), "request.stream is not used"),
        (engine(generate=deaf), "cannot be right"),
        (engine(generate=unstopped), "stop string"),
        (engine(generate=other_weights), "names other weights"),
        (engine(facts=lambda self: {"path": object()}), "facts() is not JSON"),
    ],
)
def test_engine(factory: Callable[..., Any], said: str) -> None:
    assert said in violated(contracts.check_engine, factory, None)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("save", "save() returns another id"),
        ("load", "gives other weights"),
        ("refresh", "parameters changed"),
        ("close", "close()"),
    ],
)
def test_engine_of_a_model(method: str, said: str) -> None:
    factory, config = factory_and_config("engine", "transformers")

    async def broken(self: Any, *arguments: Any) -> Any:
        if method == "refresh":
            return await self.weights_id()  # took no notice
        done = await getattr(factory, method)(self, *arguments)
        if method == "close":
            raise RuntimeError("closed already")
        return "another" if done else done

    kind = type("Broken", (factory,), {method: broken})
    assert said in violated(contracts.check_engine, kind, config)


# --- model update ---------------------------------------------------------------------------------

UPDATE = RsftConfig(prompts=4, group_size=4, lr=1e-2)


class ForgetfulRSFT(RSFT):
    """Does not keep its optimizer's moments: a fresh one after each load."""

    async def load(self, path: Any, engine: Any) -> None:
        self.__init__(self._config, SETUP)  # type: ignore[misc]


class UnnoticedRSFT(RSFT):
    """Changes the module, and does not say so to the engine."""

    async def steps(self, context: Any) -> Any:
        engine = context.engine
        served = await engine.weights_id() if hasattr(engine, "borrow") else ""

        async def silent() -> str:
            return str(served)

        engine.refresh = silent
        async for step in super().steps(context):
            yield step


def reporting(change: Callable[[Any], Any]) -> type[RSFT]:
    """Return an update whose reports are changed."""

    class Reporting(RSFT):
        async def steps(self, context: Any) -> Any:
            async for step in RSFT.steps(self, context):
                yield change(step)

    return Reporting


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (ForgetfulRSFT, "other weights|other numbers"),
        (UnnoticedRSFT, "engine.refresh"),
        (reporting(lambda step: evolve(step, step=step.step + 1)), "the report says step"),
        (reporting(lambda step: evolve(step, scored=step.rollouts)), "scored is"),
        (reporting(lambda step: evolve(step, reward=0.9)), "reward is 0.9"),
        (reporting(lambda step: evolve(step, updates=0)), "updates is 0"),
        (reporting(lambda step: evolve(step, loss=float("nan"))), "loss is nan"),
        (reporting(lambda step: {"step": step.step}), "yielded a dict"),
    ],
)
def test_model_update(factory: Callable[..., Any], said: str) -> None:
    line = violated(contracts.check_model_update, factory, UPDATE, tiny_engine)
    assert re.search(said, line)


def test_model_update_that_never_moves() -> None:
    idle = evolve(UPDATE, min_accepted=10_000)
    assert "no update" in violated(contracts.check_model_update, RSFT, idle, tiny_engine)


def test_model_update_with_another_epoch() -> None:
    kind = type("Broken", (RSFT,), {"steps_per_epoch": lambda self, prompts: prompts})
    line = violated(contracts.check_model_update, kind, UPDATE, tiny_engine)
    assert "steps_per_epoch" in line


def test_model_update_that_stumbles_over_a_foreign_engine() -> None:
    async def steps(self: Any, context: Any) -> Any:
        await context.engine.borrow(lambda module: None)
        yield None

    kind = type("Broken", (RSFT,), {"steps": steps})
    line = violated(contracts.check_model_update, kind, UPDATE, tiny_engine)
    assert "raise InputError" in line


# --- harness search -------------------------------------------------------------------------------


def search(**changes: Any) -> type[MetaHarness]:
    return type("Broken", (MetaHarness,), changes)


def reported(change: Callable[[Any], Any]) -> type[MetaHarness]:
    async def iterations(self: Any, context: Any) -> Any:
        async for report in MetaHarness.iterations(self, context):
            yield change(report)

    return search(iterations=iterations)


async def ungated(self: Any, harness: Any) -> None:
    return None


def without_gate(name: str, answer: Any) -> type[MetaHarness]:
    """Return a search that does not ask one gate."""

    async def iterations(self: Any, context: Any) -> Any:
        async def passes(harness: Any) -> Any:
            return answer

        kind = type("Context", (type(context),), {name: lambda self, harness: passes(harness)})
        fields = [a.name for a in context.__attrs_attrs__ if a.init]
        changed = kind(**{name: getattr(context, name) for name in fields})
        async for report in MetaHarness.iterations(self, changed):
            yield report

    return search(iterations=iterations)


async def impatient(self: Any, context: Any) -> Any:
    context.domain.split("test")
    async for report in MetaHarness.iterations(self, context):
        yield report


async def unfounded(self: Any, context: Any) -> Conclusion:
    return Conclusion(Harness("x", "nobody scored this"), "because")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (reported(lambda report: evolve(report, iteration=report.iteration - 1)), "iteration=0"),
        (reported(lambda report: evolve(report, best=0.123)), "is no score"),
        (reported(lambda report: evolve(report, candidates=())), "not scored in this phase"),
        (reported(lambda r: evolve(r, proposer_spent=Spent())), "cost is not in the report"),
        (search(iterations=impatient), "sealed"),
        (search(mark=lambda self: {1, 2}), "not a JSON value"),
        (without_gate("null_check", []), "solves the task itself"),
        (without_gate("smoke", None), "crashes in each episode"),
        (search(restore=lambda self, folder, mark: None), "another iteration|restore"),
        (search(conclude=unfounded), "conclusion: accepts a harness that was not scored"),
    ],
)
def test_harness_search(factory: Callable[..., Any], said: str) -> None:
    assert re.search(said, violated(contracts.check_harness_search, factory, SearchConfig()))


# --- proposer -------------------------------------------------------------------------------------


def proposer(sources: Callable[[Any], list[str]], **facts: Any) -> Callable[[Any, Setup], Any]:
    """Return the factory of a proposer that writes ``sources(proposer)`` and proposes them."""

    class Proposer:
        note = ""
        writes_code = False

        def __init__(self, config: Any, setup: Setup) -> None:
            self.calls = 0

        async def propose(self, workspace: Any) -> Proposal:
            self.calls += 1
            made = [
                Candidate(source, facts.get("parent", "h0000"), changes="all of it")
                for source in sources(self)[: facts.get("most", workspace.count)]
            ]
            folder = workspace.archive if facts.get("astray") else workspace.outbox
            for slot, candidate in enumerate(made):
                if facts.get("silent"):
                    break
                (folder / f"c{slot}").mkdir()
                (folder / f"c{slot}" / "harness.py").write_text(candidate.source)
                (folder / f"c{slot}" / "metadata.json").write_text(json.dumps({}))
            return Proposal(tuple(made), spent=Spent(sampled_tokens=facts.get("tokens", 0)))

    return Proposer


THREE = [f"# {n}\n{BASE}" for n in range(3)]


def test_proposer_that_is_sound() -> None:
    contracts.check_proposer(proposer(lambda self: THREE), None)


@frozen
class NoSettings:
    """Nothing to set."""


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (proposer(lambda self: []), "nothing is proposed"),
        (proposer(lambda self: THREE, most=3), "where 1 were wanted"),
        (proposer(lambda self: THREE[:1] * 3), "are equal"),
        (proposer(lambda self: [BASE]), "unchanged copy"),
        (proposer(lambda self: THREE, parent="h0077"), "no entry of the archive"),
        (proposer(lambda self: THREE, silent=True), "outbox"),
        (proposer(lambda self: THREE, astray=True), "outside the outbox"),
        (proposer(lambda self: THREE, tokens=-1), "cannot cost"),
        (proposer(lambda self: [f"# {self.calls}\n{BASE}"]), "state is kept between calls"),
        (proposer(lambda self: 1 / 0), "ZeroDivisionError"),  # type: ignore[arg-type,return-value]
    ],
)
def test_proposer(factory: Callable[..., Any], said: str) -> None:
    assert said in violated(contracts.check_proposer, factory, NoSettings())
