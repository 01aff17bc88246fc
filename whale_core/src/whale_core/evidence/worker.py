"""The process of one run of a comparison: ``whale`` with its arguments, tied to its parent.

``python -m whale_core.evidence.worker PARENT run …``
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # Linux, prctl(2)


def die_with(parent: int) -> None:
    """Have the system kill this process when its parent is gone, whatever ended that.

    A run that nobody waits for would hold its folder's lock, and the comparison could not be
    continued until it ends. Where the system cannot do that (it is Linux's), nothing happens.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went before that
        sys.exit(1)


if __name__ == "__main__":
    from whale_core.cli.main import main

    die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    sys.exit(main(sys.argv[2:]))
