"""The class that every harness program subclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from whale_harness.environment import Env
from whale_harness.model import Model


class BaseHarness(ABC):
    """A program around the model. It is made new, without arguments, for each episode."""

    @abstractmethod
    async def run(self, task: dict[str, Any], model: Model, env: Env) -> str:
        """Work on one task and return the final answer.

        Args:
            task: the domain's public view of the task (JSON values).
            model: ``await model.chat(messages)`` samples a reply.
            env: ``await env.call(name, **arguments)`` uses a tool or makes a move.
        """
