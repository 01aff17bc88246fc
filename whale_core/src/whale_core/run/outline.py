"""What a plan is counted from: a run's schedule and the sizes of its samples.

Taken from the parts of a run, or from its settings alone where the data, the model or the devices
are not there (``outlined``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import field, frozen

from whale_core.abilities import SizesSplits
from whale_core.config import Resolved
from whale_core.errors import InputError
from whale_core.plugins.manager import Plugins
from whale_core.plugins.references import resolve
from whale_core.records import Example
from whale_core.roles import Domain, HarnessSearch, ModelUpdate, Proposer, RunFacts, Scheduler
from whale_core.run.harness_sample import harness_sample
from whale_core.run.parts import NULL_EXAMPLES, Confirmation, Parts, confirmation, run_facts
from whale_core.run.task import make_part
from whale_core.span import UNKNOWN, Span


@frozen
class Outline:
    """A run's schedule, and how many examples it uses for what.

    ``null_models`` play ``null_examples`` where a harness passes the gates, and the test split.
    """

    scheduler: Scheduler
    facts: RunFacts
    update: ModelUpdate | None
    search: HarnessSearch | None
    score: int
    selection: int
    test: int
    confirmation: Confirmation = field(factory=Confirmation)
    null_models: Span = UNKNOWN
    null_examples: int = 0

    @classmethod
    def of(cls, parts: Parts) -> Outline:
        """Return the outline of a run whose parts are built; ``test`` is the whole split."""
        return cls(
            scheduler=parts.scheduler,
            facts=parts.facts,
            update=parts.update,
            search=parts.search,
            score=len(parts.score_examples),
            selection=len(parts.selection_examples),
            test=len(parts.unsealed.split("test")),
            confirmation=parts.confirmation,
            null_models=Span.exactly(len(parts.domain.null_models)),
            null_examples=len(parts.null_examples),
        )


def outlined(resolved: Resolved, plugins: Plugins) -> Outline:
    """Return the outline of a run from its settings: no data is read and no engine built.

    Splits are taken to be as large as the settings ask for.

    Raises:
        InputError: the domain does not say how large its splits are, or the settings contradict
            one another.
    """
    core, domain = resolved.core, resolved.chosen["domain"]
    if not isinstance(domain.config, SizesSplits):
        raise InputError(
            f"domain={domain.name} does not say how large its splits are before its data is there"
        )
    sizes = domain.config.split_sizes()
    stand_in = cast(Domain, _StandIn())
    proposer = cast(Proposer, _proposer(resolved, plugins))
    update, search, scheduler = (
        make_part(role, resolved, plugins, stand_in, proposer)
        for role in ("model_update", "harness_search", "scheduler")
    )
    sample = harness_sample(_placeholders(sizes["harness"]), core.search, 0)
    score = len(sample.examples)
    confirming, _ = confirmation(search, sample)
    facts = run_facts(update, search, sizes["weight"], score * core.search.draws, confirming)
    next(scheduler.phases(facts), None)  # refuses what it cannot plan
    return Outline(
        scheduler=scheduler,
        facts=facts,
        update=update,
        search=search,
        score=score,
        selection=min(core.selection.examples, sizes["selection"]),
        test=sizes["test"],
        confirmation=confirming,
        null_examples=min(NULL_EXAMPLES, sizes["harness"]),
    )


@frozen
class _StandIn:
    """A domain of which nothing is known."""

    metrics: tuple[Any, ...] = ()


@frozen
class _WouldBeProposer:
    """What a plan asks of a proposer."""

    writes_code: bool
    validates: bool


def _proposer(resolved: Resolved, plugins: Plugins) -> _WouldBeProposer | None:
    chosen = resolved.chosen.get("proposer")
    if chosen is None:
        return None
    made = resolve(chosen.registered, chosen.registered.registration.factory)
    writes = getattr(made, "writes_code", True)
    writes = writes if isinstance(writes, bool) else True
    validates = getattr(made, "validates", writes)
    return _WouldBeProposer(writes, validates if isinstance(validates, bool) else writes)


def _placeholders(count: int) -> tuple[Example, ...]:
    nothing: Mapping[str, Any] = {}
    return tuple(Example(str(index), nothing, str(index)) for index in range(count))
