"""The hooks: what a plugin package may implement, and when each hook is called.

Implementations are plain functions (or methods of an observer object) marked with
``whale_core.plugins.hookimpl``; they may leave out arguments they do not use. Wrappers, coroutine
functions, unknown names and functions without the mark are refused when the plugin is loaded.

Each hook states its facts below: *When*, *How often*, *Order*, *May change*, *Errors*. What holds
for all hooks of a kind stands in ``REGISTRATION`` and ``OBSERVER``. ``docs/hooks.md`` is made from
this file by ``scripts/reference_pages.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whale_core.plugins import Registration, hookspec

if TYPE_CHECKING:
    from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
    from whale_core.plugins.sets import PluginSet
    from whale_core.roles import Conclusion, PhaseResult, SearchIteration, WeightStep

# mypy wants a value where the signature promises one; a specification has no body.
# mypy: disable-error-code="empty-body"

REGISTRATION = {
    "When": "When plugins are loaded, at the start of a command; nothing has been built yet.",
    "How often": "Once each time plugins are loaded; a command loads them once.",
    "Order": "By distribution name, then entry point name, whale-core first; no result depends on "
    "it.",
    "May change": "Nothing but what it returns: a list of frozen records. Heavy code is named as a "
    "`module:Class` string and imported on use.",
    "Errors": "Caught by the loader: the plugin is left out as a whole, `whale plugins` and `whale "
    "doctor` report it, and a run that wants a name nobody else registers ends with exit code 3.",
}
OBSERVER = {
    "Order": "Last registered, first called, as pluggy does: observers of this process (the "
    "terminal view), then distributions from the last name to the first; `tryfirst` and `trylast` "
    "of the mark count. No observer can rely on what another did.",
    "May change": "Nothing: arguments are shared with the run and the other observers, what is "
    "returned is ignored. A slow observer slows the run down.",
    "Errors": "An `Exception` is caught for each observer alone, written to the journal "
    "(`observer_error`) under the plugin's name, and the run goes on; `KeyboardInterrupt` and "
    "`SystemExit` pass.",
}

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
def whale_register_trackers() -> list[Registration]:
    """Return the package's trackers: observers that a run's settings name in ``trackers.use``.

    The factory returns an object with observer hooks, and the run that names it tells it of
    everything, from its start or continuation on. The configuration class has the fields ``prefix``
    and ``x``, texts, for the settings of these names in ``trackers``. A factory that lacks a
    library raises ``whale_core.errors.InputError``: it is called before anything is spent. A
    tracker may have ``async def close()``, which is awaited when the run ends or stops, whatever
    the reason.
    """


@hookspec
def whale_register_plugin_sets() -> list[PluginSet]:
    """Return the package's plugin sets: YAML files, read when a run names one."""


# --- observers ------------------------------------------------------------------------------------


@hookspec
def whale_on_run_started(run: RunInfo) -> None:
    """Take notice that a run starts or continues.

    When: Every part is built and a continued run is at the state it goes on from; no phase of this
        process has begun.
    How often: Once per process.

    Args:
        run: name, folder, resolved configuration, facts of model and machine, notes for the user.
    """


@hookspec
def whale_on_run_finished(run: RunInfo, result: Mapping[str, Any]) -> None:
    """Take notice that a run has ended normally.

    When: After the final pass; ``result.json`` is on disk, the engine is closed.
    How often: Once; not for a run that stops resumable, nor when one that has ended is resumed.

    Args:
        run: the record that ``whale_on_run_started`` got.
        result: the content of ``result.json``; do not change it.
    """


@hookspec
def whale_before_phase(phase: PhaseInfo) -> None:
    """Take notice that a phase starts.

    When: Before the phase's first rollout.
    How often: Once per phase and process: again when a run resumes within the phase, whose
        ``done`` then says how far it was.

    Args:
        phase: number, cycle, kind, incoming harness and weights, planned length.
    """


@hookspec
def whale_after_phase(phase: PhaseInfo, result: PhaseResult) -> None:
    """Take notice that a phase has ended.

    When: After the pair was measured on ``selection`` (``whale_on_evaluation`` comes first) and
        the phase's journal line is durable.
    How often: Once per phase; not for one that stops resumable or fails.

    Args:
        phase: the record that ``whale_before_phase`` got.
        result: kind, cycle, length, and the training signal of each step or iteration.
    """


@hookspec
def whale_on_phase_error(phase: PhaseInfo, error: Exception) -> None:
    """Take notice that a phase failed.

    When: Instead of ``whale_after_phase``, before ``error`` goes on to end the run.
    How often: At most once per process; a cap that is reached and an interruption by the user are
        not told.

    Args:
        phase: the record that ``whale_before_phase`` got.
        error: what ended it; do not raise it again.
    """


@hookspec
def whale_on_weight_step(phase: PhaseInfo, step: WeightStep) -> None:
    """Take notice of a weight step.

    When: After the step, when its journal line is durable.
    How often: Once per step of the run, in order; steps that a resumed run repeats from its record
        are not told again.

    Args:
        phase: the weight phase it belongs to.
        step: counts, training reward, loss and seconds of the step.
    """


@hookspec
def whale_on_search_iteration(phase: PhaseInfo, iteration: SearchIteration) -> None:
    """Take notice of a search iteration.

    Sources, hypotheses and reasons in it may be written by a model: never print them raw.

    When: After the iteration, when its journal line is durable; the first of a phase is the
        evaluation of the incoming harness.
    How often: Once per iteration of the run, in order; those that a resumed run repeats from its
        record are not told again.

    Args:
        phase: the harness phase it belongs to.
        iteration: candidates with scores or rejections, the archive's best, the accepted harness.
    """


@hookspec
def whale_on_search_conclusion(phase: PhaseInfo, conclusion: Conclusion) -> None:
    """Take notice of what a search decided at its phase's end.

    Sources, hypotheses and reasons in it may be written by a model: never print them raw.

    When: After the phase's last iteration, when its journal line is durable; only of a search that
        decides then (``meta-harness`` with ``acceptance=confirmed``).
    How often: At most once per harness phase; one that a resumed run repeats from its record is
        not told again.

    Args:
        phase: the harness phase it belongs to.
        conclusion: the accepted harness, the reason, and what was measured again.
    """


@hookspec
def whale_on_evaluation(evaluation: Evaluation) -> None:
    """Take notice that a pair was evaluated on a held-out split.

    When: When its journal line is durable: on ``selection`` before the first phase (as ``phase 0``)
        and at each phase's end, on ``test`` in the final pass only.
    How often: Once per pair and split; equal corners of the final 2 × 2 are told under each name.

    Args:
        evaluation: the pair, the split, mean and interval, behaviour metrics.
    """


@hookspec
def whale_on_notice(text: str) -> None:
    """Take notice of something the user should read now.

    When: A run has been asked to stop and goes on to the end of its block.
    How often: At most once per process.

    Args:
        text: one line in plain words.
    """


@hookspec
def whale_on_rollouts(purpose: str, done: int, total: int, sampled_tokens: int) -> None:
    """Take notice of progress inside a batch of rollouts.

    When: After each block of up to 256 rollouts is committed.
    How often: A few times per batch with rising ``done``; the last has ``done == total``, unless
        the batch stops the run. Neither blocks that a resumed run reads back are told, nor the
        batches of null models.

    Args:
        purpose: what the batch is for: ``train``, ``score``, ``select``, ``test``, ``smoke``, …
        done: rollouts of this batch that have finished.
        total: rollouts of this batch.
        sampled_tokens: tokens that this batch has sampled so far.
    """
