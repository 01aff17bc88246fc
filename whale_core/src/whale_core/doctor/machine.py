"""Does the machine do what a run asks of it? Folders, cores, arithmetic, memory."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whale_core import cgroup
from whale_core.abilities import LendsModule
from whale_core.cache import cache_folder
from whale_core.doctor.finding import Finding, fail, ok, skipped, warn
from whale_core.doctor.subject import Subject
from whale_core.run.folder import write_atomically
from whale_core.run.sealed import register_path

GIB = 1 << 30
RUN_DIR_FIX = "give --run-dir a folder on a local disk that you may write to"
CACHE_FIX = "set WHALE_CACHE to a folder on a local disk that you may write to"
STATE_FIX = "set WHALE_STATE to a folder on a local disk that you may write to"
TORCH_FIX = "pip install --force-reinstall torch"

RUN_BYTES = 3 * GIB  # a run of the set default keeps about 2 GiB
CACHE_BYTES = GIB  # the bundled model, converted, takes a quarter
STATE_BYTES = 1 << 20

WORKING_BYTES = GIB  # attention state, activations, jails
TRAINED_BYTES = 16  # a parameter's float32 master, gradient and two moments

MATRIX = 768
MEASURE_SECONDS = 0.3
MUCH_SLOWER = 0.8


def check_run_folders(subject: Subject) -> Finding:
    """Try out the place where run folders go."""
    return check_folder(subject.run_dir, RUN_BYTES, RUN_DIR_FIX)


def check_cache(subject: Subject) -> Finding:
    """Try out the folder of converted models."""
    return check_folder(cache_folder(), CACHE_BYTES, CACHE_FIX)


def check_state(subject: Subject) -> Finding:
    """Try out the folder of the register of test openings."""
    return check_folder(register_path().parent, STATE_BYTES, STATE_FIX)


def check_folder(path: Path, wanted: int, fix: str) -> Finding:
    """Do in ``path`` (or where it would be made) what a run does: lock, fsync, rename.

    ``wanted`` bytes should be free. Nothing is left behind.
    """
    place = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not place.is_dir():
        return fail(f"{path}: {place} is a file, not a folder", fix)
    try:
        with tempfile.TemporaryDirectory(prefix=".whale-doctor-", dir=place) as name:
            problem, sync_ms = _try_out(Path(name))
    except OSError as error:
        return fail(f"{path}: {error.strerror or error}", fix)
    if problem:
        return fail(f"{path}: {problem}", fix)
    free = shutil.disk_usage(place).free
    found = f"{path}: writable, locks, renames atomically, fsync {sync_ms:.1f} ms"
    found += f", {_gib(free)} free"
    if free < wanted:
        return warn(f"{found} (wanted {_gib(wanted)})", f"free some space, or {fix}")
    return ok(found)


def _try_out(folder: Path) -> tuple[str, float]:
    """Return what is wrong with a folder (or nothing) and the milliseconds of a synced write."""
    file = folder / "file"
    started = time.monotonic()
    write_atomically(file, lambda part: part.write_text("old"))
    sync_ms = 1000 * (time.monotonic() - started)
    with file.open() as old:
        write_atomically(file, lambda part: part.write_text("new"))
        if (old.read(), file.read_text()) != ("old", "new"):
            return "renaming over a file is not atomic here", sync_ms
    with file.open("a") as one, file.open("a") as other:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "", sync_ms
    return "file locks do not lock here (a network file system?)", sync_ms


def usable_cores() -> float:
    """Return how many cores' worth of time this process may use: affinity and CPU quota."""
    cores = float(len(os.sched_getaffinity(0)))
    quota = cgroup.cpu_quota()
    return cores if quota is None else min(cores, quota)


