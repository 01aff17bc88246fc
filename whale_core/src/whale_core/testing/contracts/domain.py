"""Contract of a domain: data, environment, harnesses, null models, metrics and catalogue."""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import json
import math
import textwrap
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve

from whale_core.errors import InputError, PluginError
from whale_core.jail import HarnessLoadError, open_jail
from whale_core.keys import generator, json_hash
from whale_core.plugins import Setup
from whale_core.records import Example, Json, Message, Outcome, Trajectory
from whale_core.roles import Domain, Edit, Environment, Limits, Tool, Verifier
from whale_core.rollout.reasons import is_crash
from whale_core.run.parts import check_splits, choose_jail
from whale_core.stats import exceeds_chance
from whale_core.testing.contracts.requirement import (
    Factory,
    build,
    doing,
    require,
    require_json,
)
from whale_core.testing.contracts.verifier import empty
from whale_core.testing.workbench import as_harness, play

SPLITS = ("weight", "harness", "selection", "test")
EXAMPLES = 8
NULL_EXAMPLES = 64
NULL_ERROR_RATE = 0.001
LONG_SECRET = 8  # characters, from which on a hidden value is no chance find within a text
ODD_VALUES: tuple[Json, ...] = (None, "", "\x00", "a" * 5000, 7, -1.5, True, [], {}, [["x"]])


def check_domain(
    factory: Factory, config: Any, verifier: Verifier, hidden: Sequence[str] = ()
) -> None:
    """Check a domain with its verifier.

    Splits are clean and the same each time; views and records are JSON, tell neither the id nor
    what ``content`` keeps under the keys ``hidden``, and no episode touches another; tools stand
    any arguments; each base harness loads in the jail, plays, and does not solve the task itself;
    each edit of the catalogue loads on the base harness; metrics are finite.
    """
    domain = build(factory, config, Setup(seed=0))
    _check_facts(domain)
    _check_splits(domain, build(factory, config, Setup(seed=0)))
    examples = domain.split("harness")[:EXAMPLES]
    for example in examples:
        _check_episode(domain, example, hidden)
        for tool in domain.tools:
            _check_tool(domain, example, tool)
    _check_null_replies(domain, examples)
    _check_metrics(domain, [empty(domain, example) for example in examples])
    asyncio.run(_check_programs(domain, verifier))


def _check_facts(domain: Domain) -> None:
    for name in ("name", "version", "verifier", "brief"):
        value = getattr(domain, name, None)
        require(isinstance(value, str) and bool(value.strip()), f"{name} must be a text")
    require(isinstance(domain.limits, Limits), "limits must be a Limits")
    require(isinstance(domain.answer_is_sampled, bool), "answer_is_sampled must be True or False")
    require(
        domain.base_harness in domain.harnesses,
        f"base_harness {domain.base_harness!r} is not one of harnesses",
    )
    for tool in domain.tools:
        unknown = set(tool.sampled) - set(tool.parameters)
        require(not unknown, f"tool {tool.name}: sampled names no parameter: {sorted(unknown)}")
    marked = domain.answer_is_sampled or any(tool.sampled for tool in domain.tools)
    require(
        marked, "nothing is marked as sampled (answer_is_sampled, Tool.sampled): who does the work?"
    )
    for kind in ("tools", "metrics", "null_models", "catalogue"):
        names = [each.name for each in getattr(domain, kind)]
        require(len(set(names)) == len(names), f"two of {kind} have one name")
    require(
        any(null.refuses for null in domain.null_models),
        "no null model refuses: a harness that solves the task itself would not be found out",
    )


def _check_splits(domain: Domain, again: Domain) -> None:
    for name in SPLITS:
        with doing(f"split({name!r})"):
            examples = domain.split(name)
            same = [e.id for e in again.split(name)] == [e.id for e in examples]
        require(len(examples) > 0, f"the split {name} is empty")
        require(same, f"the split {name} differs in a second domain with the same settings")
        require(len({e.id for e in examples}) == len(examples), f"the split {name} has an id twice")
        for example in examples:
            require_json(dict(example.content), f"the content of example {example.id}")
            require(bool(example.group), f"example {example.id} has no group")
    try:
        check_splits(domain)
    except InputError as error:
        raise AssertionError(str(error)) from None
    with doing("chance_levels(examples)"):
        levels = domain.chance_levels(domain.split("selection"))
    for name, level in levels.items():
        require(0.0 <= level <= 1.0, f"chance_levels: {name} is {level}, not in [0, 1]")


