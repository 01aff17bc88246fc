"""The roles a plugin can play, as protocols. Read this page to write a plugin.

Everything a plugin gets from the core comes through its context (``WeightContext``,
``SearchContext``); everything it gives back is a frozen record. A part that lacks a member of its
protocol, or has one of another kind (no ``async def``, other arguments), is refused when it is
built. Members written as properties are read only: an attribute of a class or an object will do.
What a part may offer besides is in ``abilities.py``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from attrs import field, frozen

from whale_core.records import (
    Example,
    Fault,
    Generation,
    GenerationRequest,
    Json,
    Message,
    NotScored,
    Refusal,
    Replayed,
    Row,
    Spent,
    Trajectory,
    Verdict,
)

T = TypeVar("T")

# --- domain ---------------------------------------------------------------------------------------


@frozen
class Tool:
    """An action a harness can take with ``env.call(name, **arguments)``.

    Arguments named in ``sampled`` must be spans of text that the model sampled in this episode
    (provenance): the harness may point at what the model said, never say it itself.
    """

    name: str
    description: str
    parameters: Mapping[str, str]
    sampled: tuple[str, ...] = ()


@frozen
class Limits:
    """Counted limits of an episode, enforced outside the jail; passing one is a fail."""

    model_calls: int = 16
    sampled_tokens: int = 2048
    env_calls: int = 64
    message_bytes: int = 200_000
    cpu_seconds: float = 5.0
    memory_mb: int = 512
    wall_seconds: float = 60.0


class Environment(Protocol):
    """One episode's state and transitions, on the trusted side. Made new for each rollout."""

    def view(self) -> Mapping[str, Json]:
        """Return the public view that the harness gets as ``task`` (JSON values only)."""
        ...

    def call(self, name: str, arguments: Mapping[str, Json]) -> Json | Awaitable[Json]:
        """Take an action and return its JSON result. Raise ``ValueError`` for bad arguments: the
        harness sees the message."""
        ...

    def record(self) -> Mapping[str, Json]:
        """Return the JSON account from which the verifier judges."""
        ...


@frozen
class Metric:
    """A named behaviour metric of a trajectory (format rate, retries, …); the mean is reported.

    ``tie_break`` metrics may separate candidates of equal reward, larger first.
    """

    name: str
    of: Callable[[Trajectory], float]
    tie_break: bool = False


@frozen
class NullModel:
    """A policy that knows nothing: ``reply(view, messages, rng)`` makes up a model reply.

    A harness that scores above ``chance`` (mean over ``views``) with one that ``refuses`` solves
    the task itself. The others (always the first listed, always the last) only measure position
    leak.
    """

    name: str
    reply: Callable[[Mapping[str, Json], Sequence[Message], np.random.Generator], str]
    chance: Callable[[Sequence[Mapping[str, Json]]], float]
    refuses: bool = True


@frozen
class Edit:
    """One catalogue entry for the offline proposer: whole class members (methods or constants) of
    ``Harness`` to put in place of the parent's, keyed by name, as source text at column 0.

    ``kind`` is the author's label (``useful``, ``neutral``, ``harmful``); nothing decides on it.
    """

    name: str
    axis: str
    hypothesis: str
    members: Mapping[str, str]
    kind: str = "neutral"


class Domain(Protocol):
    """A task family: data, environment, harnesses, metrics and what proposers need to know."""

    @property
    def name(self) -> str:
        """What results call it."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever the same data would give other episodes or scores."""
        ...

    @property
    def limits(self) -> Limits:
        """What an episode may use."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """What ``env.call`` can do."""
        ...

    @property
    def answer_is_sampled(self) -> bool:
        """Whether the final answer must be a span of sampled text."""
        ...

    @property
    def harnesses(self) -> Mapping[str, str]:
        """Base harness sources by name."""
        ...

    @property
    def base_harness(self) -> str:
        """The name of h0 among them."""
        ...

    @property
    def verifier(self) -> str:
        """The default verifier's plugin name."""
        ...

    @property
    def metrics(self) -> Sequence[Metric]:
        """Behaviour to report beside the reward."""
        ...

    @property
    def null_models(self) -> Sequence[NullModel]:
        """Policies that know nothing: what every harness is gated with."""
        ...

    @property
    def catalogue(self) -> Sequence[Edit]:
        """Edits for the offline proposer."""
        ...

    @property
    def brief(self) -> str:
        """What proposers need to know: the task, what may change and what may not."""
        ...

    def split(self, name: str) -> Sequence[Example]:
        """Return the examples of ``weight``, ``harness``, ``selection`` or ``test``."""
        ...

    def environment(self, example: Example) -> Environment:
        """Return a fresh environment for one episode of ``example``."""
        ...

    def chance_levels(self, examples: Sequence[Example]) -> Mapping[str, float]:
        """Return named reference lines for a report: what simple programs score on ``examples``."""
        ...


