"""What a container allows this process: CPU quota and memory, from control groups v1 or v2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def cpu_quota(root: Path = ROOT, own: Path = OWN) -> float | None:
    """Return how many cores' worth of time this process may use, or None without a quota."""
    quotas = []
    for folder in _folders("cpu", root, own):
        words = _text(folder / "cpu.max").split()
        if len(words) != 2:
            words = [_text(folder / f"cpu.cfs_{each}_us") for each in ("quota", "period")]
        if all(word.isdigit() for word in words) and int(words[1]):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_left(root: Path = ROOT, own: Path = OWN) -> int | None:
    """Return how many bytes this process's groups may still take, or None without a limit.

    Cached file pages that the kernel would give back count as left.
    """
    left = []
    for folder in _folders("memory", root, own):
        for limit, used, cached in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most, now = _text(folder / limit), _text(folder / used)
            if most.isdigit() and now.isdigit():
                stat = dict(
                    line.split() for line in _text(folder / "memory.stat").splitlines() if line
                )
                left.append(int(most) - int(now) + int(stat.get(cached, 0)))
    return min(left, default=None)


def _folders(controller: str, root: Path, own: Path) -> Iterator[Path]:
    """Yield the folders of this process's group and of all groups above it."""
    seen = set()
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / controller if controllers else root
        folder = top / path.lstrip("/")
        # Inside a container the path may be the host's: then only the top is visible.
        for each in (folder, *folder.parents):
            if each.is_relative_to(top) and each.is_dir() and each not in seen:
                seen.add(each)
                yield each


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
