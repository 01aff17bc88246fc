"""Compares answers for one process after the other: ``python -m whale_math.verify.worker``.

It says ``ready``, then answers each line ``[reference, answer, seconds]`` with ``true`` or
``false``. A comparison that uses up so many seconds of processor time ends the process, by SIGPROF;
one may end it in other ways, too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import signal
import sys

MEMORY_BYTES = 4 << 30


def main() -> None:
    """Serve comparisons until standard input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is not a reply
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.set_int_max_str_digits(4300)
    logging.disable(logging.CRITICAL)
    from math_verify import parse, verify  # heavy; the time limits of its own need signals

    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        reference, answer, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            expected = parse(_delimited(reference), parsing_timeout=None)
            found = parse(_delimited(answer), parsing_timeout=None)
            equal = bool(verify(expected, found, timeout_seconds=None))
        except Exception:  # it raises what its many parsers raise: then they are not equal
            equal = False
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        print(json.dumps(equal), file=replies, flush=True)


def _delimited(text: str) -> str:
    r"""Return an expression as the box that the library looks for first."""
    return f"$\\boxed{{{text}}}$"


if __name__ == "__main__":
    main()
