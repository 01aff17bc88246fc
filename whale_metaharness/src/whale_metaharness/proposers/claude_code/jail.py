"""The jail of the agent: no network but one socket, nothing to write but the outbox and scratch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from whale_core.jail.kinds import NOBODY, bubblewrap, interpreter, interpreter_mounts
from whale_metaharness.proposers.claude_code import forward

WORKSPACE = "/workspace"
HOME = "/home/agent"
PORT = 8080
SCRATCH_BYTES = 1 << 30
_PROGRAM = "/opt/agent/claude"
_SOCKET = "/run/proxy.sock"
_FORWARD = "/run/forward.py"
_PASSWD = f"agent:x:{NOBODY}:{NOBODY}::{HOME}:/bin/sh\n"
_HOSTS = "127.0.0.1 localhost jail\n"


@frozen
class Places:
    """Folders outside that the jail shows: the workspace to read and the outbox to write; the
    proxy's socket; and a folder for small files that the jail needs."""

    workspace: Path
    outbox: Path
    socket: Path
    scratch: Path


def command(program: Path, places: Places, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs ``program`` with ``arguments`` in the jail.

    Raises:
        InputError: bubblewrap does not start here.
    """
    (places.scratch / "passwd").write_text(_PASSWD)
    (places.scratch / "hosts").write_text(_HOSTS)
    tmpfs = ("--size", str(SCRATCH_BYTES), "--tmpfs")
    return [
        bubblewrap(),
        "--unshare-all",
        *("--cap-drop", "ALL"),
        *("--uid", NOBODY),
        *("--gid", NOBODY),
        *("--hostname", "jail"),
        *interpreter_mounts(),
        *_programs(),
        *("--proc", "/proc", "--dev", "/dev"),
        *(*tmpfs, "/tmp"),
        *(*tmpfs, HOME),
        *("--ro-bind", str(places.scratch / "passwd"), "/etc/passwd"),
        *("--ro-bind", str(places.scratch / "hosts"), "/etc/hosts"),
        *("--ro-bind", forward.__file__, _FORWARD),
        *("--ro-bind", str(places.socket), _SOCKET),
        *("--ro-bind", str(program), _PROGRAM),
        *("--ro-bind", str(places.workspace), WORKSPACE),
        *("--bind", str(places.outbox), f"{WORKSPACE}/outbox"),
        *("--remount-ro", "/"),
        *("--chdir", WORKSPACE),
        *(interpreter(), "-I", "-S", _FORWARD, _SOCKET, str(PORT)),
        *(_PROGRAM, *arguments),
    ]


def environment(model: str) -> Mapping[str, str]:
    """Return the agent's whole environment. The key in it is none: the proxy has the real one."""
    models = ("ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{PORT}",
        "ANTHROPIC_API_KEY": "held-by-the-proxy",
        **dict.fromkeys(models, model),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


def _programs() -> list[str]:
    """Return bwrap's options that show the system's programs: an agent works with a shell."""
    options = ["--ro-bind-try", "/usr/bin", "/usr/bin"]
    if os.path.islink("/bin"):
        return [*options, "--symlink", os.readlink("/bin"), "/bin"]
    return [*options, "--ro-bind-try", "/bin", "/bin"]