class Verifier(Protocol):
    """Judges a trajectory; a function of its inputs. One object serves all phases."""

    @property
    def version(self) -> str:
        """Changes whenever the same trajectory would get another verdict."""
        ...

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        """Return the verdict on ``trajectory`` (its ``record`` and ``answer``)."""
        ...


# --- engine ---------------------------------------------------------------------------------------


class Tokenizer(Protocol):
    """The four primitives the core's token bridge needs of a model's tokenizer."""

    @property
    def end_tokens(self) -> frozenset[int]:
        """The ids that end a turn."""
        ...

    @property
    def supports_tools(self) -> bool:
        """Whether the chat template renders tool schemas."""
        ...

    def template(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Json] | None = None
    ) -> str:
        """Return the chat template's text for ``messages``, generation prompt included."""
        ...

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Tokenise without adding tokens. ``special=False`` splits special-token strings into
        ordinary tokens (for untrusted text)."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, special tokens skipped."""
        ...


class RolloutEngine(Protocol):
    """Serves one policy. What it samples for a request depends on the request and weights alone."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The served model's tokenizer."""
        ...

    @property
    def max_context(self) -> int:
        """How many tokens prompt and reply may have together."""
        ...

    @property
    def vocabulary(self) -> int:
        """Token ids are below this; 0 when the engine does not know."""
        ...

    def facts(self) -> Mapping[str, Json]:
        """Return what defines its numbers: model, dtype, threads, instruction set."""
        ...

    async def generate(
        self, requests: Sequence[GenerationRequest]
    ) -> Sequence[Generation | Refusal | Fault]:
        """Return one generation per request, in order. Raise ``EngineError`` on a fault.

        A caller that waits no longer cancels this: give the work up then. A request that alone went
        wrong is told by a ``Fault`` in its place, or by a log-probability that is not finite; one
        that is wrong itself by a ``Refusal``. The core checks all that is returned.
        """
        ...

    async def weights_id(self) -> str:
        """Return the content hash of the weights now served."""
        ...

    async def load(self, path: Path | None) -> str:
        """Serve the checkpoint folder ``path`` (None: the initial model); return its weights id."""
        ...

    async def save(self, path: Path) -> str:
        """Write the served weights as a Hugging Face folder; return their weights id."""
        ...

    async def forget(self) -> None:
        """Drop cached prompts, so that what is cached does not depend on earlier blocks."""
        ...

    async def close(self) -> None:
        """Free everything. Idempotent."""
        ...


# --- the two coordinates --------------------------------------------------------------------------


@frozen
class Harness:
    """A harness program and where it came from. ``id`` is the content hash of the source."""

    id: str
    source: str
    name: str = ""


@frozen
class Group:
    """All G rollouts of one prompt, in draw order, failures and not-scored ones included."""

    example: Example
    trajectories: tuple[Trajectory, ...]
    rows: tuple[
        tuple[Row, ...], ...
    ] = ()  # per trajectory; rows carry the sampling log-probabilities


@frozen
class TrainedRollout:
    """How many of a rollout's sampled tokens a weight step trained on."""

    step: int  # the one that rolled it out: an earlier one where it had to wait
    example_id: str
    draw: int
    tokens: int  # those with loss mask 1 in an update that was made


