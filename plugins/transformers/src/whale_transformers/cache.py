"""The user cache of converted models: where it is, and how a folder enters it atomically."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from whale_core.cache import cache_folder
from whale_core.errors import InputError


def cached_folder(name: str, build: Callable[[Path], None]) -> Path:
    """Return the folder ``models/<name>`` of the cache, built on first use.

    ``name`` carries a hash of everything the content depends on. ``build`` fills a temporary
    folder beside it, which is then renamed: a folder that exists is complete, and of two processes
    that build at once the first wins. Raise ``InputError`` when the cache cannot be written.
    """
    target = cache_folder() / "models" / name
    if os.path.isdir(target):
        return target
    try:
        return _built(target, build)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"the cache folder {cache_folder()} cannot be written ({reason}): make room or give "
            "leave to write there, or set WHALE_CACHE to another folder"
        ) from error


def _built(target: Path, build: Callable[[Path], None]) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        build(work)
        work.chmod(0o755)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
