"""What a plugin may offer beside its role's protocol (``roles.py``).

Each is asked for with ``isinstance``: a part offers one by having its members, and a run does
without it where a part does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from whale_core.records import Example, Sampling, Spent, Trajectory
from whale_core.roles import Conclusion, NullModel, SearchContext, Tokenizer, Workspace
from whale_core.span import Span

T = TypeVar("T")

# --- any part -------------------------------------------------------------------------------------


@runtime_checkable
class Probes(Protocol):
    """A domain, verifier, proposer or model update that depends on what need not be there: a
    retriever, a judge, a model behind an address, a package of its own."""

    async def probe(self) -> Spent:
        """Ask whether it is there and fits the settings; return what that cost.

        Called before anything is spent, in an event loop that may be another than the run's. Raise
        ``InputError`` when it cannot be reached or refuses.
        """
        ...


@runtime_checkable
class Closes(Protocol):
    """A domain, verifier, model update or tracker that holds something open: worker processes, a
    jail, connections."""

    async def close(self) -> None:
        """Free everything, in the event loop that used it. Idempotent; it may be used again."""
        ...


@runtime_checkable
class Priced(Protocol):
    """A verifier or proposer that pays for what it does."""

    @property
    def priced(self) -> bool:
        """Whether it knows what they cost in USD."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a user must know of it, one sentence each."""
        ...


@runtime_checkable
class Pays(Protocol):
    """A proposer that writes down what it pays as it pays it: a session that does not end with a
    proposal is charged from that."""

    def paid(self, workspace: Workspace) -> Spent:
        """Return what the session on ``workspace`` has paid so far, all tries of it together."""
        ...


# --- domain ---------------------------------------------------------------------------------------


@runtime_checkable
class NamesService(Protocol):
    """A domain that depends on a service whose answers its version does not tell: what lies behind
    an address."""

    @property
    def service(self) -> str:
        """What the last ``probe`` found there, as a word and a hash; empty where there is nothing
        to tell. A run is only continued where it is as it was."""
        ...


@runtime_checkable
class HasRecordings(Protocol):
    """A domain that ships recorded proposals, for proposers that play them back."""

    @property
    def recordings(self) -> Mapping[str, Path]:
        """Folders of recorded proposals by name."""
        ...


@frozen
class Labelled:
    """An episode whose verdict is known without a verifier, and why it is in the set."""

    example: Example
    trajectory: Trajectory
    right: bool
    kind: str


@runtime_checkable
class HasAgreementSet(Protocol):
    """A domain that ships labelled episodes, by which its verifiers can be judged themselves."""

    @property
    def agreement_set(self) -> Sequence[Labelled]:
        """The labelled episodes; none of them uses a held-out example."""
        ...


# --- verifier -------------------------------------------------------------------------------------


@runtime_checkable
class Settles(Protocol):
    """A verifier that keeps what it bought and tells a rollout's cost again when a continued run
    makes that rollout again: it must know what needs no telling any more."""

    def settle(self) -> None:
        """Take note that what was told as spent so far is in the ledger to stay."""
        ...


@runtime_checkable
class KnowsRun(Protocol):
    """A verifier that keeps what it bought, of several runs: each is charged for its own."""

    def begin(self, run: str) -> None:
        """Take note of which run, or continued run, pays from now on: ``run`` is its own id."""
        ...


# --- engine ---------------------------------------------------------------------------------------


@runtime_checkable
class TakesMessages(Protocol):
    """An engine that sends messages to an endpoint, which renders and tokenises them itself.

    Its ``tokenizer`` only estimates: it measures prompts beforehand and cuts null models' replies.
    """

    @property
    def trains(self) -> bool:
        """Whether its generations make training rows: the ids of all their tokens are told."""
        ...

    @property
    def takes_weights(self) -> bool:
        """Whether updated weights can be handed over to it: ``load`` and ``save`` work."""
        ...

    @property
    def priced(self) -> bool:
        """Whether it knows what its generations cost."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a user must know of it, one sentence each."""
        ...

    async def probe(self, sampling: Sampling) -> Spent:
        """Ask the endpoint for one token, as the run will ask, and return what that cost.

        Called before anything else, in an event loop of its own; from then on ``facts`` and
        ``weights_id`` name what answered. Raise ``InputError`` when the endpoint refuses key, model
        or settings, ``EngineError`` when it cannot be reached.
        """
        ...


@runtime_checkable
class ProbesDecoding(Protocol):
    """An engine that depends on a service and must see whether it can serve a run's decoding."""

    async def probe(self, sampling: Sampling) -> Spent:
        """Find or start what it depends on, see that it fits, and return what that cost.

        Called before anything else, in an event loop of its own. Raise ``InputError`` when it does
        not fit the settings, ``EngineError`` when it cannot be reached.
        """
        ...


@runtime_checkable
class PlaysNullModel(Protocol):
    """An engine that serves no model: all turns are answered by one of the domain's null models,
    which read the task's view and not a prompt. ``generate`` is never called."""

    @property
    def null_model(self) -> NullModel:
        """What answers."""
        ...


@runtime_checkable
class LendsModule(Protocol):
    """An engine that lends its module to a trainer in the same process."""

    async def borrow(self, work: Callable[[Any], T]) -> T:
        """Run ``work(module)`` on the engine's thread (``module``: the served ``nn.Module``)."""
        ...

    async def refresh(self) -> str:
        """Take notice that the module's parameters changed in place: drop cached attention state,
        return the new weights id."""
        ...


