"""The user's cache folder: what can be made or bought again, at a price."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: ``$WHALE_CACHE``, or ``whale`` in the platform's cache folder."""
    override = os.environ.get("WHALE_CACHE")
    if override:
        return Path(override).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")).expanduser() / "whale"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/whale").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "whale"
