"""One episode on the trusted side: the environment, the limits, and the provenance of answers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import evolve, frozen

from whale_core.jail import ChatRequest, Ended, Finished, Jail, JailError, ToolRequest
from whale_core.jail import Episode as JailedEpisode
from whale_core.keys import DrawKey
from whale_core.records import Call, Example, Fault, Json, Refusal, Spent, ToolEvent
from whale_core.roles import Domain, Harness
from whale_core.rollout.faults import reason_of
from whale_core.rollout.policy import Reply, Turn

T = TypeVar("T")

Watch = Callable[[Turn | Call | ToolEvent], None]
"""Is told of each turn the harness puts, each reply it gets and each environment call it makes, as
they happen."""


@frozen
class Job:
    """One rollout to make: which example, under which harness, with which random draw."""

    example: Example
    harness: Harness
    key: DrawKey


class Episode:
    """Answers one jailed harness until it ends."""

    def __init__(self, job: Job, domain: Domain, watch: Watch = lambda happened: None) -> None:
        self.job = job
        self._watch = watch
        self.calls: list[Call] = []
        self.events: list[ToolEvent] = []
        self.answer: str | None = None
        self.reason: str | None = None
        self.infrastructure = False
        self.over = False
        self._domain = domain
        self._tools = {tool.name: tool for tool in domain.tools}
        self._tool_requests = 0
        self._channel: JailedEpisode | None = None
        self.spent = Spent()  # on turns that were not answered
        self._environment = self._ask(lambda: domain.environment(job.example))

    async def open(self, jail: Jail) -> None:
        """Start the harness's process on this example's public view.

        A jail that is gone and does not start again is a fault: the episode is not scored.
        """
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            }
            for tool in self._tools.values()
        ]
        if self._environment is None:
            return
        view = self._ask(self._environment.view)
        if view is None:
            return
        try:
            self._channel = await jail.episode(view, tools, self.job.key.harness_seed(view))
        except JailError as error:
            self.fault(str(error))

    def take_record(self) -> Mapping[str, Json]:
        """Return the environment's account; one that cannot be had or kept is a fault."""

        def plain() -> Mapping[str, Json]:
            assert self._environment is not None
            record = self._environment.record()
            json.dumps(record)  # it is kept as JSON
            return record

        return {} if self._environment is None else self._ask(plain) or {}

    async def advance(self) -> Turn | None:
        """Serve the harness until it waits for the model (its turn is returned) or has ended."""
        if self._channel is None:
            return None
        while not self.over:
            event = await self._channel.receive()
            if isinstance(event, ChatRequest):
                turn = self._turn(event)
                if turn is not None:
                    return turn
            elif isinstance(event, ToolRequest):
                await self._use_tool(event)
            elif isinstance(event, Finished):
                self._finish(event.answer)
            else:
                assert isinstance(event, Ended)
                self.infrastructure = event.infrastructure
                self._end(event.reason)
        await self._channel.close()
        return None

    async def accept(self, reply: Reply) -> None:
        """Hand the model's reply to the harness, or end the episode with why there is none."""
        if isinstance(reply, Refusal | Fault):
            self.spent = self.spent + reply.spent
            self.infrastructure = isinstance(reply, Fault)
            self._end(reply.reason)
            return
        assert self._channel is not None
        self.calls.append(reply)
        self._watch(reply)
        await self._channel.reply_chat(reply.text, reply.finish_reason, len(self.calls) - 1)

    def fault(self, reason: str) -> None:
        """End the episode through no fault of the harness: it will not be scored."""
        self.infrastructure = True
        self._end(reason)

    async def close(self) -> None:
        """Free the harness's process and descriptors. Idempotent."""
        if self._channel is not None:
            await self._channel.close()

    async def cpu_seconds(self) -> float:
        """Close, and return the processor time that the harness took."""
        return 0.0 if self._channel is None else await self._channel.cpu_seconds()

    def unloadable(self, reason: str) -> None:
        """End an episode whose harness could not be loaded, before it began."""
        self._end(f"error: load: {reason}")

    def _turn(self, request: ChatRequest) -> Turn | None:
        assert self._environment is not None
        for call in request.rejected:
            self.calls[call] = evolve(self.calls[call], rejected=True)
        limits = self._domain.limits
        budget = limits.sampled_tokens - sum(len(call.token_ids) for call in self.calls)
        if len(self.calls) >= limits.model_calls:
            self._end("calls")
        elif budget < 1:
            self._end("tokens")
        elif not request.messages:
            self._end("error: model.chat was called without messages")
        elif (view := self._ask(self._environment.view)) is not None:
            turn = Turn(
                view=view,
                messages=request.messages,
                tools=request.tools,
                max_tokens=request.max_tokens,
                stop=request.stop,
                budget=budget,
                key=self.job.key,
                calls=tuple(self.calls),
            )
            self._watch(turn)
            return turn
        return None

    async def _use_tool(self, request: ToolRequest) -> None:
        assert self._channel is not None and self._environment is not None
        tool = self._tools.get(request.name)
        self._tool_requests += 1
        if self._tool_requests > self._domain.limits.env_calls:
            self._note(request, error="env calls")
            self._end("env calls")
            return
        if tool is None:
            names = ", ".join(self._tools) or "none"
            await self._refuse(request, f"no tool {request.name!r}; there are: {names}")
            return
        if not all(self._was_sampled(request.arguments.get(name)) for name in tool.sampled):
            self._note(request, error="provenance")
            self._end("provenance")
            return
        try:
            result: Json = self._environment.call(request.name, request.arguments)
            if inspect.isawaitable(result):
                result = await result
        except ValueError as error:
            await self._refuse(request, str(error))
            return
        except Exception as error:  # the environment's own fault, never the harness's
            self.fault(reason_of("environment", error))
            return
        try:
            await self._channel.reply_tool(result)
        except (TypeError, ValueError) as error:  # not JSON: it cannot be sent
            self.fault(reason_of(f"environment: result of {request.name}", error))
            return
        self._note(request, result)

    async def _refuse(self, request: ToolRequest, message: str) -> None:
        """Let the harness know that a call was refused, and why."""
        assert self._channel is not None
        self._note(request, error=message)
        await self._channel.reply_tool_error(message)

    def _note(self, request: ToolRequest, result: Json = None, error: str | None = None) -> None:
        """Keep a call and what came of it."""
        made = ToolEvent(request.name, request.arguments, result, len(self.calls), error)
        self.events.append(made)
        self._watch(made)

    def _ask(self, question: Callable[[], T]) -> T | None:
        """Return what the environment answers; if it fails, that is a fault, and None."""
        try:
            return question()
        except Exception as error:
            self.fault(reason_of("environment", error))
            return None

    def _finish(self, answer: str) -> None:
        self.answer = answer
        self._end(
            "provenance"
            if self._domain.answer_is_sampled and not self._was_sampled(answer)
            else None
        )

    def _was_sampled(self, text: Json) -> bool:
        """Say whether ``text`` is a span of what the model sampled in this episode."""
        return (
            isinstance(text, str) and bool(text) and any(text in call.text for call in self.calls)
        )

    def _end(self, reason: str | None) -> None:
        self.reason = reason
        self.over = True
