"""Replies that a person writes: from a file, from a pipe, or typed on a terminal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from whale_core.errors import InputError
from whale_core.rollout.policy import Turn

END = "---"  # a line of its own between two replies
STANDARD_INPUT = "-"


class Replies:
    """Reads replies one after the other; a line ``---`` ends one, and so does the file's end."""

    def __init__(self, file: TextIO, prompt: TextIO | None) -> None:
        self._file = file
        self._prompt = prompt
        self._over = False

    async def next(self, turn: Turn) -> str | None:
        """Return the next reply, None when there is none left. Raises ``InputError`` for bytes that
        are not text."""
        if self._over:
            return None
        if self._prompt is not None:
            print(f"your reply, then a line {END}:", file=self._prompt, flush=True)
        lines: list[str] = []
        with _interruptible():
            while line := self._read():
                if line.rstrip("\n") == END:
                    return _text(lines)
                lines.append(line)
        self._over = True
        return _text(lines) if lines else None

    def _read(self) -> str:
        try:
            return self._file.readline()
        except UnicodeDecodeError as error:
            raise InputError(f"--replies: not UTF-8 text: {error.reason}") from error


@contextmanager
def open_replies(name: str) -> Iterator[Replies]:
    """Open the file ``name``, or standard input for ``-``; raise ``InputError`` if that fails."""
    with ExitStack() as stack:
        if name == STANDARD_INPUT:
            yield Replies(sys.stdin, sys.stderr if sys.stdin.isatty() else None)
            return
        try:
            file = stack.enter_context(Path(name).open(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"--replies {name}: {error.strerror}") from error
        yield Replies(file, None)


def _text(lines: list[str]) -> str:
    return "".join(lines).removesuffix("\n")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C end the waiting for a line: the event loop's own handler would only note it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
