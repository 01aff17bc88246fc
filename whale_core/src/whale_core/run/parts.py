"""Builds a run's parts from its resolved configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import fields, frozen

from whale_core.abilities import (
    PlansConclusion,
    PlansIterations,
    PlansSteps,
    PlaysNullModel,
    Priced,
    StepPlan,
    SwitchesThinking,
    TakesMessages,
)
from whale_core.config import Resolved
from whale_core.config.settings import HARNESS_FILE, RolloutSettings, SearchSettings
from whale_core.errors import InputError
from whale_core.jail import PROCESS_JAIL_GAPS, ChatRequest, HarnessLoadError, open_jail, probe
from whale_core.keys import content_hash, generator, json_hash
from whale_core.plugins.manager import Plugins
from whale_core.records import Example, Sampling
from whale_core.roles import (
    Domain,
    Harness,
    HarnessSearch,
    ModelUpdate,
    Proposer,
    RolloutEngine,
    RunFacts,
    Scheduler,
)
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy, NullPolicy, Policy
from whale_core.run.harness_sample import HarnessSample, harness_sample, sample_note
from whale_core.run.services import closed_on_error
from whale_core.run.task import Task, build_task, make_part
from whale_core.span import ZERO, Span

HARNESS_BYTES = 1 << 20
NULL_EXAMPLES = 64  # that a harness is gated on, whatever the search scores on


@frozen
class RolloutParts(Task):
    """What rollouts need. ``domain`` is sealed; ``unsealed`` is a run's final pass's only."""

    engine: RolloutEngine
    proposer: Proposer | None
    h0: Harness
    jail_kind: str
    notes: tuple[str, ...]

    @property
    def closing(self) -> tuple[object, ...]:
        """What must be closed at the end."""
        return (self.unsealed, self.verifier, self.engine)


@frozen
class Parts(RolloutParts):
    """Everything a run works with."""

    update: ModelUpdate | None
    search: HarnessSearch | None
    scheduler: Scheduler
    facts: RunFacts
    search_settings: SearchSettings
    confirmation: Confirmation
    score_examples: tuple[Example, ...]  # of the first harness phase
    selection_examples: tuple[Example, ...]
    null_examples: tuple[Example, ...]

    @property
    def closing(self) -> tuple[object, ...]:
        """What must be closed at the end, in this order."""
        return (self.update, *super().closing)

    def harness_sample(self, search: int) -> HarnessSample:
        """Return the D_harness examples of the run's harness phase number ``search`` (from 0)."""
        return harness_sample(self.domain.split("harness"), self.search_settings, search)


def build_rollout_parts(
    resolved: Resolved, plugins: Plugins, h0: str | None = None
) -> RolloutParts:
    """Build domain, verifier, engine and proposer, in that order.

    ``h0`` is the source of the first harness where the settings do not name it. Raises as
    ``build_parts`` does.
    """
    core = resolved.core
    task = build_task(resolved, plugins)
    check_splits(task.unsealed)
    harness = (
        base_harness(task.unsealed, core.harness)
        if h0 is None
        else Harness(content_hash(h0), h0, core.harness or task.unsealed.base_harness)
    )
    engine = make_part("engine", resolved, plugins, task.domain)
    with closed_on_error(task.unsealed, task.verifier, engine):
        proposer = make_part("proposer", resolved, plugins, task.domain, engine=engine)
        jail_kind, why = choose_jail(core.rollout.jail, proposer)
        check_priced("verifier", task.verifier, resolved)
        check_priced("proposer", proposer, resolved)
    told = [part.notes for part in (engine, task.verifier, proposer) if isinstance(part, Priced)]
    notes = (*getattr(task.unsealed, "notes", ()), *(note for each in told for note in each), why)
    return RolloutParts(
        **_fields_of(task, Task),
        engine=engine,
        proposer=proposer,
        h0=harness,
        jail_kind=jail_kind,
        notes=tuple(note for note in notes if note),
    )