@runtime_checkable
class GivesLogprobs(Protocol):
    """An engine that scores given tokens: what hands weights over to it compares with its own."""

    async def logprobs(self, token_ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return ``log p(token_ids[t] | token_ids[:t])`` for t = 1, …, n - 1, at temperature 1.

        ``token_ids``: shape (n,), n >= 2; the result has shape (n - 1,). Raise ``EngineError`` on a
        fault.
        """
        ...


@runtime_checkable
class Sleeps(Protocol):
    """An engine that can leave a GPU's memory to a trainer on the same GPU. Trainers call it before
    they load or compute."""

    async def sleep(self) -> None:
        """Free the memory of weights and caches, if the engine is set to; else do nothing.

        Any later call that needs them wakes the engine first, with the weights that it served.
        ``weights_id`` and ``save`` do not. Idempotent. Raise ``EngineError`` on a fault.
        """
        ...


@runtime_checkable
class ReadsAgain(Protocol):
    """An engine that may need the folder of the weights it serves again, to wake or to save."""

    def kept_at(self, path: Path) -> None:
        """Take notice that a copy of the served weights stays at ``path``: it may read that one
        from now on, until it loads others."""
        ...


# --- model update ---------------------------------------------------------------------------------


@frozen
class StepPlan:
    """What every weight step will ask of its context, and how many optimizer steps it makes at
    most."""

    prompts: int
    group_size: int
    most_updates: int = 1


@runtime_checkable
class PlansSteps(Protocol):
    """A ModelUpdate that can say beforehand what its steps cost. Where one does not, a plan calls
    the training rollouts unknown."""

    def planned_step(self) -> StepPlan:
        """Return what each step rolls out."""
        ...


# --- harness search and proposer ------------------------------------------------------------------


@frozen
class IterationPlan:
    """What one search iteration will ask of its context: calls of ``propose``, and how many
    harnesses it gives to ``smoke``, ``null_check`` and ``score``."""

    proposals: Span
    smoked: Span
    null_checked: Span
    scored: Span


@runtime_checkable
class PlansIterations(Protocol):
    """A HarnessSearch that can say beforehand what its iterations cost. Where one does not, a plan
    calls the search's rollouts unknown."""

    def planned_iteration(self, iteration: int, known: bool) -> IterationPlan:
        """Return what iteration ``iteration`` of a phase (from 1) asks for.

        ``known`` says that the incoming harness is one that this search accepted earlier.
        """
        ...


@runtime_checkable
class Concludes(Protocol):
    """A HarnessSearch that may decide on a phase's result once, after its last iteration.

    So a test of what was found is made once in a phase, however long a scheduler lets it be.
    """

    async def conclude(self, context: SearchContext) -> Conclusion | None:
        """Return the phase's result; None: it is what the last iteration accepted.

        Called after the last iteration, when the iterator has been closed.
        """
        ...


@frozen
class ConclusionPlan:
    """What ``conclude`` will ask ``score`` for: so many harnesses on ``examples`` that no proposer
    sees (None: as many as the phase scores on), ``draws`` times each."""

    harnesses: Span
    examples: int | None
    draws: int


@runtime_checkable
class PlansConclusion(Protocol):
    """A HarnessSearch that can say beforehand what the end of a phase costs. Where one does not, it
    counts as nothing."""

    def planned_conclusion(self) -> ConclusionPlan | None:
        """Return what ``conclude`` asks for; None: nothing."""
        ...


@runtime_checkable
class Validates(Protocol):
    """A Proposer that says whether it may have candidates validated while it works. Where one does
    not, a plan takes it that one that writes code may."""

    @property
    def validates(self) -> bool:
        """Whether it may call ``Workspace.validate``."""
        ...


@runtime_checkable
class SwitchesThinking(Protocol):
    """A Tokenizer whose chat template has the model think before it replies, or not, as asked."""

    def with_thinking(self, thinking: bool) -> Tokenizer:
        """Return the tokenizer with thinking on or off.

        Raises:
            InputError: the template has no such switch.
        """
        ...


@frozen
class Serving:
    """How an engine will serve on GPUs: ``sequences`` at once on each replica (0: as many as fit
    into ``share`` of its GPUs)."""

    model: str
    replicas: int = 1
    gpus_each: int = 1
    context: int = 4096
    share: float = 1.0
    sequences: int = 0


@frozen
class Training:
    """How a model update trains: ``ranks`` share optimizer state (ZeRO 1), gradients (2) and
    parameters (3). ``lora_rank`` 0: every parameter is trained. ``tokens`` are computed at once,
    the logits of ``logits`` of them (0: of all)."""

    ranks: int = 1
    zero: int = 0
    lora_rank: int = 0
    tokens: int = 4096
    logits: int = 0


@runtime_checkable
class PlansServing(Protocol):
    """Settings of a RolloutEngine that say what they serve on which GPUs, so that a run can be
    planned where these are not there."""

    def serving(self) -> Serving | None:
        """Return how it serves; None: the engine can be tried out here."""
        ...


@runtime_checkable
class PlansTraining(Protocol):
    """Settings of a ModelUpdate that say how it trains; see ``PlansServing``."""

    def training(self) -> Training:
        """Return how it trains."""
        ...


@runtime_checkable
class SizesSplits(Protocol):
    """Settings of a Domain that say how large they want its splits, so that a run can be planned
    where its data is not there."""

    def split_sizes(self) -> Mapping[str, int]:
        """Return the examples that each of ``weight``, ``harness``, ``selection`` and ``test`` is
        to have."""
        ...
