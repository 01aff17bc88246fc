"""The state that a probe starts from: a new run's, or where a run's journal says it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from whale_core.errors import RunFolderError
from whale_core.records import Json
from whale_core.roles import Domain, Harness, Verifier
from whale_core.run.checkpoints import optimizer_folder
from whale_core.run.reader import MANIFEST, StoredRun
from whale_core.run.restore import Checkpoint, Standing, accepted_harness
from whale_core.run.sealed import split_hash


@frozen
class Optimizer:
    """A stored optimizer state: the weights folder's name that it belongs to, and its hash."""

    checkpoint: str
    state: str


@frozen
class Start:
    """What a run would go on from. ``run`` is its folder, None for a run that has not begun; it is
    only read. ``checkpoint`` is a folder name under its ``weights/``, None for the first model."""

    harness: Harness
    run: Path | None = None
    checkpoint: str | None = None
    weights_id: str | None = None
    optimizer: Optimizer | None = None
    sampler: Mapping[str, int] | None = None
    search: Json = None
    phase: int = 0
    cycle: int = 0
    step: int = 0
    searches: int = 0

    @classmethod
    def of_run(cls, run: StoredRun) -> Start:
        """Return where the run stands: its last finished phase, or a later checkpoint.

        Raises:
            RunFolderError: it has not measured its first pair yet, or a file was changed.
        """
        standing = Standing.read(run)
        if not standing.ends:
            raise RunFolderError(
                f"{run.path} has no finished phase yet: there is no state to probe"
            )
        last, point = standing.ends[-1], standing.checkpoint
        checkpoint, weights_id = last.checkpoint, last.weights_id
        step, sampler = last.step, last.sampler
        if point is not None and point.phase > last.phase:
            checkpoint, weights_id = point.name, point.weights_id
            step, sampler = point.step, point.sampler
        return cls(
            harness=accepted_harness(run.path, last),
            run=run.path,
            checkpoint=checkpoint,
            weights_id=weights_id,
            optimizer=_optimizer(run.path, point),
            sampler=sampler,
            search=last.search,
            phase=last.phase,
            cycle=last.cycle,
            step=step,
            searches=sum(end.kind == "harness" for end in standing.ends),
        )


def _optimizer(run: Path, point: Checkpoint | None) -> Optimizer | None:
    """Return the newest optimizer state, if the folder still has it."""
    if point is None or not optimizer_folder(run / "weights" / point.name).is_dir():
        return None
    return Optimizer(point.name, point.optimizer)


def check_same_task(run: Path, domain: Domain, verifier: Verifier | None = None) -> None:
    """Refuse to compare with what a run measured on another task.

    Without ``verifier`` the run's may have been another.

    Raises:
        RunFolderError: domain, verifier or an open split differ from when the run began, or its
            manifest cannot be read.
    """
    path = run / MANIFEST
    try:
        stored = json.loads(path.read_bytes())
        then = {
            "domain": (stored["domain"]["name"], stored["domain"]["version"]),
            "verifier": stored["verifier"],
            **{name: stored["splits"][name]["hash"] for name in OPEN},
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} cannot be read: {error!r}") from error
    now = {
        "domain": (domain.name, domain.version),
        **({} if verifier is None else {"verifier": verifier.version}),
        **{name: split_hash(domain.split(name)) for name in OPEN},
    }
    for name, value in now.items():
        if then[name] != value:
            raise RunFolderError(
                f"{run}: its {name} was {then[name]}, here it is {value}: what is measured here "
                "would not compare; use the data and versions that the run was made with"
            )


OPEN = ("weight", "harness", "selection")