@frozen
class WeightStep:
    """Report of one weight step (= one prompt batch)."""

    step: int  # global, from 1
    prompts: int
    rollouts: int
    scored: int
    accepted: int
    reward: float  # mean reward of scored rollouts: the training signal
    updates: int  # optimizer steps made
    trained_tokens: int = 0
    loss: float | None = None
    grad_norm: float | None = None
    changed_share: float | None = None  # share of served values that this step changed
    unsettled: bool = False  # the phase's next step needs more than a checkpoint holds
    seconds: float = 0.0
    rollout_seconds: float = 0.0
    metrics: Mapping[str, float] = field(factory=dict)
    reasons: Mapping[str, int] = field(factory=dict)  # filled in by the core, as in Score
    trained_on: tuple[TrainedRollout, ...] | None = None  # for reports; None: it does not say


class WeightContext(Protocol):
    """What a ModelUpdate gets for one phase."""

    engine: RolloutEngine
    harness: Harness
    seed: int
    next_step: int  # global number of the phase's first step

    def next_prompts(self, count: int) -> list[Example]:
        """Take the next prompts of D_weight: none twice within an epoch, across all phases."""
        ...

    def best_harnesses(self, count: int) -> list[Harness]:
        """Return the phase's harness and after it the best others that the last search scored, at
        most ``count`` in all: fewer where the archive has fewer."""
        ...

    async def rollout(
        self,
        prompts: Sequence[Example],
        group_size: int,
        step: int,
        harnesses: Sequence[Harness] | None = None,
    ) -> list[Group]:
        """Roll out ``group_size`` draws of each prompt under the current pair.

        With ``harnesses``, one a prompt, each prompt under its own instead of the phase's.
        """
        ...


class ModelUpdate(Protocol):
    """θ ← ModelUpdate(θ; h): owns its optimizer state, which lives across phases.

    A continued run calls ``load`` with the last checkpoint and then ``steps`` again; rollouts that
    were committed come back unchanged, and the same updates must follow from them, bit for bit.
    """

    def steps_per_epoch(self, prompts: int) -> int:
        """Return how many weight steps make one epoch of ``prompts`` prompts."""
        ...

    def steps(self, context: WeightContext) -> AsyncGenerator[WeightStep, None]:
        """Yield after each weight step; the loop closes the iterator when the phase ends."""
        ...

    async def save(self, path: Path) -> None:
        """Write the optimizer state into the folder ``path``."""
        ...

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        """Restore the optimizer state; ``engine`` already serves the matching weights."""
        ...


@frozen
class Score:
    """A harness's measured score. Valid for ``weights_id`` only."""

    harness_id: str
    weights_id: str
    mean: float
    scored: int
    not_scored: int
    rewards: Mapping[str, tuple[float, ...]]  # example id -> reward of each scored draw
    mean_calls: float
    sampled_tokens: int
    metrics: Mapping[str, float] = field(factory=dict)
    reasons: Mapping[str, int] = field(factory=dict)  # why rollouts ended before a verdict


@frozen
class Rejection:
    """Why a candidate was not scored: the gate's name and its reason in one line."""

    gate: str
    reason: str


@frozen
class CandidateReport:
    """One candidate of an iteration: its origin, and its score or its rejection."""

    harness: Harness
    parent: str | None
    axis: str
    hypothesis: str
    changes: str
    score: Score | None = None
    rejection: Rejection | None = None
    position_leak: Mapping[str, float] = field(factory=dict)


@frozen
class SearchIteration:
    """Report of one search iteration; number 1 is the evaluation of the incoming harness.

    ``best`` is the training signal that ends phases: how well the best of what was searched so far
    does. It is a score that candidates were chosen by, never one that confirms a choice: a
    scheduler asks whether the search still finds better harnesses, not whether one is proven.
    """

    iteration: int
    candidates: tuple[CandidateReport, ...]
    best: float
    accepted: Harness
    accepted_reason: str
    seconds: float = 0.0
    proposer_spent: Spent = field(factory=Spent)


@frozen
class Conclusion:
    """What a search decided at the end of a phase: the phase's result, and why in plain words.

    ``candidates`` are the harnesses that were measured for it, each with that score.
    """

    accepted: Harness
    accepted_reason: str
    candidates: tuple[CandidateReport, ...] = ()
    seconds: float = 0.0


@frozen
class NullResult:
    """What one null model scored under a harness."""

    name: str
    mean: float
    chance: float
    examples: int
    refused: bool


