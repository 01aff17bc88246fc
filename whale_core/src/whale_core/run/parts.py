"""Builds a run's parts from its resolved configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from whale_core.config import Resolved
from whale_core.config.settings import HARNESS_FILE
from whale_core.errors import InputError
from whale_core.jail import PROCESS_JAIL_GAPS, HarnessLoadError, open_jail, probe
from whale_core.keys import content_hash, generator, json_hash
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.records import Example, Sampling, Spent
from whale_core.roles import (
    Domain,
    Harness,
    HarnessSearch,
    ModelUpdate,
    Proposer,
    RolloutEngine,
    Scheduler,
    TakesMessages,
    Verifier,
)
from whale_core.run.sealed import SealedDomain

HARNESS_BYTES = 1 << 20
NULL_EXAMPLES = 64  # that a harness is gated on, whatever the search scores on


@frozen
class Parts:
    """Everything a run works with. ``domain`` is sealed; ``unsealed`` is the final pass's only."""

    unsealed: Domain
    domain: Domain
    verifier: Verifier
    engine: RolloutEngine
    proposer: Proposer | None
    update: ModelUpdate | None
    search: HarnessSearch | None
    scheduler: Scheduler
    h0: Harness
    jail_kind: str
    score_examples: tuple[Example, ...]
    selection_examples: tuple[Example, ...]
    null_examples: tuple[Example, ...]
    notes: tuple[str, ...]


def build_parts(resolved: Resolved, plugins: Plugins, h0: str | None = None) -> Parts:
    """Build the parts in order; ``h0`` is the source a continued run began with.

    Raises:
        InputError: settings the data cannot meet.
    """
    core = resolved.core
    built: dict[str, Any] = {}

    def make(role: str) -> Any:
        chosen = resolved.chosen.get(role)
        if chosen is None:
            return None
        setup = Setup(core.seed, built.get("domain"), built.get("proposer"))
        return plugins.build(role, chosen.name, chosen.config, setup)

    unsealed = make("domain")
    check_splits(unsealed)
    built["domain"] = SealedDomain(unsealed)
    verifier = make("verifier")
    engine = make("engine")
    if isinstance(engine, TakesMessages):
        check_endpoint(engine, resolved)
    built["proposer"] = make("proposer")
    jail_kind, why = choose_jail(core.rollout.jail, built["proposer"])
    score, score_note = chosen_examples(unsealed, "harness", core.search.examples, "search")
    select, select_note = chosen_examples(
        unsealed, "selection", core.selection.examples, "selection"
    )
    null, _ = chosen_examples(unsealed, "harness", NULL_EXAMPLES, "null")
    _, test_note = chosen_examples(unsealed, "test", core.test.examples, "test")
    told = engine.notes if isinstance(engine, TakesMessages) else ()
    notes = [*getattr(unsealed, "notes", ()), *told, score_note, select_note, test_note]
    update = make("model_update")
    if update is not None:
        update.steps_per_epoch(len(unsealed.split("weight")))  # refuses too small a split now
    return Parts(
        unsealed=unsealed,
        domain=built["domain"],
        verifier=verifier,
        engine=engine,
        proposer=built["proposer"],
        update=update,
        search=make("harness_search"),
        scheduler=make("scheduler"),
        h0=(
            base_harness(unsealed, core.harness)
            if h0 is None
            else Harness(content_hash(h0), h0, core.harness or unsealed.base_harness)
        ),
        jail_kind=jail_kind,
        score_examples=score,
        selection_examples=select,
        null_examples=null,
        notes=tuple(note for note in (*notes, why) if note),
    )


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


def check_endpoint(engine: TakesMessages, resolved: Resolved) -> None:
    """Raise ``InputError`` when an endpoint cannot do what the settings want of it."""
    name = resolved.chosen["engine"].name
    if not engine.trains and "model_update" in resolved.chosen:
        raise InputError(
            f"engine={name} serves no model update: an endpoint tells no token ids and takes no "
            "weights; leave model_update out (scheduler=harness-only), or set engine=transformers"
        )
    if not engine.priced and resolved.core.cap.usd:
        raise InputError(
            f"cap.usd={resolved.core.cap.usd:g} cannot be kept: engine={name} does not know what "
            "its calls cost; give its prices, or cap rollouts or tokens instead"
        )


async def probe_endpoint(engine: RolloutEngine, sampling: Sampling) -> Spent:
    """Ask an endpoint whether it serves the run; return what that cost. No other engine is asked.

    To be called before the engine is used or its facts are read. Raises as ``TakesMessages.probe``.
    """
    return await engine.probe(sampling) if isinstance(engine, TakesMessages) else Spent()


async def check_loads(parts: Parts) -> None:
    """Load the first harness in a jail. Raises ``InputError`` when it cannot be loaded."""
    try:
        async with open_jail(parts.h0.source, parts.domain.limits, parts.jail_kind):
            pass
    except HarnessLoadError as error:
        raise InputError(f"harness={parts.h0.name}: {error}") from error


def check_splits(domain: Domain) -> None:
    """Raise ``InputError`` when two splits share an example's content or its source group."""
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
        source = _harness_file(wanted)
    else:
        raise InputError(
            f"harness={wanted}: domain {domain.name} has {', '.join(sources)}; or give a .py file"
        )
    return Harness(content_hash(source), source, wanted)


def _harness_file(name: str) -> str:
    """Return the text of a harness file, line ends as Python reads them."""
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
