"""The system calls that an episode's process may make, as a seccomp filter.

The filter is a list of what is allowed; everything else is refused with EPERM. What a single
Python thread needs to compute and to talk over one socket is there. Missing on purpose: starting
processes or threads, sockets, signals, tracing, namespaces, every way to write a file, and every
way to leave a mark that a sibling could read or to see that there are siblings: locks, flags of
shared descriptors, limits or priorities of other processes, futexes on shared pages, clocks of
other processes, the page cache, resources that are counted per user (pipes, huge pages).
"""

from __future__ import annotations

import errno
import os
import struct

# name -> (number on x86_64, number on aarch64); None where the architecture lacks the call.
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "lseek": (8, 62),
    "close": (3, 57),
    "close_range": (436, 436),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "stat": (4, None),
    "lstat": (6, None),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "sched_yield": (24, 124),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getrlimit": (97, 163),
    "getrandom": (318, 278),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "uname": (63, 160),
    "exit": (60, 93),
    "exit_group": (231, 94),
}

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Allowed if no bit of the mask is set in the argument: (number, number), argument, mask.
UNLESS_BITS: dict[str, tuple[tuple[int | None, int | None], int, int]] = {
    "open": ((2, None), 1, _WRITING),
    "openat": ((257, 56), 2, _WRITING),
    "mmap": ((9, 222), 3, 0x42000),  # no MAP_HUGETLB, no MAP_LOCKED: both draw on shared pools
}

# Allowed if a bit of the mask is set in the argument: (number, number), argument, mask.
ONLY_WITH_BITS: dict[str, tuple[tuple[int | None, int | None], int, int]] = {
    # FUTEX_PRIVATE_FLAG: on a page that two processes map, a wait in one shows in the other's wake
    "futex": ((202, 98), 1, 128),
}

# Fixed clock ids (real, monotonic, this process's and thread's): others name another process's.
_CLOCKS = (0, 1, 2, 3, 4, 5, 6, 7, 11)

# Allowed if the argument is one of the values: (number, number), argument, values.
ONLY_VALUES: dict[str, tuple[tuple[int | None, int | None], int, tuple[int, ...]]] = {
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: no locks, no status flags
    "fcntl": ((72, 25), 1, (0, 1, 2, 3, 1030)),
    # TCGETS (isatty), FIONREAD, FIONCLEX, FIOCLEX
    "ioctl": ((16, 29), 1, (0x5401, 0x541B, 0x5450, 0x5451)),
    "prlimit64": ((302, 261), 0, (0,)),  # this process only
    "sched_getaffinity": ((204, 123), 0, (0,)),  # this process only
    "clock_gettime": ((228, 113), 0, _CLOCKS),
    "clock_getres": ((229, 114), 0, _CLOCKS),
    "clock_nanosleep": ((230, 115), 0, _CLOCKS),
    "madvise": ((28, 233), 2, (4, 8, 14, 15)),  # DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE
}

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, AUDIT_ARCH_*

_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_KILL, _ALLOW, _REFUSE = 0x80000000, 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # offsets in struct seccomp_data


def filter_program(machine: str) -> bytes:
    """Return the seccomp filter for ``machine`` as an array of ``struct sock_filter``.

    Arguments are compared by their low 32 bits: those looked at are C ints.

    Raises:
        OSError: there is no table of system calls for this machine.
    """
    if machine not in ARCHITECTURES:
        known = " and ".join(ARCHITECTURES)
        raise OSError(errno.ENOSYS, f"the jail knows the system calls of {known}, not of {machine}")
    column, audit = ARCHITECTURES[machine]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    for numbers in ALLOWED.values():
        program += _for_call(numbers[column], [(_RETURN, 0, 0, _ALLOW)])
    for table, if_set, if_clear in (
        (UNLESS_BITS, _REFUSE, _ALLOW),
        (ONLY_WITH_BITS, _ALLOW, _REFUSE),
    ):
        for numbers, argument, mask in table.values():
            checks = [
                (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument),
                (_JUMP_ANY_BIT, 0, 1, mask),
                (_RETURN, 0, 0, if_set),
                (_RETURN, 0, 0, if_clear),
            ]
            program += _for_call(numbers[column], checks)
    for numbers, argument, values in ONLY_VALUES.values():
        checks = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)]
        for value in values:
            checks += [(_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
        program += _for_call(numbers[column], [*checks, (_RETURN, 0, 0, _REFUSE)])
    program.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _for_call(
    number: int | None, body: list[tuple[int, int, int, int]]
) -> list[tuple[int, int, int, int]]:
    """Return ``body`` guarded so that it runs for the system call ``number`` only."""
    return [] if number is None else [(_JUMP_EQUAL, 0, len(body), number), *body]