class SearchContext(Protocol):
    """What a HarnessSearch gets for one phase."""

    domain: Domain
    harness: Harness  # the incoming one
    weights_id: str
    cycle: int
    phase: int
    seed: int
    folder: Path  # the run's harnesses/ folder: the archive over all cycles

    @property
    def examples(self) -> Sequence[Example]:
        """The D_harness examples on which this phase scores."""
        ...

    @property
    def shown(self) -> Sequence[Example]:
        """The first of ``examples``: those on which proposers may see traces."""
        ...

    @property
    def unseen(self) -> Sequence[Example]:
        """The examples of D_harness on which no proposer of the run ever sees a trace: first those
        of ``examples`` that are not shown, then those that this phase does not score."""
        ...

    async def score(
        self,
        harnesses: Sequence[Harness],
        examples: Sequence[Example] | None = None,
        draws: int | None = None,
        purpose: str = "score",
        first_draw: int = 0,
    ) -> list[Score]:
        """Score all in one pool, on common draw keys.

        Args:
            harnesses: what to score; an empty list gives no scores.
            examples: of D_harness; by default all of the phase.
            draws: rollouts of each example; by default as many as are set.
            purpose: names the draws and their charge in the ledger: ``score``, or ``confirm`` for
                rollouts that no choice of what to confirm has seen.
            first_draw: the number of the first draw. Draws of another number or purpose are fresh.
        """
        ...

    def traces(self, harness: Harness) -> list[Trajectory]:
        """Return the trajectories of this phase's scoring of ``harness`` on the shown examples, in
        the order of examples and draws; what prompts were as tokens is left out of them."""
        ...

    async def propose(
        self,
        proposer: Proposer,
        iteration: int,
        workspace: Callable[[], AbstractContextManager[Workspace]],
    ) -> Proposal:
        """Have the proposer fill a workspace, which is opened for it, and charge its cost.

        Once in the life of the run: a continued run gets the recorded proposal. A failure is in
        the proposal, not raised. What is asked of the context while the workspace is open is not
        recorded but charged, since a session that was interrupted is begun again.
        """
        ...

    async def replay(self, harness: Harness, recorded: Trajectory) -> Replayed:
        """Execute ``harness`` in the jail on the example and the replies of ``recorded``.

        It is given them whatever it asks; ``diverged`` says from where on it asks something else.
        """
        ...

    async def load_check(self, harness: Harness) -> str | None:
        """Load the harness in a jail; return the error in one line, or None."""
        ...

    async def smoke(self, harness: Harness) -> str | None:
        """Run a few real episodes; return why one crashed, or None."""
        ...

    async def null_check(self, harness: Harness) -> list[NullResult]:
        """Run the domain's null models under the harness (no policy involved)."""
        ...


class HarnessSearch(Protocol):
    """h ← HarnessSearch(h; θ).

    An interrupted phase is searched again from its start, where ``restore`` leads, with all that
    the context had answered coming back unchanged; what follows from it must be the same.
    """

    def iterations(self, context: SearchContext) -> AsyncGenerator[SearchIteration, None]:
        """Yield after each iteration; the last one's ``accepted`` is the phase's result, unless
        the search ``Concludes`` it otherwise."""
        ...

    def mark(self) -> Json:
        """Return a JSON value that names the search's present state, for ``restore``."""
        ...

    def restore(self, folder: Path, mark: Json) -> None:
        """Go back to the state that ``mark`` names; ``folder`` is the run's harnesses/ folder."""
        ...


@frozen
class Candidate:
    """A proposed harness as read from the outbox."""

    source: str
    parent: str | None
    axis: str = ""
    hypothesis: str = ""
    changes: str = ""


@frozen
class Proposal:
    """What one proposer session produced and what it cost.

    ``failure`` says why it ended before its time, if it did: what it had by then still counts.
    ``report`` is what it has to say to the next session.
    """

    candidates: tuple[Candidate, ...]
    spent: Spent = field(factory=Spent)
    failure: str = ""
    report: str = ""


