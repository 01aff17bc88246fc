"""Starting and resuming a run: the entry points of the command line and the Python API."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import asdict

from whale_core.config import CoreSettings, Overrides, Resolved, read_config
from whale_core.errors import RunFolderError, WhaleError
from whale_core.keys import content_hash
from whale_core.plugins.events import RunInfo
from whale_core.plugins.manager import Observers, Plugins
from whale_core.records import Json, Spent
from whale_core.run.caps import Caps
from whale_core.run.evaluation import Pair
from whale_core.run.finale import RESULT, RunIdentity, finish
from whale_core.run.folder import (
    DISK_TROUBLE,
    LEDGER,
    PLAN,
    RunFolder,
    errno_of,
    write_atomically,
    write_json,
)
from whale_core.run.ledger import Ledger, spent_charge
from whale_core.run.loop import Alternation
from whale_core.run.manifest import check_manifest, manifest_of
from whale_core.run.outline import Outline
from whale_core.run.parts import (
    Parts,
    build_parts,
    check_loads,
    executor_of,
    policy_of,
    sampling_of,
)
from whale_core.run.plan import Plan, plan_run
from whale_core.run.rollouts import Rollouts
from whale_core.run.sampler import PromptSampler
from whale_core.run.services import close_each, closed_on_error, probe_all
from whale_core.run.stopping import stopping_gently
from whale_core.run.trackers import build_trackers, followed_by

H0 = "h0.py"
RESUMABLE = (5, 6, 130)  # exit codes after which a run goes on where it was


def run(
    resolved: Resolved, plugins: Plugins, run_dir: Path, h0: str | None = None
) -> dict[str, Json]:
    """Start a run in the new folder ``run_dir`` and return its result when it ends.

    ``h0`` is the source of the first harness where the settings do not name it.

    Raises a ``WhaleError`` with its exit code; the folder can be resumed after 4 (once the disk is
    mended), 5, 6 and 130.
    """
    trackers = build_trackers(resolved, plugins)
    parts = build_parts(resolved, plugins, h0)
    with closed_on_error(*parts.closing):
        asyncio.run(check_loads(parts))
        policy_of(parts.engine, resolved.core.rollout)  # refuses before there is a folder
        probed = _probe(parts, resolved)
        folder = RunFolder.create(run_dir)
    with _closing(folder), closed_on_error(*parts.closing):
        stored = resolved.to_yaml()
        write_atomically(run_dir / "config.yaml", lambda part: part.write_text(stored))
        source = parts.h0.source.encode()
        write_atomically(run_dir / H0, lambda part: part.write_bytes(source))
        write_json(run_dir / "manifest.json", manifest_of(resolved, parts))
        write_json(run_dir / PLAN, plan_run(Outline.of(parts), resolved.core).as_json())
        folder.commit(
            "run_started",
            run=uuid.uuid4().hex,
            settings_hash=resolved.settings_hash(),
            started=time.time(),
        )
        with followed_by(trackers, plugins):
            return asyncio.run(_drive(resolved, parts, folder, plugins.hooks, probed))


def resume(run_dir: Path, plugins: Plugins, caps: Overrides = ()) -> dict[str, Json]:
    """Continue the run in ``run_dir`` after its last committed block and return its result.

    ``caps`` are settings ``cap.key`` that replace the run's; nothing else can be changed in
    between. The result of a run that has ended is returned as it is.
    """
    folder = RunFolder.open(run_dir)
    with _closing(folder):
        last = folder.entries[-1] if folder.entries else {}
        if last.get("event") == "run_done":
            if caps:  # a wrong one is wrong here too
                read_config(plugins, run_dir / "config.yaml", caps)
            path = run_dir / RESULT
            if content_hash(_stored_text(path)) != last.get("result_hash"):
                raise RunFolderError(f"{path} was changed: restore it from a copy")
            return _stored_json(path)
        resolved = read_config(plugins, run_dir / "config.yaml", caps)
        then = _stored_json(run_dir / "manifest.json")
        h0 = _stored_text(run_dir / H0)
        if content_hash(h0) != then.get("harness"):
            raise RunFolderError(f"{run_dir / H0} was changed: the run began with another harness")
        trackers = build_trackers(resolved, plugins)
        parts = build_parts(resolved, plugins, h0)
        with closed_on_error(*parts.closing):
            probed = _probe(parts, resolved)
            check_manifest(run_dir, then, manifest_of(resolved, parts))
            with followed_by(trackers, plugins):
                return asyncio.run(_drive(resolved, parts, folder, plugins.hooks, probed))


def _probe(parts: Parts, resolved: Resolved) -> Mapping[str, Spent]:
    sampling = sampling_of(resolved.core.rollout)
    asking = probe_all(
        parts.unsealed, parts.verifier, parts.engine, sampling, parts.proposer, parts.update
    )
    return asyncio.run(asking)


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
    resolved: Resolved,
    parts: Parts,
    folder: RunFolder,
    observers: Observers,
    probed: Mapping[str, Spent],
) -> dict[str, Json]:
    core = resolved.core

    def note_failure(plugin: str, hook: str, error: Exception) -> None:
        folder.note("observer_error", plugin=plugin, hook=hook, error=repr(error))

    observers.on_observer_error = note_failure
    rollouts = Rollouts(
        executor=executor_of(parts),
        policy=policy_of(parts.engine, core.rollout),
        tokenizer=parts.engine.tokenizer,
        folder=folder,
        ledger=Ledger.of(folder.read(LEDGER)),
        observers=observers,
        seed=core.seed,
        max_not_scored=core.rollout.max_not_scored,
        caps=Caps(core.cap, folder.path),
    )
    rollouts.executor.begin(str(folder.entries[0]["run"]))
    charges = [spent_charge(role, spent, "probe") for role, spent in probed.items()]
    for charge in charges:  # by every start of the run
        rollouts.charge(charge)
    if any(charges):
        folder.note("probed", at=time.time())
    alternation = Alternation(
        parts=parts,
        core=core,
        folder=folder,
        rollouts=rollouts,
        observers=observers,
        sampler=PromptSampler(parts.domain.split("weight"), core.seed),
        pair=Pair(parts.h0, None, await parts.engine.weights_id()),
    )
    plan = plan_run(Outline.of(parts), core)
    facts = {
        **parts.engine.facts(),
        "planned_rollouts": plan.expected_rollouts(),
        "done_rollouts": rollouts.ledger.rollouts,
    }
    notes = (*parts.notes, *cap_notes(core, plan))
    info = RunInfo(folder.path.name, folder.path, resolved.tree, facts, notes)
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
    except (WhaleError, KeyboardInterrupt) as error:
        _note_stop(folder, error)
        raise
    finally:
        await close_each(*parts.closing)
    observers.on_run_finished(info, result)
    return result


def cap_notes(core: CoreSettings, plan: Plan) -> tuple[str, ...]:
    """Say that a cap stops the run within its first cycle. It may: a capped run can be resumed."""
    cap, needed = core.cap.rollouts, plan.cycle_rollouts()
    if not cap or cap >= needed:
        return ()
    return (
        f"cap.rollouts={cap} stops this run within its first cycle, which takes {needed} rollouts",
    )


def _note_stop(folder: RunFolder, error: WhaleError | KeyboardInterrupt) -> None:
    """Leave the reason in the journal, for ``whale status``, where the run can go on after it.

    Nothing is written to a folder that is itself in trouble, or that a resumed run could not follow
    to where it had been.
    """
    why = str(error) or "interrupted"
    if isinstance(error, KeyboardInterrupt) or error.exit_code in RESUMABLE:
        folder.note("stopped", why=why)


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
