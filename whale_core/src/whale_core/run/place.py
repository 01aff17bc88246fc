"""Where a new run is kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

from whale_core.errors import RunFolderError
from whale_core.run.folder import refuse_used


def default_folder(name: str) -> Path:
    """Return ``runs/NAME-DATE-TIME``, with a number where that is taken."""
    base = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = base, 1
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def check_unused(folder: Path) -> None:
    """Raise ``RunFolderError`` when ``folder`` cannot be made a run's."""
    try:
        refuse_used(folder)
        exists = folder.exists()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RunFolderError(f"run folder {folder}: {reason}; choose another --run-dir") from error
    if not exists:
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
            raise RunFolderError(
                f"run folder {folder}: nothing can be written in {above}; choose another --run-dir"
            )
