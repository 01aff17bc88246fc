"""Where a domain's package keeps the recorded proposals that it ships."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def shipped_recordings(package: str) -> dict[str, Path]:
    """Return the folders of ``package``'s ``recordings/`` by name (``abilities.HasRecordings``)."""
    root = Path(str(resources.files(package) / "recordings"))
    return {folder.name: folder for folder in sorted(root.glob("*")) if folder.is_dir()}