def build_parts(resolved: Resolved, plugins: Plugins, h0: str | None = None) -> Parts:
    """Build the parts in order; ``h0`` is the source of the first harness where the settings do not
    name it (a continued run, say).

    Raises:
        InputError: settings the data cannot meet.
    """
    core = resolved.core
    base = build_rollout_parts(resolved, plugins, h0)
    with closed_on_error(*base.closing):
        if isinstance(base.engine, TakesMessages):
            check_endpoint(base.engine, resolved)
        data = base.unsealed
        sample = harness_sample(data.split("harness"), core.search, 0)
        score, score_note = sample.examples, sample_note(core.search, len(data.split("harness")))
        select, select_note = chosen_examples(
            data, "selection", core.selection.examples, "selection"
        )
        null, _ = chosen_examples(data, "harness", NULL_EXAMPLES, "null")
        _, test_note = chosen_examples(data, "test", core.test.examples, "test")
        update, search, scheduler = (
            make_part(role, resolved, plugins, base.domain, base.proposer, base.engine)
            for role in ("model_update", "harness_search", "scheduler")
        )
        confirming, confirm_note = confirmation(search, sample)
        per_score = len(score) * core.search.draws
        facts = run_facts(update, search, len(data.split("weight")), per_score, confirming)
        notes = (*base.notes, score_note, confirm_note, select_note, test_note)
        next(scheduler.phases(facts), None)  # refuses what it cannot plan before anything is made
    return Parts(
        **{**_fields_of(base, RolloutParts), "notes": tuple(note for note in notes if note)},
        confirmation=confirming,
        update=update,
        search=search,
        scheduler=scheduler,
        facts=facts,
        search_settings=core.search,
        score_examples=score,
        selection_examples=select,
        null_examples=null,
    )


def _fields_of(parts: Any, cls: type[Any]) -> dict[str, Any]:
    return {each.name: getattr(parts, each.name) for each in fields(cls)}


def run_facts(
    update: ModelUpdate | None,
    search: HarnessSearch | None,
    prompts: int,
    per_score: int,
    confirming: Confirmation,
) -> RunFacts:
    """Return what a scheduler may know.

    Args:
        update: the run's model update, if it has one.
        search: the run's harness search, if it has one.
        prompts: how many there are to train on.
        per_score: rollouts that score one harness.
        confirming: what the end of a harness phase measures.

    Raises:
        InputError: too few prompts for one weight step.
    """
    step = planned_step(update)
    tried = (
        search.planned_iteration(2, True).scored if isinstance(search, PlansIterations) else None
    )
    first = (
        search.planned_iteration(1, True).scored if isinstance(search, PlansIterations) else None
    )
    return RunFacts(
        steps_per_epoch=1 if update is None else update.steps_per_epoch(prompts),
        rollouts_per_step=0 if step is None else step.prompts * step.group_size,
        rollouts_per_score=0 if tried is None else per_score,
        candidates=(tried.most if tried is not None else None) or 1,
        rescored=((first.most if first is not None else None) or 1) - 1,
        rollouts_per_conclusion=confirming.rollouts.known,
    )


@frozen
class Confirmation:
    """What the end of a harness phase measures: so many harnesses, examples and draws."""

    harnesses: Span = ZERO
    examples: int = 0
    draws: int = 0

    @property
    def rollouts(self) -> Span:
        """All rollouts of it."""
        return self.harnesses * (self.examples * self.draws)


def confirmation(search: HarnessSearch | None, sample: HarnessSample) -> tuple[Confirmation, str]:
    """Return what the end of a phase measures, and a note where examples are fewer than wanted.

    Raises:
        InputError: there is no example that proposers do not see.
    """
    plan = search.planned_conclusion() if isinstance(search, PlansConclusion) else None
    if plan is None:
        return Confirmation(), ""
    wanted = len(sample.examples) if plan.examples is None else plan.examples
    there = len(sample.unseen)
    if not there:
        raise InputError(
            "harness_search: it confirms what it accepts on examples that no proposer sees, but "
            "search.shown shows the whole harness split: show fewer"
        )
    note = ""
    if there < wanted:
        note = (
            f"harness_search confirms on {wanted} examples that no proposer sees, but the harness "
            f"split has {there}: all are used"
        )
    return Confirmation(plan.harnesses, min(wanted, there), plan.draws), note


