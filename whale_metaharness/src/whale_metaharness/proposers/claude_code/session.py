"""One session of the agent: started in its jail, watched, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from whale_core.records import Json

LINE_BYTES = 64 << 20


@frozen
class Ended:
    """How a session ended: exit status (None: killed at its deadline), seconds, and the agent's own
    account, the last event of its output, if it gave one."""

    status: int | None
    seconds: float
    account: Json


async def run_session(
    command: Sequence[str], environment: dict[str, str], folder: Path, deadline: float
) -> Ended:
    """Run the agent for ``deadline`` seconds at most; then it is killed with all it started.

    What it says is kept in ``folder``: ``transcript.jsonl``, line by line as it comes, after what
    earlier tries of the session left and a line of this side of type ``begin``; and ``stderr.txt``.
    Standard input stays open and empty: its end tells the jail that this side is gone.
    """
    started = time.monotonic()
    with (folder / "transcript.jsonl").open("ab") as log, (folder / "stderr.txt").open("wb") as err:
        cut = log.tell() and not (folder / "transcript.jsonl").read_bytes().endswith(b"\n")
        log.write((b"\n" if cut else b"") + b'{"type": "begin"}\n')
        log.flush()
        agent = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            cwd="/",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=err,
            limit=LINE_BYTES,
            start_new_session=True,  # one process group, and a Ctrl-C is the controller's alone
        )
        account: Json = None
        late = False
        try:
            async with asyncio.timeout(deadline):
                assert agent.stdout is not None
                while line := await _line(agent.stdout):
                    log.write(line)
                    log.flush()
                    account = _result(line) or account
                await agent.wait()
        except TimeoutError:
            late = True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(agent.pid, signal.SIGKILL)  # bubblewrap's inner process too
            await agent.wait()
            if agent.stdin is not None:
                agent.stdin.close()
    return Ended(None if late else agent.returncode, time.monotonic() - started, account)


async def _line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line; what is longer than any message is passed over."""
    while True:
        try:
            return await stream.readline()
        except ValueError:
            continue


def _result(line: bytes) -> Json:
    """Return the event of a line if it is the session's result, else None."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and event.get("type") == "result" else None
