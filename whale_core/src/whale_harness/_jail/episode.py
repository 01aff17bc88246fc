"""The process of one episode: confine itself, load the harness, run it."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import marshal
import os
import random
import sys
import traceback
import types
from typing import Any, NoReturn

from whale_harness import BaseHarness
from whale_harness._jail import confine
from whale_harness.channel import Channel
from whale_harness.environment import Env
from whale_harness.model import Model

SOCKET = 3
READY = b"ready"
EXIT_MEMORY, EXIT_SETUP = 77, 78
MODULE, FILE = "harness", "harness.py"
MESSAGE_LENGTH = 200
NO_RUN = "Harness has no `async def run(self, task, model, env)`"


class LoadError(Exception):
    """The harness file does not define what it should."""


def main(descriptor: int, cpu_seconds: int, memory_bytes: int, program: bytes) -> NoReturn:
    """Run one episode over the socket ``descriptor`` and end the process.

    The trusted side sends one line, either ``{"source"}`` (to compile, load and check it) or
    ``{"code"}`` (compiled before), then for an episode ``{"task", "tools", "seed"}``. The line
    ``ready`` is sent after confinement, before anything of the harness is even read: only an end
    before it can be the jail's own fault.
    """
    try:
        _keep_only(descriptor)
        confine.die_with_parent()
        confine.limit_resources(cpu_seconds, memory_bytes)
        loop = asyncio.new_event_loop()  # its wake-up socket could not be made later
        asyncio.set_event_loop(loop)
        confine.filter_system_calls(program)
        channel = Channel(SOCKET)
        channel.write(READY + b"\n")
    except BaseException:
        os._exit(EXIT_SETUP)
    try:
        program_line = json.loads(channel.read_line())
        if "source" in program_line:
            _check(channel, program_line["source"])
        else:
            start = json.loads(channel.read_line())
            random.seed(start["seed"])
            code = marshal.loads(base64.b64decode(program_line["code"]))
            harness = _harness_class(code)()
            run = harness.run(start["task"], Model(channel), Env(channel, start["tools"]))
            answer = loop.run_until_complete(run)
            if not isinstance(answer, str):
                raise TypeError(f"run returned {type(answer).__name__}, not str")
            channel.tell("finished", answer)
    except MemoryError:
        os._exit(EXIT_MEMORY)
    except BaseException as error:
        _tell_error(channel, error)
    finally:
        os._exit(0)


def _keep_only(descriptor: int) -> None:
    """Make ``descriptor`` number 3, close all others, and silence standard output and error."""
    os.dup2(descriptor, SOCKET)
    os.closerange(SOCKET + 1, confine.DESCRIPTORS)
    os.dup2(0, 1)
    os.dup2(0, 2)


def _check(channel: Channel, source: str) -> None:
    """Compile the harness, hand the code over, then load it and make one."""
    try:
        code = compile(source, FILE, "exec", dont_inherit=True)
        channel.tell("code", base64.b64encode(marshal.dumps(code)).decode())
        harness = _harness_class(code)()
        if not _takes_three(harness.run):
            raise LoadError(NO_RUN)
    except SyntaxError as error:
        where = "" if error.lineno is None else f"line {error.lineno}: "
        raise LoadError(f"{where}SyntaxError: {error.msg}") from None
    except MemoryError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == FILE]
        if isinstance(error, LoadError) or not lines:
            raise
        raise LoadError(f"line {lines[-1]}: {_in_one_line(error)}") from None
    channel.tell("loaded", True)


def _harness_class(code: types.CodeType) -> type[BaseHarness]:
    """Execute the harness file and return its class ``Harness``."""
    module = types.ModuleType(MODULE)
    module.__file__ = FILE
    sys.modules[MODULE] = module
    exec(code, module.__dict__)
    found: Any = module.__dict__.get("Harness")
    if not (isinstance(found, type) and issubclass(found, BaseHarness)):
        raise LoadError("it defines no class Harness(BaseHarness)")
    if not inspect.iscoroutinefunction(found.run) or inspect.isabstract(found):
        raise LoadError(NO_RUN)
    return found


def _takes_three(run: Any) -> bool:
    """Say whether ``run(task, model, env)`` can be called."""
    try:
        inspect.signature(run).bind(None, None, None)
    except TypeError:
        return False
    return True


def _tell_error(channel: Channel, error: BaseException) -> None:
    """Send what the harness raised."""
    text = str(error) if isinstance(error, LoadError) else _in_one_line(error)
    channel.tell("error", text[:MESSAGE_LENGTH].encode("utf-8", "replace").decode())


def _in_one_line(error: BaseException) -> str:
    """Return the error's type and the first line of its message."""
    try:
        message = next(iter(str(error).splitlines()), "")
    except Exception:  # a harness's own exception class may not even be printable
        message = ""
    return f"{type(error).__name__}: {message}"
