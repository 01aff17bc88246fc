"""Starting and resuming a run: the entry points of the command line and the Python API."""

from __future__ import annotations

import asyncio
import json
import platform
import time
from importlib import metadata
from pathlib import Path

from attrs import evolve

from whale_core import __version__
from whale_core.config import Resolved, read_config
from whale_core.config.settings import CapSettings
from whale_core.errors import RunFolderError
from whale_core.plugins.events import RunInfo
from whale_core.plugins.manager import Observers, Plugins
from whale_core.records import Json, Sampling
from whale_core.roles import HarnessPhase, PhaseResult, RunFacts, WeightPhase
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.run.evaluation import Pair
from whale_core.run.finale import RunIdentity, finish
from whale_core.run.folder import RunFolder, write_atomically, write_json
from whale_core.run.ledger import Ledger
from whale_core.run.loop import Alternation
from whale_core.run.parts import Parts, build_parts, check_loads
from whale_core.run.rollouts import Rollouts
from whale_core.run.sampler import PromptSampler
from whale_core.run.sealed import split_hash


def run(resolved: Resolved, plugins: Plugins, run_dir: Path) -> dict[str, Json]:
    """Start a run in the new folder ``run_dir`` and return its result when it ends.

    Raises a ``WhaleError`` with its exit code; the folder can be resumed after 5, 6 and 130.
    """
    parts = build_parts(resolved, plugins)
    asyncio.run(check_loads(parts))
    folder = RunFolder.create(run_dir)
    try:
        stored = resolved.to_yaml()
        write_atomically(run_dir / "config.yaml", lambda part: part.write_text(stored))
        write_json(run_dir / "manifest.json", _manifest(resolved, parts))
        started = time.time()
        folder.commit("run_started", settings_hash=resolved.settings_hash(), started=started)
        return asyncio.run(_drive(resolved, parts, folder, plugins.hooks, started))
    finally:
        folder.close()


def resume(run_dir: Path, plugins: Plugins, cap: int | None = None) -> dict[str, Json]:
    """Continue the run in ``run_dir`` from its last finished phase and return its result.

    ``cap`` replaces the run's cap on rollouts (0: none); nothing else can be changed in between.
    The result of a run that has ended is returned as it is.
    """
    folder = RunFolder.open(run_dir)
    try:
        if any(entry["event"] == "run_done" for entry in folder.entries):
            return _stored_json(run_dir / "result.json")
        resolved = read_config(plugins, run_dir / "config.yaml")
        if cap is not None:
            resolved = evolve(resolved, core=evolve(resolved.core, cap=CapSettings(cap)))
        parts = build_parts(resolved, plugins)
        _check_manifest(run_dir, _manifest(resolved, parts))
        started = folder.entries[0]["started"]
        return asyncio.run(_drive(resolved, parts, folder, plugins.hooks, started))
    finally:
        folder.close()


async def _drive(
    resolved: Resolved, parts: Parts, folder: RunFolder, observers: Observers, started: float
) -> dict[str, Json]:
    core = resolved.core

    def note_failure(plugin: str, hook: str, error: Exception) -> None:
        folder.commit("observer_error", plugin=plugin, hook=hook, error=repr(error))

    observers.on_observer_error = note_failure
    policy = EnginePolicy(
        parts.engine,
        Sampling(core.rollout.temperature, core.rollout.top_k, core.rollout.top_p),
    )
    rollouts = Rollouts(
        executor=RolloutExecutor(parts.domain, parts.verifier, parts.jail_kind),
        policy=policy,
        tokenizer=parts.engine.tokenizer,
        folder=folder,
        ledger=Ledger(),
        observers=observers,
        seed=core.seed,
        max_not_scored=core.rollout.max_not_scored,
        cap=core.cap.rollouts,
    )
    alternation = Alternation(
        parts=parts,
        core=core,
        folder=folder,
        rollouts=rollouts,
        observers=observers,
        sampler=PromptSampler(parts.domain.split("weight"), core.seed),
        pair=Pair(parts.h0, None, await parts.engine.weights_id()),
    )
    info = RunInfo(
        name=folder.path.name,
        folder=folder.path,
        config=resolved.tree,
        facts={**parts.engine.facts(), "planned_rollouts": planned_rollouts(resolved, parts)},
        notes=parts.notes,
    )
    try:
        done = await alternation.restore()
        observers.on_run_started(info)
        await alternation.run(done)
        identity = RunIdentity(
            plugin_set=resolved.plugin_set,
            seed=core.seed,
            settings_hash=resolved.settings_hash(),
            jail_kind=parts.jail_kind,
            started=started,
        )
        result = await finish(alternation, identity)
    finally:
        await parts.engine.close()
    observers.on_run_finished(info, result)
    return result


