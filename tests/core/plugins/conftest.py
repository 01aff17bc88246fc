"""Real distributions in a temporary folder: a module, its metadata and its entry point."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for installed_kit

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install ``source`` as module ``name`` of distribution ``name`` (dashes for underscores)."""
    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def write(name: str, source: str, version: str = "1.0", entry_point: str = "main") -> str:
        modules.append(name)
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        distribution = name.replace("_", "-")
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text(f"[whale]\n{entry_point} = {name}\n")
        importlib.invalidate_caches()
        return distribution

    yield write
    for name in modules:
        sys.modules.pop(name, None)
