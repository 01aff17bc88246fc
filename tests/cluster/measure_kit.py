"""What the lane's measurements share: how a result says what it is about. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs/evidence/cluster"


def sources_hash(folder: Path, names: Iterable[str]) -> str:
    """Return the hash of files by name and content, whatever commit they are in."""
    whole = hashlib.sha256()
    for name in names:
        whole.update(name.encode() + b"\0" + (folder / name).read_bytes())
    return whole.hexdigest()


def facts(packages: Iterable[str], machine: str = "CPU only") -> dict[str, Any]:
    """Return what a result was measured with."""
    return {
        "commit": git("rev-parse", "HEAD"),
        "versions": {name: version(name) for name in packages},
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {machine}",
    }


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def git(*arguments: str) -> str:
    """Return what git says of this checkout; nothing where there is none."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()
