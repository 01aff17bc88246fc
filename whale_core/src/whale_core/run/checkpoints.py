"""Checkpoints: weights and optimizer state in the run folder, and which of them are kept."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from whale_core.abilities import ReadsAgain
from whale_core.errors import RunFolderError
from whale_core.roles import ModelUpdate, RolloutEngine
from whale_core.run.folder import publish_folder


async def write_checkpoint(
    run: Path, name: str, engine: RolloutEngine, update: ModelUpdate
) -> tuple[str, str]:
    """Write ``weights/<name>`` and its optimizer state; each is complete before it has its name.

    Returns:
        The weights id, and the content hash of the optimizer state.
    """
    weights = run / "weights" / name
    part = weights.with_name(f".{name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a run that was stopped while writing
    weights_id = await engine.save(part)
    publish_folder(part, weights)
    if isinstance(engine, ReadsAgain):
        engine.kept_at(weights)  # a trainer's own folder goes with the trainer
    part.mkdir()
    await update.save(part)
    state = folder_hash(part)
    publish_folder(part, optimizer_folder(weights))
    return weights_id, state


async def load_optimizer(
    run: Path, name: str, state: str, engine: RolloutEngine, update: ModelUpdate
) -> None:
    """Give ``update`` its state back; ``engine`` serves the weights ``name`` already.

    Raises:
        RunFolderError: the state is missing or is not what was written.
    """
    folder = optimizer_folder(run / "weights" / name)
    if not folder.is_dir() or folder_hash(folder) != state:
        raise RunFolderError(
            f"{folder} is missing or not what the run wrote there: restore it from a copy"
        )
    await update.load(folder, engine)


def remove_weights(run: Path, names: list[str]) -> None:
    """Remove folders under ``weights/``, those that are there."""
    for name in names:
        shutil.rmtree(run / "weights" / Path(name).name, ignore_errors=True)


def optimizer_folder(weights: Path) -> Path:
    """Return where the optimizer state that belongs to a weights folder lies."""
    return weights.with_name(f"{weights.name}-optimizer")


def folder_hash(folder: Path) -> str:
    """Return a hash of the names and contents of a folder's files."""
    whole = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            whole.update(f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}".encode())
    return whole.hexdigest()[:16]
