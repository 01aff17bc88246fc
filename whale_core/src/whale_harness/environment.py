"""The environment as a harness sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whale_harness.channel import Channel


class ToolError(Exception):
    """The environment refused a call; the message says why, and may be shown to the model."""


class Env:
    """The tools of this episode. ``tools`` describes them: name, description, parameters."""

    def __init__(self, channel: Channel, tools: Sequence[dict[str, Any]]) -> None:
        self._channel = channel
        self.tools = list(tools)

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Use a tool and return its JSON result.

        Raises:
            ToolError: the environment refused the call.
        """
        answer = self._channel.ask("tool", {"name": name, "arguments": arguments})
        if "error" in answer:
            raise ToolError(answer["error"])
        return answer["result"]
