"""The agent's only way out: a proxy on a Unix socket that adds the key outside the jail.

It forwards what ``requests`` allows to one fixed host, counts what every reply says it cost, and
writes each count to disk before the agent gets the end of the reply. So a session that is killed
has its cost all the same.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from attrs import field, frozen

from whale_core.records import Json
from whale_metaharness.proposers.claude_code.account import Account
from whale_metaharness.proposers.claude_code.requests import (
    BODY_BYTES,
    MESSAGES,
    RETURNED,
    SENT,
    Scrubber,
    refusal,
    target_of,
)
from whale_metaharness.proposers.claude_code.turnstile import Shut, Turnstile
from whale_metaharness.proposers.claude_code.upstream import TROUBLE, connect, post
from whale_metaharness.proposers.claude_code.usage import UsageReader

UPSTREAM_SECONDS = 600.0  # without a byte
DRAIN_SECONDS = 60.0  # for the end of replies whose agent is gone
CHUNK = 1 << 14


@frozen
class Allowance:
    """What a session may use: where it goes, with which key and model, and how much of it."""

    upstream: str
    key: str = field(repr=False)
    model: str
    turns: int
    usd: float


class Proxy(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A running proxy. ``start`` it, and ``stop`` it when the agent is gone."""

    daemon_threads = False  # a reply is read to its end, so that its cost is known
    block_on_close = True
    request_queue_size = 64

    def __init__(self, path: Path, allowance: Allowance, account: Account) -> None:
        """Listen on the Unix socket ``path``."""
        self.allowance = allowance
        self.account = account
        self.turnstile = Turnstile(account, allowance.turns, allowance.usd)
        self.upstream: set[HTTPConnection] = set()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        super().__init__(str(path), _Handler)

    def start(self) -> None:
        """Answer requests from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests; replies under way are read to their end, within bounds."""
        self.turnstile.close()
        self.shutdown()
        self._thread.join()
        giving_up = threading.Timer(DRAIN_SECONDS, self._hang_up)
        giving_up.start()
        try:
            self.server_close()
        finally:
            giving_up.cancel()

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet: the agent hung up, or sent what is no HTTP."""

    def _hang_up(self) -> None:
        for connection in list(self.upstream):
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"
    timeout = UPSTREAM_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Write no log: lines of the agent's would be in it."""

    def address_string(self) -> str:
        """Return a name; a Unix socket's client has no address."""
        return "agent"

    def handle_one_request(self) -> None:
        """Answer one request, whatever its method is."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or len(self.raw_requestline) > 65536:
            self.close_connection = True
            return
        if not self.parse_request():
            return
        try:
            target, body = self._checked()
            if urlsplit(target).path == MESSAGES:
                self._bought(target, body)
            else:
                self.server.turnstile.look()
                self._forward(target, body, None)
        except _Refused as refused:
            self._refuse(refused.status, str(refused))
        except Shut as shut:
            self._refuse(403, str(shut))

    def _checked(self) -> tuple[str, bytes]:
        """Return where the request goes and its body. Raises ``_Refused``."""
        target = target_of(self.command, self.path)
        if target is None:
            raise _Refused(403, "this address is not allowed")
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > BODY_BYTES:
            raise _Refused(413, "the request must tell its length, and not be too long")
        body = self.rfile.read(int(length))
        reason = refusal(body, self.server.allowance.model)
        if reason is not None:
            raise _Refused(403, reason)
        return target, body

    def _bought(self, target: str, body: bytes) -> None:
        """Forward a request for which the provider takes money, in its turn."""
        call = self.server.turnstile.enter()
        made = True  # whatever becomes of the reply: what it told is paid
        try:
            made = self._forward(target, body, call)
        except _Refused:
            made = False
            raise
        finally:
            self.server.turnstile.leave(call, made)

    def _forward(self, target: str, body: bytes, call: int | None) -> bool:
        """Send the request on with the key, and its reply back; return whether the provider took
        it. What the reply tells is counted for ``call``. Raises ``_Refused``."""
        allowance = self.server.allowance
        kept = {name: value for name in SENT if (value := self.headers.get(name)) is not None}
        connection = connect(allowance.upstream, UPSTREAM_SECONDS)
        self.server.upstream.add(connection)
        try:
            try:
                response = post(connection, allowance.upstream, allowance.key, target, body, kept)
            except TROUBLE as error:
                name = type(error).__name__
                raise _Refused(502, f"the provider was not reached: {name}") from error
            self._pass_on(response, call if response.status < 300 else None)
            return response.status < 300
        finally:
            self.server.upstream.discard(connection)
            connection.close()

    def _pass_on(self, response: HTTPResponse, call: int | None) -> None:
        """Hand the reply over as it comes in; read it to its end also when the agent is gone."""
        account = self.server.account
        secret = self.server.allowance.key.encode()
        kind = response.headers.get("content-type", "")
        reader = UsageReader(streamed=kind.startswith("text/event-stream"))
        scrubber = Scrubber(secret)
        listening = self._write_head(response, secret)
        try:
            while data := response.read1(CHUNK):
                reader.feed(data)
                if call is not None:
                    account.tell(call, reader.counts)
                listening = listening and self._write_chunk(scrubber.feed(data))
        except (OSError, HTTPException):
            self.close_connection = True
            return  # the agent finds its reply cut off, as it was
        reader.end()
        if call is not None:
            account.tell(call, reader.counts)
        if listening and self._write_chunk(scrubber.end()):
            self._write(b"0\r\n\r\n")

    def _write_head(self, response: HTTPResponse, secret: bytes) -> bool:
        self.send_response_only(response.status)
        for name in RETURNED:
            value = response.headers.get(name)
            if value is not None and secret.decode() not in value:
                self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        try:
            self.end_headers()
        except OSError:
            self.close_connection = True
            return False
        return True

    def _write_chunk(self, data: bytes) -> bool:
        return not data or self._write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _write(self, data: bytes) -> bool:
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:
            self.close_connection = True
            return False
        return True

    def _refuse(self, status: int, reason: str) -> None:
        """Answer with an error of the Messages API's form."""
        kind = "permission_error" if status == 403 else "api_error"
        error: Json = {"type": "error", "error": {"type": kind, "message": f"proxy: {reason}"}}
        data = json.dumps(error).encode()
        self.close_connection = True  # what is left of the request is not read
        with suppress(OSError):
            self.send_response_only(status)
            self.send_header("content-type", "application/json")
            self.send_header("x-should-retry", "false")
            self.send_header("content-length", str(len(data)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(data)