def _check_episode(domain: Domain, example: Example, hidden: Sequence[str]) -> None:
    """View and record of one episode, and that another one of the same example is apart."""
    before = json_hash(dict(example.content))
    with doing("environment(example)"):
        first, second = domain.environment(example), domain.environment(example)
        view, record = first.view(), second.record()
    require(first is not second, "environment() returned the same object twice")
    require_json(view, "view()")
    require_json(record, "record()")
    renamed = evolve(example, id=f"{example.id} by another name", group="another group")
    with doing("environment() of the example under another id (make it from content alone)"):
        same = domain.environment(renamed).view() == view
    require(same, "the view tells the example's id or group: it changes when they do")
    leaves = [each for each in _leaves(view) if isinstance(each, str)]
    shown = json.dumps(view, ensure_ascii=False, default=str)
    require(
        not _tells(leaves, shown, example.id), f"the view tells the example's id ({example.id})"
    )
    for key in hidden:
        secret = example.content[key]
        told = key in view or (
            isinstance(secret, str | int | float) and _tells(leaves, shown, str(secret))
        )
        require(not told, f"the view tells content[{key!r}], which is hidden")
    for tool in domain.tools:
        for value in _values(view):
            with suppress(Exception):  # _check_tool judges refusals
                _call(first, tool, dict.fromkeys(tool.parameters, value))
    require(
        second.view() == view and second.record() == record,
        "what is done in one episode changes another episode of the same example",
    )
    require(before == json_hash(dict(example.content)), "an episode changes its example's content")
    require_json(first.record(), "record() after some calls")


def _tells(leaves: Collection[str], shown: str, secret: str) -> bool:
    """Return whether a view holds ``secret`` as a value; a long one within a text or key too."""
    written = json.dumps(secret, ensure_ascii=False)[1:-1]
    return secret in leaves or (len(secret) >= LONG_SECRET and written in shown)


def _check_tool(domain: Domain, example: Example, tool: Tool) -> None:
    """A harness may send any JSON: it is answered with JSON, or refused with ``ValueError``."""
    odd = [dict.fromkeys(tool.parameters, value) for value in ODD_VALUES]
    given: list[dict[str, Json]] = [{}, {"no such argument": 1}, *odd]
    for arguments in given:
        what = f"call({tool.name!r}, {str(arguments)[:60]})"
        environment = domain.environment(example)
        try:
            result = _call(environment, tool, arguments)
        except ValueError as error:
            require(bool(str(error)), f"{what} raised a ValueError that says nothing")
            continue
        except Exception as error:
            raise AssertionError(
                f"{what} raised {type(error).__name__}: {error}; raise ValueError for bad "
                "arguments: anything else counts as the environment's own fault"
            ) from error
        require_json({"result": result}, f"the result of {what}")
        require_json(environment.record(), f"record() after {what}")


def _check_null_replies(domain: Domain, examples: Sequence[Example]) -> None:
    views = [domain.environment(example).view() for example in examples]
    conversations: tuple[tuple[Message, ...], ...] = ((), (Message("user", "Well?"),))
    for null in domain.null_models:
        with doing(f"null model {null.name}"):
            chance = null.chance(views)
            replies = [
                null.reply(view, messages, generator("null", null.name, index))
                for index, view in enumerate(views)
                for messages in conversations
            ]
            again = null.reply(views[0], conversations[0], generator("null", null.name, 0))
        require(0.0 <= chance <= 1.0, f"null model {null.name}: chance is {chance}, not in [0, 1]")
        require(
            all(isinstance(reply, str) and reply for reply in replies),
            f"null model {null.name} does not always reply with a text",
        )
        require(again == replies[0], f"null model {null.name} draws randomness from elsewhere")


