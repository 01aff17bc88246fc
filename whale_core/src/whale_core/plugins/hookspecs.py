"""The hooks: what a plugin package may implement, and when each hook is called.

*Registration hooks* are called once, when plugins are loaded, in the main process. They return a
list and must be quick: name heavy code as ``"module:Class"``, do not import it. A plugin whose
registration fails is left out as a whole, reported by ``whale plugins``, and becomes an error as
soon as a run wants a name that nobody else registers.

*Observer hooks* are called in the main process, on the thread of the run, while a run goes on. They
return nothing and change nothing: every argument is a frozen record shared with the run and the
other observers. An exception is caught, written to the journal under the plugin's name, and the run
goes on. A slow observer slows the run down. On resume, what is in the journal already is not told
again (``whale_before_phase`` of the phase that goes on is).

Implementations are plain functions (or methods of an observer object) marked with
``whale_core.plugins.hookimpl``; they may leave out arguments they do not use. Wrappers and
coroutine functions are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whale_core.plugins import Registration, hookspec

if TYPE_CHECKING:
    from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
    from whale_core.plugins.sets import PluginSet
    from whale_core.roles import PhaseResult, SearchIteration, WeightStep

# mypy wants a value where the signature promises one; a specification has no body.
# mypy: disable-error-code="empty-body"

# --- registration ---------------------------------------------------------------------------------


@hookspec
def whale_register_domains() -> list[Registration]:
    """Return the package's domains (``whale_core.roles.Domain``).

    A domain's configuration class may have a class attribute ``recommended``: a mapping of the
    shape of a configuration file, laid between the plugin set and the user's file. From it,
    settings of a role other than domain and verifier apply only while that role is filled by the
    plugin named there (by any plugin, if none is named): a domain does not choose the method.
    """


@hookspec
def whale_register_verifiers() -> list[Registration]:
    """Return the package's verifiers (``whale_core.roles.Verifier``)."""


@hookspec
def whale_register_model_updates() -> list[Registration]:
    """Return the package's weight updates (``whale_core.roles.ModelUpdate``)."""


@hookspec
def whale_register_harness_searches() -> list[Registration]:
    """Return the package's harness searches (``whale_core.roles.HarnessSearch``)."""


@hookspec
def whale_register_schedulers() -> list[Registration]:
    """Return the package's schedulers (``whale_core.roles.Scheduler``).

    A configuration class may have a class attribute ``needs``: names of the roles that must be
    filled for it (``("model_update",)`` for a weight-only schedule). It is checked before a run
    starts. Configuration classes of other roles may state their needs too.
    """


@hookspec
def whale_register_rollout_engines() -> list[Registration]:
    """Return the package's rollout engines (``whale_core.roles.RolloutEngine``)."""


@hookspec
def whale_register_proposers() -> list[Registration]:
    """Return the package's proposers of candidate harnesses (``whale_core.roles.Proposer``)."""


@hookspec
def whale_register_plugin_sets() -> list[PluginSet]:
    """Return the package's plugin sets: YAML files, read when a run names one."""


# --- observers ------------------------------------------------------------------------------------


@hookspec
def whale_on_run_started(run: RunInfo) -> None:
    """Take notice that a run starts or continues.

    Called once per process, after every part is built and before the first phase.

    Args:
        run: name, folder, resolved configuration, facts of model and machine, notes for the user.
    """


@hookspec
def whale_on_run_finished(run: RunInfo, result: Mapping[str, Any]) -> None:
    """Take notice that a run has ended normally.

    Called once, after ``result.json`` is on disk; not called for a run that stops resumable.

    Args:
        run: the record that ``whale_on_run_started`` got.
        result: the content of ``result.json``; do not change it.
    """


@hookspec
def whale_before_phase(phase: PhaseInfo) -> None:
    """Take notice that a phase starts.

    Called once per phase and process, before its first rollout; again if a run resumes within it.

    Args:
        phase: number, cycle, kind, incoming harness and weights, planned length.
    """


@hookspec
def whale_after_phase(phase: PhaseInfo, result: PhaseResult) -> None:
    """Take notice that a phase has ended.

    Called once per phase, after its journal line is durable.

    Args:
        phase: the record that ``whale_before_phase`` got.
        result: kind, cycle, length, and the training signal of each step or iteration.
    """


@hookspec
def whale_on_phase_error(phase: PhaseInfo, error: Exception) -> None:
    """Take notice that a phase failed.

    Called at most once per phase and process, instead of ``whale_after_phase``, before ``error``
    goes on to end the run. An interruption by the user is not told.

    Args:
        phase: the record that ``whale_before_phase`` got.
        error: what ended it; do not raise it again.
    """


@hookspec
def whale_on_weight_step(phase: PhaseInfo, step: WeightStep) -> None:
    """Take notice of a weight step.

    Called after each step, in order, when its journal line is durable.

    Args:
        phase: the weight phase it belongs to.
        step: counts, training reward, loss and seconds of the step.
    """


@hookspec
def whale_on_search_iteration(phase: PhaseInfo, iteration: SearchIteration) -> None:
    """Take notice of a search iteration.

    Called after each iteration, in order, when its journal line is durable; the first of a phase is
    the evaluation of the incoming harness. Sources, hypotheses and reasons in it may be written by
    a model: never print them raw.

    Args:
        phase: the harness phase it belongs to.
        iteration: candidates with scores or rejections, the archive's best, the accepted harness.
    """


@hookspec
def whale_on_evaluation(evaluation: Evaluation) -> None:
    """Take notice that a pair was evaluated on a held-out split.

    Called once per pair and split, when its journal line is durable: on ``selection`` between
    phases, on ``test`` in the final pass only.

    Args:
        evaluation: the pair, the split, mean and interval, behaviour metrics.
    """


@hookspec
def whale_on_notice(text: str) -> None:
    """Take notice of something the user should read now.

    Called when a run has been asked to stop and goes on to the end of its block.

    Args:
        text: one line in plain words.
    """


@hookspec
def whale_on_rollouts(purpose: str, done: int, total: int, sampled_tokens: int) -> None:
    """Take notice of progress inside a batch of rollouts.

    Called a few times per batch with rising ``done``, and exactly once with ``done == total``,
    which ends the batch.

    Args:
        purpose: what the batch is for: ``train``, ``score``, ``select``, ``test``, ``smoke``, …
        done: rollouts of this batch that have finished.
        total: rollouts of this batch.
        sampled_tokens: tokens that this batch has sampled so far.
    """
