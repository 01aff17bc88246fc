"""Which encoder settings name a folder, and which a model of the hub."""

from __future__ import annotations

import os


def is_folder(text: str, path: str) -> bool:
    """Say whether ``text``, which would be the absolute ``path``, is a folder and not a name."""
    return text.startswith((".", "/", "~")) or os.path.isdir(path)
