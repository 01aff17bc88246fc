"""Which requests of the agent the proxy lets through: those that only make the model write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from whale_core.records import Json

MESSAGES = "/v1/messages"
PATHS = (MESSAGES, f"{MESSAGES}/count_tokens")
BODY_BYTES = 32 << 20
SENT = ("accept", "content-type", "anthropic-version", "anthropic-beta", "user-agent")
RETURNED = ("content-type", "request-id", "retry-after", "retry-after-ms", "x-should-retry")
# Tools that the client executes itself; all others the provider executes, with a network.
CLIENT_TOOLS = ("custom", "bash_", "text_editor_", "memory_")


def target_of(method: str, target: str) -> str | None:
    """Return the path and query to forward a request line's to, None for what is refused."""
    parts = urlsplit(target)
    if method != "POST" or parts.scheme or parts.netloc or parts.fragment:
        return None
    if parts.path not in PATHS or parts.query not in ("", "beta=true"):
        return None
    return target


def refusal(body: bytes, model: str) -> str | None:
    """Return why a request body is refused, None if it may be sent.

    The provider must not fetch anything for the agent, and nothing is bought whose price is not
    known.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return "the request is not JSON"
    if not isinstance(request, dict):
        return "the request is not an object"
    if request.get("model") != model:
        return f"only the model {model} may be used"
    if request.get("mcp_servers") or request.get("container"):
        return "tools that the provider runs are not allowed"
    tools = request.get("tools") or []
    if not isinstance(tools, list) or not all(_is_client_tool(tool) for tool in tools):
        return "tools that the provider runs are not allowed"
    for part in _objects(request):
        source = part.get("source")
        if isinstance(source, dict) and source.get("type") not in ("base64", "text", "content"):
            return "sources that the provider fetches are not allowed"
    return None


def _is_client_tool(tool: Json) -> bool:
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type") or "custom"
    return isinstance(kind, str) and kind.startswith(CLIENT_TOOLS)


def _objects(value: Json) -> Iterator[Mapping[str, Json]]:
    """Yield every object in a JSON value."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


class Scrubber:
    """Takes a secret out of a stream of bytes, also where it is split between two parts."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may go on; the beginning of the secret at the end is held back."""
        data = (self._held + data).replace(self._secret, b"*" * 8)
        keep = next(
            (
                size
                for size in range(min(len(self._secret) - 1, len(data)), 0, -1)
                if data.endswith(self._secret[:size])
            ),
            0,
        )
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def end(self) -> bytes:
        """Return what was held back."""
        held, self._held = self._held, b""
        return held
