"""Takes every right away from the current process that a harness does not need."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
DESCRIPTORS = 32

_libc = ctypes.CDLL(None, use_errno=True)


class _FilterProgram(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def drop_capabilities() -> None:
    """Give up all capabilities, for good (matters for root without bubblewrap)."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(header, nothing), "capset")
    _prctl(PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def limit_resources(cpu_seconds: int, memory_bytes: int) -> None:
    """Set the limits of an episode's process.

    At ``cpu_seconds`` the kernel sends SIGXCPU, which ends the process; if that was ignored,
    SIGKILL follows a second later. Beyond ``memory_bytes`` of address space, allocation fails.
    """
    for limit, soft, hard in (
        (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1),
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
        (resource.RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
    ):
        resource.setrlimit(limit, (soft, hard))


def filter_system_calls(program: bytes) -> None:
    """Install a seccomp filter (see ``syscalls.filter_program``); it cannot be removed again."""
    _prctl(PR_SET_DUMPABLE, 0)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    argument = _FilterProgram(len(program) // 8, program)
    _checked(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(argument)), "seccomp")


def _prctl(option: int, value: int) -> None:
    """Call ``prctl(option, value, 0, 0, 0)``."""
    arguments = (ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3)
    _checked(_libc.prctl(option, *arguments), f"prctl({option})")


def _checked(result: int, what: str) -> None:
    """Raise OSError if a C call failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
