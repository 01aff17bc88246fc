"""What came of one program, and who can run one."""

from __future__ import annotations

import json
from typing import Protocol

from attrs import frozen

from whale_core.records import Json

FINISHED = "finished"
TIMEOUT = "timeout"
MEMORY = "memory"
OUTPUT = "output"
DIED = "died"
PROTOCOL = "protocol"


@frozen
class Result:
    """What a program wrote and how it ended.

    ``status`` is ``finished`` (``exit_status`` then says how), ``output`` (it wrote more than is
    kept, and was ended), ``timeout``, ``memory``, ``died`` (its process ended otherwise) or
    ``protocol`` (it tampered with what reports its end). Only a program that finished has an exit
    status.
    """

    stdout: str
    stderr: str
    exit_status: int | None
    status: str

    def told(self) -> Json:
        """Return what the harness gets."""
        return {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_status": self.exit_status,
            "status": self.status,
        }


class Runner(Protocol):
    """Runs programs. What a program does is in the result; nothing of it raises."""

    async def run(self, code: str, show_last: bool) -> Result:
        """Run ``code``.

        Raises:
            Exception: the runner itself failed.
        """
        ...

    async def probe(self) -> None:
        """Raise ``InputError`` when no program can be run."""
        ...

    async def close(self) -> None:
        """Free everything. Idempotent."""
        ...


def lost(status: str) -> Result:
    """Return the result of a program that did not live to report what it wrote."""
    return Result("", "", None, status)


def read(text: str, most: int) -> Result:
    """Return the result that a program's process reported, which may have been tampered with.

    Args:
        text: JSON as ``runner.captured`` writes it.
        most: how many characters of each stream are kept.
    """
    try:
        told = json.loads(text)
        out, errors, status = (told[name] for name in ("stdout", "stderr", "exit_status"))
    except (ValueError, RecursionError, TypeError, KeyError):
        return lost(PROTOCOL)
    if not (isinstance(out, str) and isinstance(errors, str)):
        return lost(PROTOCOL)
    if max(len(out), len(errors)) > most:
        return lost(PROTOCOL)
    if status is None:
        return Result(valid(out), valid(errors), None, OUTPUT)
    if type(status) is not int or not 0 <= status <= 255:
        return lost(PROTOCOL)
    return Result(valid(out), valid(errors), status, FINISHED)


def valid(text: str) -> str:
    """Return ``text`` without halves of surrogate pairs, which cannot be sent on."""
    return text.encode("utf-8", "replace").decode()
