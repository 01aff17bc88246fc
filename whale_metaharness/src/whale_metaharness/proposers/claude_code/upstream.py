"""The provider behind the proxy: a connection to it, and the request that carries the key."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

TROUBLE = (OSError, HTTPException, ValueError)  # of sending: the last is a header that is none


def connect(base_url: str, seconds: float) -> HTTPConnection:
    """Return a connection that is not open yet; ``seconds`` may pass without a byte."""
    parts = urlsplit(base_url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=seconds)


def post(
    connection: HTTPConnection,
    base_url: str,
    key: str,
    target: str,
    body: bytes,
    headers: Mapping[str, str],
) -> HTTPResponse:
    """Send a request and return the head of its reply. Only the key is added to ``headers``.

    Raises one of ``TROUBLE`` if it cannot be sent, or is not answered.
    """
    prefix = urlsplit(base_url).path.rstrip("/")
    sent = {**headers, "accept-encoding": "identity", "x-api-key": key}
    connection.request("POST", f"{prefix}{target}", body, sent)
    return connection.getresponse()
