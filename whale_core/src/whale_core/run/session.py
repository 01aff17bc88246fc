"""Starting and resuming a run: the entry points of the command line and the Python API."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import asdict

from whale_core.config import Resolved, read_config
from whale_core.errors import RunFolderError, WhaleError
from whale_core.keys import content_hash
from whale_core.plugins.events import RunInfo
from whale_core.plugins.manager import Observers, Plugins
from whale_core.records import Json, Sampling
from whale_core.roles import HarnessPhase, PhaseResult, RunFacts, WeightPhase
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.run.caps import Caps
from whale_core.run.evaluation import Pair
from whale_core.run.finale import RESULT, RunIdentity, finish
from whale_core.run.folder import (
    DISK_TROUBLE,
    LEDGER,
    RunFolder,
    errno_of,
    write_atomically,
    write_json,
)
from whale_core.run.ledger import Ledger
from whale_core.run.loop import Alternation
from whale_core.run.manifest import check_manifest, manifest_of
from whale_core.run.parts import Parts, build_parts, check_loads
from whale_core.run.rollouts import Rollouts
from whale_core.run.sampler import PromptSampler
from whale_core.run.stopping import stopping_gently

H0 = "h0.py"


def run(resolved: Resolved, plugins: Plugins, run_dir: Path) -> dict[str, Json]:
    """Start a run in the new folder ``run_dir`` and return its result when it ends.

    Raises a ``WhaleError`` with its exit code; the folder can be resumed after 4 (once the disk is
    mended), 5, 6 and 130.
    """
    parts = build_parts(resolved, plugins)
    asyncio.run(check_loads(parts))
    folder = RunFolder.create(run_dir)
    with _closing(folder):
        stored = resolved.to_yaml()
        write_atomically(run_dir / "config.yaml", lambda part: part.write_text(stored))
        source = parts.h0.source.encode()
        write_atomically(run_dir / H0, lambda part: part.write_bytes(source))
        write_json(run_dir / "manifest.json", manifest_of(resolved, parts))
        folder.commit(
            "run_started",
            run=uuid.uuid4().hex,
            settings_hash=resolved.settings_hash(),
            started=time.time(),
        )
        return asyncio.run(_drive(resolved, parts, folder, plugins.hooks))


def resume(run_dir: Path, plugins: Plugins, caps: Sequence[str] = ()) -> dict[str, Json]:
    """Continue the run in ``run_dir`` after its last committed block and return its result.

    ``caps`` are settings ``cap.key=value`` that replace the run's; nothing else can be changed in
    between. The result of a run that has ended is returned as it is.
    """
    folder = RunFolder.open(run_dir)
    with _closing(folder):
        last = folder.entries[-1] if folder.entries else {}
        if last.get("event") == "run_done":
            path = run_dir / RESULT
            if content_hash(_stored_text(path)) != last.get("result_hash"):
                raise RunFolderError(f"{path} was changed: restore it from a copy")
            return _stored_json(path)
        resolved = read_config(plugins, run_dir / "config.yaml", caps)
        then = _stored_json(run_dir / "manifest.json")
        h0 = _stored_text(run_dir / H0)
        if content_hash(h0) != then.get("harness"):
            raise RunFolderError(f"{run_dir / H0} was changed: the run began with another harness")
        parts = build_parts(resolved, plugins, h0)
        check_manifest(run_dir, then, manifest_of(resolved, parts))
        return asyncio.run(_drive(resolved, parts, folder, plugins.hooks))


@contextmanager
def _closing(folder: RunFolder) -> Iterator[None]:
    """Close ``folder`` at the end, and say in one line what is wrong with its disk."""
    try:
        yield
    except WhaleError:
        raise
    except Exception as error:
        number = errno_of(error)
        if number not in DISK_TROUBLE:
            raise
        where = getattr(error, "filename", None) or folder.path
        after = f"`whale resume {folder.path}`" if folder.entries else "delete the folder"
        raise RunFolderError(
            f"{where}: {os.strerror(number)}: what was committed is safe; mend that, then {after}"
        ) from error
    finally:
        folder.close()


async def _drive(
    resolved: Resolved, parts: Parts, folder: RunFolder, observers: Observers
) -> dict[str, Json]:
    core = resolved.core

    def note_failure(plugin: str, hook: str, error: Exception) -> None:
        folder.note("observer_error", plugin=plugin, hook=hook, error=repr(error))

    observers.on_observer_error = note_failure
    policy = EnginePolicy(
        parts.engine,
        Sampling(core.rollout.temperature, core.rollout.top_k, core.rollout.top_p),
        core.rollout.reply_seconds,
    )
    rollouts = Rollouts(
        executor=RolloutExecutor(parts.domain, parts.verifier, parts.jail_kind),
        policy=policy,
        tokenizer=parts.engine.tokenizer,
        folder=folder,
        ledger=Ledger.of(folder.read(LEDGER)),
        observers=observers,
        seed=core.seed,
        max_not_scored=core.rollout.max_not_scored,
        caps=Caps(core.cap, folder.path),
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
    facts = {
        **parts.engine.facts(),
        "planned_rollouts": planned_rollouts(resolved, parts),
        "done_rollouts": rollouts.ledger.rollouts,
    }
    info = RunInfo(folder.path.name, folder.path, resolved.tree, facts, parts.notes)
    identity = RunIdentity(
        plugin_set=resolved.plugin_set,
        seed=core.seed,
        settings_hash=resolved.settings_hash(),
        jail_kind=parts.jail_kind,
    )
    try:
        with stopping_gently(folder, observers):
            done = await alternation.restore()
            if len(folder.entries) > 1:
                folder.note("resumed", at=time.time(), cap=asdict(core.cap))
            observers.on_run_started(info)
            await alternation.run(done)
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


def _stored_text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error


def _stored_json(path: Path) -> dict[str, Json]:
    try:
        stored = json.loads(_stored_text(path))
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    if not isinstance(stored, dict):
        raise RunFolderError(f"{path} was changed: it is not a JSON object")
    return stored