def planned_step(update: ModelUpdate | None) -> StepPlan | None:
    """Return what a weight step rolls out, or None if nobody says."""
    return update.planned_step() if isinstance(update, PlansSteps) else None


def choose_jail(wanted: str, proposer: Proposer | None) -> tuple[str, str]:
    """Return the jail's kind, and what the user must know of it.

    Where bubblewrap does not start, ``auto`` falls back to a restricted process for harnesses that
    people wrote (base harnesses, catalogue edits). Raises ``InputError`` when a proposer writes
    code: that needs the strong jail, or ``rollout.jail=process`` in so many words.
    """
    why = ""
    try:
        kind = probe(wanted)
    except InputError as error:
        if wanted != "auto" or (proposer is not None and proposer.writes_code):
            raise
        kind, why = probe("process"), f"{error}. "
    if kind == "process":
        gaps = "; ".join(PROCESS_JAIL_GAPS.values())
        why += f"Harnesses run in the weaker jail 'process', which cannot stop: {gaps}"
    return kind, why


def executor_of(parts: RolloutParts) -> RolloutExecutor:
    """Return the executor of all rollouts with these parts."""
    return RolloutExecutor(parts.domain, parts.verifier, parts.jail_kind)


def policy_of(engine: RolloutEngine, settings: RolloutSettings) -> Policy:
    """Return the policy that ``engine`` serves, decoded as set; a null model if it plays one.

    Raises:
        InputError: thinking is to be switched, and the model's template cannot.
    """
    if isinstance(engine, PlaysNullModel):
        return NullPolicy(engine.null_model, engine.tokenizer)
    tokenizer = engine.tokenizer
    if settings.thinking is not None:
        if not isinstance(tokenizer, SwitchesThinking):
            raise InputError(
                "rollout.thinking: this engine renders no chat template of a model here; leave it "
                "null"
            )
        tokenizer = tokenizer.with_thinking(settings.thinking)
    return EnginePolicy(engine, sampling_of(settings), settings.reply_seconds, tokenizer)


def sampling_of(settings: RolloutSettings) -> Sampling:
    """Return the decoding that is set."""
    return Sampling(settings.temperature, settings.top_k, settings.top_p)


def check_endpoint(engine: TakesMessages, resolved: Resolved) -> None:
    """Raise ``InputError`` when an endpoint cannot do what the settings want of it."""
    name = resolved.chosen["engine"].name
    if "model_update" in resolved.chosen and not (engine.trains and engine.takes_weights):
        lacks = "takes no updated weights" if engine.trains else "tells no token ids to train on"
        raise InputError(
            f"engine={name} serves no model update: as it is set, its endpoint {lacks}; leave "
            "model_update out (scheduler=harness-only), or set engine=transformers"
        )
    check_priced("engine", engine, resolved)


def check_priced(role: str, part: object, resolved: Resolved) -> None:
    """Raise ``InputError`` when a part that costs does not know how much, and there is a cap."""
    if isinstance(part, Priced) and not part.priced and resolved.core.cap.usd:
        raise InputError(
            f"cap.usd={resolved.core.cap.usd:g} cannot be kept: {role}="
            f"{resolved.chosen[role].name} does not know what its calls cost; give its prices, or "
            "cap rollouts or tokens instead"
        )