def planned_rollouts(resolved: Resolved, parts: Parts) -> int | None:
    """Return about how many rollouts the run will make, or None when a phase's length is open."""
    core = resolved.core
    update = resolved.chosen.get("model_update")
    search = resolved.chosen.get("harness_search")
    per_step = 0 if update is None else _rollouts_per_step(update.config)
    candidates = getattr(search.config, "candidates", 1) if search is not None else 0
    per_score = core.search.examples * core.search.draws
    selection = core.selection.examples * core.selection.draws
    steps_per_epoch = (
        1
        if parts.update is None
        else parts.update.steps_per_epoch(len(parts.domain.split("weight")))
    )
    total = selection + 4 * core.test.examples * core.test.draws
    phases = parts.scheduler.phases(RunFacts(steps_per_epoch))
    phase = next(phases, None)
    while phase is not None:
        length = phase.until.planned()
        if length is None:
            return None
        if isinstance(phase, WeightPhase):
            total += length * per_step
        else:
            total += per_score * (1 + (length - 1) * candidates)
        total += selection
        kind = "harness" if isinstance(phase, HarnessPhase) else "weights"
        try:
            phase = phases.send(PhaseResult(kind, 0, length, (0.0,) * length))
        except StopIteration:
            phase = None
    return total


def _rollouts_per_step(config: object) -> int:
    return int(getattr(config, "prompts", 0)) * int(getattr(config, "group_size", 1))


def _manifest(resolved: Resolved, parts: Parts) -> dict[str, Json]:
    """Return versions, machine facts and the content hashes of all that defines a score."""
    packages = ("numpy", "scipy", "torch", "transformers", "tokenizers", "chess")
    return {
        "whale": __version__,
        "seed": resolved.core.seed,
        "settings_hash": resolved.settings_hash(),
        "engine": dict(parts.engine.facts()),
        "harness": parts.h0.id,
        "domain": {"name": parts.domain.name, "version": parts.domain.version},
        "verifier": parts.verifier.version,
        "splits": {
            name: {
                "examples": len(parts.unsealed.split(name)),
                "hash": split_hash(parts.unsealed.split(name)),
            }
            for name in ("weight", "harness", "selection", "test")
        },
        "plugins": {
            role: f"{chosen.registered.distribution} {chosen.registered.version}"
            for role, chosen in resolved.chosen.items()
        },
        "jail": parts.jail_kind,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": {name: version for name in packages if (version := _version(name))},
    }


def _stored_json(path: Path) -> dict[str, Json]:
    try:
        stored: dict[str, Json] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    return stored


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _check_manifest(run_dir: Path, now: dict[str, Json]) -> None:
    """Refuse to mix numbers: what defines a score must be as it was when the run began."""
    then = _stored_json(run_dir / "manifest.json")
    for key in (
        "seed",
        "settings_hash",
        "engine",
        "harness",
        "domain",
        "verifier",
        "splits",
        "jail",
    ):
        if then.get(key) != now[key]:
            raise RunFolderError(
                f"{run_dir}: {key} differs from when the run was started ({then.get(key)} then, "
                f"{now[key]} now): resume it where it began, or start a new run"
            )