def check_threads(subject: Subject) -> Finding:
    """Compare the engine's threads (or else torch's) with the cores there are."""
    facts = _facts(subject)
    threads, whose = facts.get("threads"), "engine"
    if not isinstance(threads, int):
        if find_spec("torch") is None:
            return skipped("no engine that counts threads, no torch")
        threads, whose = import_module("torch").get_num_threads(), "torch library"
    cores = usable_cores()
    found = f"threads of the {whose}: {threads}, cores that may be used: {cores:g}"
    whole = max(1, int(cores))
    chosen = subject.resolved.chosen.get("engine") if subject.resolved else None
    settable = whose == "engine" and chosen is not None and hasattr(chosen.config, "threads")
    fix = f"set engine.threads={whole}" if settable else f"set OMP_NUM_THREADS={whole}"
    if threads > cores and threads > 1:
        return warn(f"{found}: threads that wait for a core cost much time", fix)
    if threads < whole:
        return warn(f"{found}: some stay idle", fix)
    return ok(found)


async def check_arithmetic(subject: Subject) -> Finding:
    """Measure matrix products in bfloat16 and float32 where the engine computes."""
    if find_spec("torch") is None:
        return skipped("no torch here")
    facts = _facts(subject)
    device = str(facts.get("device", "cpu"))
    engine = subject.parts.get("engine")
    if isinstance(engine, LendsModule):
        speeds = await engine.borrow(lambda module: _speeds(device))
    else:
        speeds = _speeds(device)
    dtype = facts.get("dtype")
    found = ", ".join(f"{name} {speed:.0f} GFLOP/s" for name, speed in speeds.items())
    found += f" on {device}"
    if dtype:
        reason = facts.get("dtype_reason")
        found += f"; the engine computes in {dtype}" + (f" ({reason})" if reason else "")
    if dtype == "bfloat16" and speeds["bfloat16"] < MUCH_SLOWER * speeds["float32"]:
        return warn(found, "set engine.dtype=float32: it is faster on this machine")
    return ok(found)


def _speeds(device: str) -> dict[str, float]:
    """Return 10^9 floating-point operations a second by dtype."""
    torch = import_module("torch")
    return {
        name: _speed(torch, torch.ones(MATRIX, MATRIX, dtype=getattr(torch, name), device=device))
        for name in ("bfloat16", "float32")
    }


def _speed(torch: Any, matrix: Any) -> float:
    done = 0
    with torch.inference_mode():
        float((matrix @ matrix)[0, 0])  # the first product also chooses a kernel
        started = time.monotonic()
        while (seconds := time.monotonic() - started) < MEASURE_SECONDS or not done:
            float((matrix @ matrix)[0, 0])  # reading a value waits for an accelerator
            done += 1
    return 2 * MATRIX**3 * done / seconds / 1e9


async def check_memory(subject: Subject) -> Finding:
    """Compare the memory that is left with an estimate of what a run still takes."""
    left = _available()
    engine = subject.engine
    needed, why = WORKING_BYTES, f"{_gib(WORKING_BYTES)} to work with"
    if subject.settings.chosen.get("model_update") and isinstance(engine, LendsModule):
        count = await engine.borrow(lambda m: sum(each.numel() for each in m.parameters()))
        needed += TRAINED_BYTES * count
        why += f" and {TRAINED_BYTES} bytes for each of {count / 1e6:.1f} million parameters"
    found = f"{_gib(left)} available, {_gib(needed)} needed ({why})"
    fix = "end other programs, raise the container's memory limit, or set a smaller engine.model"
    if left < needed:
        return fail(found, fix)
    if left < 2 * needed:
        return warn(f"{found}: little to spare", fix)
    return ok(found)


def _available() -> int:
    """Return how many bytes this process may still take without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    (kilobytes,) = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    left = cgroup.memory_left()
    return min(int(kilobytes) << 10, left if left is not None else int(kilobytes) << 10)


def _facts(subject: Subject) -> dict[str, Any]:
    return dict(subject.engine.facts()) if "engine" in subject.parts else {}


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