async def check_loads(parts: RolloutParts) -> None:
    """Load the first harness in a jail.

    Raises:
        InputError: it cannot be loaded, or its first call hands tools to a chat template that has
            no place for them: every rollout would fail.
    """
    try:
        if await _hands_tools(parts, parts.h0.source) and not parts.engine.tokenizer.supports_tools:
            sources = parts.domain.harnesses.items()
            others = [name for name, source in sources if not await _hands_tools(parts, source)]
            instead = f"harness={' or harness='.join(others)}" if others else "another harness"
            raise InputError(
                f"harness={parts.h0.name}: it calls tools through the chat template (tools=), for "
                f"which this model's has no place; use {instead}"
            )
    except HarnessLoadError as error:
        raise InputError(f"harness={parts.h0.name}: {error}") from error


async def _hands_tools(parts: RolloutParts, source: str) -> bool:
    """Say whether a harness begins an episode with a model call that has ``tools=``.

    Raises:
        HarnessLoadError: it cannot be loaded.
    """
    domain = parts.domain
    async with open_jail(source, domain.limits, parts.jail_kind) as jail:
        try:
            view = domain.environment(domain.split("weight")[0]).view()
            episode = await jail.episode(view, [tool.name for tool in domain.tools], "")
            try:
                event = await episode.receive()
            finally:
                await episode.close()
        except Exception:  # whatever goes wrong in an episode is told of where one counts
            return False
    return isinstance(event, ChatRequest) and bool(event.tools)


def check_splits(domain: Domain) -> None:
    """Raise ``InputError`` when two splits share an example's content or its source group, or two
    examples have one id: draws and scores are kept by it."""
    seen: dict[str, str] = {}
    for name in ("weight", "harness", "selection", "test"):
        marks = {json_hash(dict(e.content)) for e in domain.split(name)}
        marks |= {f"group {e.group}" for e in domain.split(name)}
        for mark in sorted(marks):
            if mark in seen:
                raise InputError(
                    f"domain {domain.name}: the splits {seen[mark]} and {name} share an example or "
                    f"its source ({mark}); results would not be clean"
                )
            seen[mark] = name
    ids: set[str] = set()
    for name in ("weight", "harness", "selection", "test"):
        for example in domain.split(name):
            if example.id in ids:
                raise InputError(
                    f"domain {domain.name}: the split {name} has an example with the id "
                    f"{example.id}, which another one has"
                )
            ids.add(example.id)


def chosen_examples(
    domain: Domain, split: str, count: int, key: str
) -> tuple[tuple[Example, ...], str]:
    """Return ``count`` examples of a split, the same for every seed, and a note where there are
    fewer."""
    examples = domain.split(split)
    order = generator("examples", split).permutation(len(examples))[:count]
    note = ""
    if count > len(examples):
        note = f"{key}.examples={count}, but the {split} split has {len(examples)}: all are used"
    return tuple(examples[int(index)] for index in order), note


def base_harness(domain: Domain, name: str) -> Harness:
    """Return h0: a base harness of the domain by name, or a file."""
    wanted = name or domain.base_harness
    sources: Mapping[str, str] = domain.harnesses
    if wanted in sources:
        source = sources[wanted]
    elif wanted.endswith(HARNESS_FILE):
        source = harness_file(wanted)
    else:
        raise InputError(
            f"harness={wanted}: domain {domain.name} has {', '.join(sources)}; or give a .py file"
        )
    return Harness(content_hash(source), source, wanted)


def harness_file(name: str) -> str:
    """Return the text of a harness file, line ends as Python reads them.

    Raises:
        InputError: it cannot be read as text, or is too large.
    """
    try:
        path = Path(name).expanduser()
        if path.exists() and not path.is_file():
            raise InputError(f"harness={name}: not a regular file")
        with path.open("rb") as file:
            data = file.read(HARNESS_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"harness={name}: line {line}: not UTF-8 text ({error.reason})") from error
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name; an unknown ~user
        raise InputError(f"harness={name}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > HARNESS_BYTES:
        raise InputError(f"harness={name}: larger than {HARNESS_BYTES} bytes: not a harness")
    return text.replace("\r\n", "\n").replace("\r", "\n")
