"""The trusted side's handle on a jail's zygote: fork a child, kill it, learn how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import struct
import subprocess
from collections import deque

from attrs import frozen

from whale_core.errors import WhaleError
from whale_core.jail import memory
from whale_core.jail.kinds import JailKind, launch_of
from whale_harness._jail.zygote import FORK, KILL, NO_PROCESS, ORDER, REPORT

BOOT_SECONDS = 30.0
WATCH_SECONDS = 0.25
CREDENTIALS = struct.Struct("iII")  # process, user, group
CODE = """\
from whale_harness._jail import zygote
sys.path.pop(0)
zygote.main({control}, {cpu_seconds}, {memory_bytes})
"""


class JailError(WhaleError):
    """The jail itself failed: an infrastructure fault."""

    exit_code = 6


@frozen
class Exit:
    """How a child ended: its wait status (None: it never started) and its CPU time."""

    status: int | None
    cpu_seconds: float


class Zygote:
    """A running jail process. ``alive`` turns False when it is gone; it does not come back."""

    def __init__(
        self, process: subprocess.Popen[bytes], control: socket.socket, boot: asyncio.Future[None]
    ) -> None:
        """Take over a started process; use ``Zygote.start``."""
        self._process = process
        self._control = control
        self._boot = boot
        self._exits: dict[int, asyncio.Future[Exit | None]] = {}
        self._orders: deque[tuple[bytes, socket.socket | None]] = deque()
        self._partial = b""
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.TimerHandle | None = None
        self.alive = True
        self._loop.add_reader(control, self._read_reports)

    @classmethod
    async def start(cls, kind: JailKind, cpu_seconds: int, memory_bytes: int) -> Zygote:
        """Start a jail and wait until its zygote is ready.

        Raises:
            JailError: it did not get ready.
        """
        launch = launch_of(kind)
        ours, theirs = _socket_pair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # names the zygote's process
        code = CODE.format(
            control=theirs.fileno(), cpu_seconds=cpu_seconds, memory_bytes=memory_bytes
        )
        try:
            with theirs:
                process = subprocess.Popen(
                    launch.python(code),
                    env=launch.environment,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # a terminal's Ctrl-C is for the controller alone
                )
        except OSError as error:
            ours.close()
            raise JailError(f"jail: cannot be started ({error})") from error
        ours.setblocking(False)
        boot = asyncio.get_running_loop().create_future()
        zygote = cls(process, ours, boot)
        try:
            async with asyncio.timeout(BOOT_SECONDS):
                await boot
        except TimeoutError:
            zygote.close()
            raise JailError(f"jail: not ready after {BOOT_SECONDS:.0f} s") from None
        except BaseException:
            zygote.close()
            raise
        return zygote

    def fork(self) -> tuple[int, socket.socket, asyncio.Future[Exit | None]]:
        """Order a new child; return its number, its socket, and the future of its end.

        The future's result is None if the zygote went away first.

        Raises:
            JailError: this process can have no more sockets.
        """
        ours, theirs = _socket_pair()
        ours.setblocking(False)
        child = 0
        while child == 0 or child in self._exits:
            child = secrets.randbits(32)  # not a number that tells how many came before
        ended: asyncio.Future[Exit | None] = self._loop.create_future()
        self._exits[child] = ended
        self._order(ORDER.pack(FORK, child), theirs)
        return child, ours, ended

    def kill(self, child: int) -> None:
        """Order a child killed, unless it has ended."""
        if child in self._exits:
            self._order(ORDER.pack(KILL, child), None)

    def close(self) -> None:
        """End the jail and all in it. Idempotent."""
        self._lose("closed")
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # bubblewrap's inner process too
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _order(self, order: bytes, descriptor: socket.socket | None) -> None:
        """Queue an order and send what can be sent."""
        self._orders.append((order, descriptor))
        if self.alive:
            self._send_orders()
        else:
            self._abandon()

    def _send_orders(self) -> None:
        """Send queued orders until the socket is full, then go on when it is not."""
        while self._orders and self.alive:
            order, descriptor = self._orders[0]
            try:
                if descriptor is None:
                    self._control.send(order)
                else:
                    socket.send_fds(self._control, [order], [descriptor.fileno()])
            except BlockingIOError:
                self._loop.add_writer(self._control, self._send_orders)
                return
            except OSError as error:
                self._lose(str(error))
                return
            self._orders.popleft()
            if descriptor is not None:
                descriptor.close()
        if self.alive:
            self._loop.remove_writer(self._control)

    def _read_reports(self) -> None:
        """Take in reports of children that ended."""
        try:
            data, extra, _, _ = self._control.recvmsg(1 << 16, socket.CMSG_SPACE(CREDENTIALS.size))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(self._last_words())
            return
        data = self._partial + data
        whole = len(data) - len(data) % REPORT.size
        self._partial = data[whole:]
        for child, status, milliseconds in REPORT.iter_unpack(data[:whole]):
            if child == 0:
                if not self._boot.done():
                    self._boot.set_result(None)
                    self._watch_memory(CREDENTIALS.unpack(extra[0][2])[0])
                continue
            ended = self._exits.pop(child, None)
            if ended is not None and not ended.done():
                known = None if status == NO_PROCESS else status
                ended.set_result(Exit(known, milliseconds / 1000))

    def _watch_memory(self, process: int) -> None:
        """Look at the memory of the zygote's children from time to time."""
        memory.offer_first(process)

        def look() -> None:
            if self._exits:
                memory.enforce(process)
            self._watch = self._loop.call_later(WATCH_SECONDS, look)

        look()

    def _lose(self, reason: str) -> None:
        """Mark the zygote as gone."""
        if not self.alive:
            return
        self.alive = False
        if self._watch is not None:
            self._watch.cancel()
        self._loop.remove_reader(self._control)
        self._loop.remove_writer(self._control)
        self._control.close()
        if not self._boot.done():
            self._boot.set_exception(JailError(f"jail: it did not start ({reason})"))
        self._abandon()

    def _abandon(self) -> None:
        """Drop all orders and tell whoever waits for a child that the jail is gone."""
        for _, descriptor in self._orders:
            if descriptor is not None:
                descriptor.close()
        self._orders.clear()
        for ended in self._exits.values():
            if not ended.done():
                ended.set_result(None)
        self._exits.clear()

    def _last_words(self) -> str:
        """Return the last line the process wrote to its standard error."""
        text = b""
        if self._process.stderr is not None:
            os.set_blocking(self._process.stderr.fileno(), False)
            with contextlib.suppress(BlockingIOError):
                text = self._process.stderr.read() or b""
        lines = text.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair()
    except OSError as error:
        raise JailError(f"jail: no socket for it ({error})") from error
