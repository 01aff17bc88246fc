"""WHALE from Python: the same runs as the command line's, and their parts alone.

    from whale_core.api import run, resume, search, rollouts, evaluate, register
    from whale_rsft.api import rsft

All take settings in the same way: ``base`` is the name of a plugin set, or a mapping of settings in
its place; ``settings`` stand above it, as nested mappings or with dotted keys::

    run("default", {"domain": "chess", "scheduler.iterations": 6}, seed=3)

They may be called where an event loop is running (a notebook): the work is then done on a thread of
its own, and so are the calls of observers. Ctrl-C ("interrupt the kernel") stops a run when the
block being worked on is done (``Interrupted``), a second one at once (``KeyboardInterrupt``); both
leave a run that ``resume`` continues. Every error that a user can mend is a
``whale_core.errors.WhaleError`` of one line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from attrs import frozen

from whale_core.config import Resolved, resolve
from whale_core.config.layers import lay_over, layer_of
from whale_core.errors import InputError, RunFolderError
from whale_core.keys import content_hash
from whale_core.plugins.here import register
from whale_core.plugins.manager import Plugins, load_plugins
from whale_core.records import Json
from whale_core.roles import Harness
from whale_core.run.episodes import Asked, Episodes, measured, roll_out
from whale_core.run.evaluation import PairScore
from whale_core.run.parts import build_rollout_parts
from whale_core.run.place import check_unused, default_folder
from whale_core.run.result import RunResult
from whale_core.run.session import resume as resume_run
from whale_core.run.session import run as start_run
from whale_core.run.stopping import beside_a_loop

__all__ = [
    "Episodes",
    "Harness",
    "PairScore",
    "RunResult",
    "evaluate",
    "register",
    "resume",
    "rollouts",
    "run",
    "run_phases",
    "search",
]

Base = str | Mapping[str, Any]
Settings = Mapping[str, Any]
AnyHarness = str | Path | Harness

ROLLOUT_ROLES = ("domain", "verifier", "engine")
NO_METHOD = {"proposer": None, "model_update": None, "harness_search": None, "scheduler": None}


def run(
    base: Base,
    settings: Settings | None = None,
    *,
    harness: AnyHarness | None = None,
    seed: int | None = None,
    run_dir: str | Path | None = None,
    progress: bool = True,
    observers: Sequence[object] = (),
) -> RunResult:
    """Improve weights and harness in turns, as ``whale run`` does.

    Args:
        base: a plugin set's name, or settings in its place.
        settings: what stands above it.
        harness: where to start: a base harness of the domain by name, a ``.py`` file, a program's
            text, or a ``Harness``.
        seed: the same as the setting ``seed``.
        run_dir: a new folder for the run; by default ``runs/NAME-DATE-TIME``.
        progress: print a line for what happens.
        observers: objects with ``whale_on_…`` hooks (marked ``whale_core.plugins.hookimpl``).

    Raises:
        InputError: settings, data or harness are wrong; nothing was started.
        PluginError: a plugin cannot be used.
        RunFolderError: the folder cannot be used, or its disk fails.
        CapReached, TooMuchNotScored, EngineError, TrainerError, Interrupted, KeyboardInterrupt: the
            run stopped; ``resume`` continues it.
        TypeError: an observer has a hook that would never be called.
    """
    return run_phases(
        {},
        base,
        settings,
        harness=harness,
        seed=seed,
        run_dir=run_dir,
        progress=progress,
        observers=observers,
    )


def search(
    base: Base,
    settings: Settings | None = None,
    *,
    harness: AnyHarness | None = None,
    seed: int | None = None,
    run_dir: str | Path | None = None,
    progress: bool = True,
    observers: Sequence[object] = (),
) -> RunResult:
    """Search for a better harness under weights that stay as they are: one harness phase.

    A run with the scheduler ``harness-only`` (``scheduler.iterations``) and no model update, so it
    works with any engine. Arguments and errors are those of ``run``. The result's ``harness`` is
    the one to use, ``candidates`` what was tried, ``archive`` the programs.
    """
    return run_phases(
        {"scheduler": "harness-only", "model_update": None},
        base,
        settings,
        harness=harness,
        seed=seed,
        run_dir=run_dir,
        progress=progress,
        observers=observers,
    )


def run_phases(
    method: Settings,
    base: Base,
    settings: Settings | None,
    *,
    harness: AnyHarness | None = None,
    seed: int | None = None,
    run_dir: str | Path | None = None,
    progress: bool = True,
    observers: Sequence[object] = (),
) -> RunResult:
    """Run ``base`` with the settings ``method`` over it and ``settings`` over both.

    For functions such as ``search``, which are a method of a few settings. Arguments and errors are
    those of ``run``.
    """
    start = _Start.of(harness)
    plugins = _plugins(observers)
    above = lay_over(layer_of(method), _settings(settings, start, seed))
    _check_scheduler(plugins, method, above)
    resolved = resolve(plugins, base, (), above)
    folder = default_folder(resolved.plugin_set) if run_dir is None else Path(run_dir)
    check_unused(folder)

    def work() -> dict[str, Json]:
        return start_run(resolved, plugins, folder, start.source)

    return RunResult.read(folder, _done(work, plugins, progress))


def resume(
    run_dir: str | Path,
    caps: Settings | None = None,
    *,
    progress: bool = True,
    observers: Sequence[object] = (),
) -> RunResult:
    """Continue a run that was stopped, or return the result of one that has ended.

    Plugins that a program registered itself must be registered again before.

    Args:
        run_dir: the run's folder.
        caps: new caps, such as ``{"cap.rollouts": 20000}`` (0: none); all else stays.
        progress: print a line for what happens.
        observers: as for ``run``.

    Raises:
        InputError: a setting that is no cap, or a plugin that is not there any more.
        RunFolderError: the folder is none, or what defines a score has changed.
    """
    folder = Path(run_dir)
    if not folder.is_dir():
        raise RunFolderError(f"no run folder at {folder}")
    plugins = _plugins(observers)
    done = _done(lambda: resume_run(folder, plugins, caps or {}), plugins, progress)
    return RunResult.read(folder, done)


def rollouts(
    base: Base,
    settings: Settings | None = None,
    *,
    harness: AnyHarness | None = None,
    checkpoint: str | Path | None = None,
    split: str = "weight",
    examples: int = 8,
    draws: int = 1,
    seed: int | None = None,
    progress: bool = True,
    observers: Sequence[object] = (),
) -> Episodes:
    """Play some episodes under one harness and one policy, and return their trajectories.

    Only domain, verifier and engine are used; a mapping as ``base`` needs to name no more.

    Args:
        base: a plugin set's name, or settings in its place.
        settings: what stands above it.
        harness: as for ``run``.
        checkpoint: a folder of weights to serve; by default the engine's initial model.
        split: ``weight``, ``harness`` or ``selection``.
        examples: how many examples of it.
        draws: how many episodes of each.
        seed: the same as the setting ``seed``.
        progress: print a line for what happens.
        observers: as for ``run``.

    Raises:
        InputError: settings, harness or checkpoint are wrong, or the split is the sealed ``test``.
        PluginError: a plugin cannot be used.
        EngineError: the engine cannot say what it serves.
    """
    asked = Asked(split, examples, draws, "smoke", _folder(checkpoint))
    return _rolled_out(base, settings, harness, seed, asked, progress, observers)[0]


def evaluate(
    base: Base,
    settings: Settings | None = None,
    *,
    harness: AnyHarness | None = None,
    checkpoint: str | Path | None = None,
    split: str = "selection",
    examples: int | None = None,
    draws: int | None = None,
    seed: int | None = None,
    progress: bool = True,
    observers: Sequence[object] = (),
) -> PairScore:
    """Measure a pair as a run does between its phases; return its mean with a 95 % interval.

    Arguments are those of ``rollouts``; ``examples`` and ``draws`` are by default the settings
    ``selection.examples`` and ``selection.draws``. With a run's settings and seed the result on
    ``selection`` is the run's own. The test split is opened by a run's final pass only.

    Raises:
        InputError, PluginError, EngineError: as ``rollouts`` does.
        TooMuchNotScored: more than ``rollout.max_not_scored`` of the episodes have no score.
    """
    asked = Asked(split, examples, draws, "select", _folder(checkpoint))
    made, resolved = _rolled_out(base, settings, harness, seed, asked, progress, observers)
    return measured(made, asked, resolved.core.rollout.max_not_scored)


@frozen
class _Start:
    """The harness to start from: a ``name`` for the settings, and its ``source`` if given."""

    name: str | None = None
    source: str | None = None

    @classmethod
    def of(cls, harness: AnyHarness | None) -> _Start:
        if isinstance(harness, Harness):
            return cls(harness.name or harness.id, harness.source)
        if isinstance(harness, str) and "\n" in harness:
            return cls(content_hash(harness), harness)
        return cls(None if harness is None else str(harness))


def _settings(settings: Settings | None, start: _Start, seed: int | None) -> dict[str, Any]:
    """Return the layer of ``settings`` with what has an argument of its own."""
    given = {"harness": start.name, "seed": seed}
    above = {key: value for key, value in given.items() if value is not None}
    return lay_over(layer_of(settings or {}), layer_of(above))


def _plugins(observers: Sequence[object]) -> Plugins:
    plugins = load_plugins()
    for index, observer in enumerate(observers):
        plugins.observe(observer, f"observer {index} ({type(observer).__name__})")
    return plugins


def _check_scheduler(plugins: Plugins, method: Settings, above: Settings) -> None:
    """Say where the scheduler of a method comes from, if it is wanted and not installed."""
    wanted, chosen = method.get("scheduler"), above.get("scheduler")
    if wanted is None or not isinstance(chosen, dict) or chosen.get("name") != wanted:
        return
    try:
        plugins.get("scheduler", wanted)
    except InputError as error:
        raise InputError(f"{error}; get it with: pip install whale-schedulers") from error


def _rolled_out(
    base: Base,
    settings: Settings | None,
    harness: AnyHarness | None,
    seed: int | None,
    asked: Asked,
    progress: bool,
    observers: Sequence[object],
) -> tuple[Episodes, Resolved]:
    start = _Start.of(harness)
    plugins = _plugins(observers)
    above = lay_over(_settings(settings, start, seed), NO_METHOD)
    resolved = resolve(plugins, base, (), above, ROLLOUT_ROLES)
    asked.checked(resolved.core.selection)  # before a model is loaded

    def work() -> Episodes:
        parts = build_rollout_parts(resolved, plugins, start.source)
        return roll_out(parts, resolved.core, plugins.hooks, asked)

    return _done(work, plugins, progress), resolved


def _folder(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path).expanduser().absolute()


def _done(work: Callable[[], Any], plugins: Plugins, progress: bool) -> Any:
    """Do ``work``, beside an event loop if one is running, and show its progress if wanted."""
    with _shown(plugins) if progress else nullcontext():
        return beside_a_loop(work)


@contextmanager
def _shown(plugins: Plugins) -> Iterator[None]:
    from rich.console import Console

    from whale_core.cli.session import watched

    # In a notebook rich would make every line an HTML output of its own.
    console = Console(file=sys.stdout, highlight=False, force_jupyter=False)
    with watched(plugins, console):
        yield