class Workspace(Protocol):
    """A proposer's view of the search: a read-only archive and a writable outbox, as folders."""

    @property
    def root(self) -> Path:
        """The folder of all that follows; everything in it but ``outbox`` is to be left alone."""
        ...

    @property
    def archive(self) -> Path:
        """What was tried before, to read."""
        ...

    @property
    def outbox(self) -> Path:
        """Where candidates go, one folder each."""
        ...

    @property
    def brief(self) -> str:
        """The domain's brief."""
        ...

    @property
    def iteration(self) -> int:
        """The iteration of the phase, from 1."""
        ...

    @property
    def count(self) -> int:
        """How many candidates are wanted."""
        ...

    @property
    def instructions(self) -> str:
        """How to work: what holds for every domain, and this one's brief."""
        ...

    async def validate(self, source: str) -> Rejection | None:
        """Send a candidate through all gates that the search will apply, null models included.

        Raises:
            InputError: this session has validated as many candidates as it may.
            CapReached: a cap of the run is used up; let it pass.
        """
        ...

    async def rehearse(self, source: str, example: str) -> str:
        """Execute a candidate in the jail on the replies that the accepted harness got for the
        shown example of the id ``example``; return what happened, turn by turn, as text.

        Raises:
            InputError: there is no such shown example, the candidate cannot be loaded, or this
                session has rehearsed as often as it may.
            CapReached: a cap of the run is used up; let it pass.
        """
        ...


class Proposer(Protocol):
    """Writes candidates into ``workspace.outbox/<slot>/harness.py`` (+ ``metadata.json``).

    It knows its workspace alone and keeps nothing from one call to the next: a continued run does
    not repeat the calls it made.
    """

    @property
    def note(self) -> str:
        """One sentence that results carry about where candidates come from, or nothing."""
        ...

    @property
    def writes_code(self) -> bool:
        """Whether candidates are more than members of a catalogue people wrote."""
        ...

    async def propose(self, workspace: Workspace) -> Proposal:
        """Return the candidates of one iteration."""
        ...


# --- when to switch -------------------------------------------------------------------------------


class StopRule(Protocol):
    """Decides when a phase ends, from its training signal only."""

    def observe(self, signal: float) -> bool:
        """Take the signal of one more step or iteration; return True to end the phase here."""
        ...

    def planned(self) -> int | None:
        """Return the number of steps or iterations when it is known beforehand."""
        ...


@frozen
class WeightPhase:
    """Run weight steps until the rule says stop."""

    until: StopRule


@frozen
class HarnessPhase:
    """Run search iterations until the rule says stop."""

    until: StopRule


Phase = WeightPhase | HarnessPhase


def kind_of(phase: Phase) -> str:
    """Return ``weights`` or ``harness``."""
    return "weights" if isinstance(phase, WeightPhase) else "harness"


def begins_cycle(kind: str, first: str) -> bool:
    """Return whether a phase begins a cycle: one of the kind that the run's ``first`` phase was."""
    return kind == first


@frozen
class PhaseResult:
    """What came of a phase, sent back to the scheduler (on resume, from the journal)."""

    kind: str  # "weights" | "harness"
    cycle: int
    length: int  # steps or iterations
    signals: tuple[float, ...]
    gain: float | None = None
    """How much more the pair scores on the selection split than before the phase: mean of the
    differences over the examples scored both times, on common draw keys. Neither training nor a
    search has seen these; it is one measurement, with its noise. None where no example was scored
    both times, or an older version wrote the journal."""


@frozen
class RunFacts:
    """What a scheduler may know beforehand.

    Rollouts are counted as if every candidate is scored, and 0 where a plugin's settings do not say
    how many it makes. Those of evaluations between phases are not among them.
    """

    steps_per_epoch: int
    rollouts_per_step: int = 0
    rollouts_per_score: int = 0  # of one harness
    candidates: int = 1  # in each iteration but the first, which scores the incoming harness
    rescored: int = 0  # older harnesses that the first iteration scores as well
    rollouts_per_conclusion: int = 0  # at a harness phase's end

    def search_rollouts(self, iterations: int) -> int:
        """Return the rollouts of a harness phase of ``iterations``."""
        scored = 1 + self.rescored + (iterations - 1) * self.candidates
        return self.rollouts_per_score * scored + self.rollouts_per_conclusion


class Scheduler(Protocol):
    """Yields phases and is sent their results. Every published condition is one of these."""

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        """Return the generator of phases; its end ends the run normally."""
        ...