def _check_metrics(domain: Domain, trajectories: Sequence[Trajectory]) -> None:
    for metric, trajectory in itertools.product(domain.metrics, trajectories):
        with doing(f"metric {metric.name} of an episode with {len(trajectory.calls)} calls"):
            value = float(metric.of(trajectory))
        require(math.isfinite(value), f"metric {metric.name} is {value}, not a finite number")


async def _check_programs(domain: Domain, verifier: Verifier) -> None:
    """Base harnesses and catalogue edits, in real jails."""
    examples = domain.split("harness")[:NULL_EXAMPLES]
    views = [domain.environment(example).view() for example in examples]
    for name, source in domain.harnesses.items():
        await _check_loads(domain, source, f"harness {name}")
        for null in domain.null_models:
            with doing(f"harness {name} with the null model {null.name}"):
                try:
                    played = await play(domain, verifier, as_harness(source, name), null, examples)
                except PluginError as error:
                    raise AssertionError(str(error)) from None
            _check_played(f"harness {name}, null model {null.name}", played)
            passed = sum(each.outcome is Outcome.PASS for each in played)
            chance = null.chance(views)
            require(
                not null.refuses or exceeds_chance(passed, len(played), chance) >= NULL_ERROR_RATE,
                f"harness {name} solves the task itself: the null model {null.name} passes "
                f"{passed} of {len(played)}, chance is {chance:.1%}",
            )
    base = domain.harnesses[domain.base_harness]
    for edit in domain.catalogue:
        await _check_loads(domain, with_members(base, edit), f"edit {edit.name}")


def _check_played(what: str, played: Sequence[Trajectory]) -> None:
    for each in played:
        require(
            each.outcome is not Outcome.NOT_SCORED,
            f"{what}: an episode could not be scored: {each.reason}",
        )
        require(
            each.reason is None or not is_crash(each.reason),
            f"{what}: an episode crashed: {each.reason}",
        )


async def _check_loads(domain: Domain, source: str, what: str) -> None:
    try:
        async with open_jail(source, domain.limits, choose_jail("auto", None)[0]):
            pass
    except HarnessLoadError as error:
        raise AssertionError(f"{what} does not load in the jail: {error}") from None


def with_members(source: str, edit: Edit) -> str:
    """Return ``source`` with the edit's members at the end of class ``Harness``, where they stand
    above earlier ones of the same name.

    Raises:
        AssertionError: a member is not one function or assignment of its name.
    """
    classes = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Harness"
    ]
    require(bool(classes), "the base harness has no top-level class Harness")
    end = classes[-1].end_lineno or 0
    lines = source.splitlines()
    added = []
    for name, text in edit.members.items():
        require(
            _defines(text, name),
            f"edit {edit.name}: the member {name} must be one function or assignment of that name, "
            "as source text at column 0",
        )
        added += ["", *textwrap.indent(text, "    ").splitlines()]
    return "\n".join([*lines[:end], *added, *lines[end:]]) + "\n"


def _defines(text: str, name: str) -> bool:
    try:
        match ast.parse(text).body:
            case [ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found)]:
                return found == name
            case [ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(found))]:
                return found == name
    except SyntaxError:
        return False
    return False


def _leaves(value: Json) -> Iterator[Json]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _values(view: Mapping[str, Json]) -> list[Json]:
    """Return some texts that might mean something to a tool: words of the view."""
    words = json.dumps(view, ensure_ascii=False).replace('"', " ").split()
    texts = [leaf for leaf in _leaves(view) if isinstance(leaf, str) and leaf]
    characters = [text[0] for text in texts]
    return [*texts[:8], *words[:8], *characters[:8]]


def _call(environment: Environment, tool: Tool, arguments: Mapping[str, Json]) -> Json:
    async def wait(result: Awaitable[Json]) -> Json:
        return await result

    result = environment.call(tool.name, arguments)
    return asyncio.run(wait(result)) if inspect.isawaitable(result) else result
