"""The agent loop: a model works in a workspace with tools until it hands in its candidates.

It is the same for every provider. A session ends when what it handed in passes the gates, when its
repairs are used up, or at a bound: turns, time, tokens, USD, an endpoint that does not answer. What
it has by then and the gates let pass is proposed all the same; ``Proposal.failure`` says why it
ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from importlib import resources

from attrs import asdict, evolve

from whale_core.errors import InputError
from whale_core.keys import json_hash
from whale_core.records import Json, Spent
from whale_core.roles import Proposal, Workspace
from whale_metaharness.outbox import read_outbox
from whale_metaharness.proposers.conversation import (
    CallError,
    Provider,
    Reply,
    ToolCall,
    ToolResult,
    Turn,
    UserTurn,
)
from whale_metaharness.proposers.settings import SessionConfig
from whale_metaharness.proposers.tools import FINISH, TOOLS, Misuse, Toolbox, check_call
from whale_metaharness.proposers.transcript import (
    Transcript,
    spent_by_others,
    spent_in,
    transcript_path,
)

FIRST_WAIT = 1.0  # seconds before the second try of a request; doubled for each further one
LONGEST_WAIT = 60.0  # unless the endpoint asks for more
PROBE_TOKENS = (16, 2048)  # a model that reasons first may not be able to answer within few
MOST_CALLS = 32  # tools used in one turn
GO_ON = "Go on; call finish when your candidates are ready."
CUT = "Your reply was cut off at {limit} tokens. Work in smaller steps: one file at a time."


class AgentProposer:
    """Implements ``Proposer``, ``Probes`` and ``Priced`` of the core for one provider."""

    writes_code = True

    def __init__(self, config: SessionConfig, provider: Provider) -> None:
        """Take a provider whose settings are sound.

        Raises:
            InputError: a cap in USD cannot be kept.
        """
        for name in ("iteration_usd", "run_usd"):
            if getattr(config, name) and not provider.priced:
                raise InputError(
                    f"proposer.{name}={getattr(config, name):g} cannot be kept: what "
                    f"{config.model} costs is not known; set proposer.prices, or cap tokens instead"
                )
        self._config = config
        self._provider = provider
        self.priced = provider.priced

    @property
    def note(self) -> str:
        """Where candidates come from."""
        return f"Candidate harnesses were written by {self._config.model}."

    @property
    def notes(self) -> Sequence[str]:
        """What a user must know of it."""
        if self.priced:
            return ()
        return (
            "proposer.prices is not set: what proposing costs in USD is not known, and the ledger "
            "shows 0",
        )

    async def probe(self) -> Spent:
        """Have the model say a word, asked as in a session, and return what that cost.

        Raises:
            InputError: it cannot be reached, or refuses key, model or settings.
        """
        spent = Spent()

        def keep(raw: Json, cost: Spent, reason: str) -> None:
            nonlocal spent
            spent += cost

        provider, config = self._provider, self._config
        turns = [UserTurn("Say ok. Use no tool.")]
        try:
            for limit in PROBE_TOKENS:
                body = provider.body("You are asked for one word.", turns, TOOLS, limit)
                try:
                    await asked(provider, body, config, config.retries + 1, _never(), keep)
                    return spent
                except CallError as error:
                    failure = error
                    if error.again:
                        break
        finally:
            await provider.close()
        raise InputError(
            f"proposer {provider.name}: {provider.address}: {failure.reason}; {failure.remedy}"
        )

    def paid(self, workspace: Workspace) -> Spent:
        """Return what the session on a workspace has paid so far."""
        return spent_in(transcript_path(workspace))

    async def propose(self, workspace: Workspace) -> Proposal:
        """Have the model fill the outbox; what goes wrong with it is in ``failure``.

        Raises:
            RunFolderError: the transcript was changed.
            OSError: it cannot be written.
            WhaleError: what checking a candidate met that stops the run.
        """
        path = transcript_path(workspace)
        transcript = Transcript(path)
        try:
            others = spent_by_others(path, path.parent, "*.jsonl", spent_in)
            session = Session(self._provider, self._config, workspace, transcript, others)
            failure = await session.run()
            return Proposal(read_outbox(workspace), transcript.spent, failure)
        finally:
            transcript.close()
            await self._provider.close()


class Session:
    """One session. ``others`` is what the run's other sessions have paid."""

    def __init__(
        self,
        provider: Provider,
        config: SessionConfig,
        workspace: Workspace,
        transcript: Transcript,
        others: Spent,
    ) -> None:
        self._provider = provider
        self._config = config
        self._workspace = workspace
        self._transcript = transcript
        self._others = others
        self._tools = Toolbox(workspace, transcript)
        self._turns: list[Turn] = []
        self._told = 0  # turns that the transcript has
        self._repairs = config.repairs
        self._end = time.monotonic() + config.session_seconds

    async def run(self) -> str:
        """Work until the end; return why it came early, empty if it did not.

        Afterwards the outbox holds what is proposed: what was handed in, or after an early end what
        the gates let pass.
        """
        provider = self._provider
        self._transcript.add("begin", provider=provider.name, address=provider.address)
        try:
            await self._talk()
            failure = "" if self._tools.slots() else "the session ended without a candidate"
        except CallError as error:
            failure = error.reason
            await self._keep_valid()
        self._transcript.add("end", failure=failure)
        return failure

    async def _talk(self) -> None:
        """Raises ``CallError`` with the reason where the session ends early."""
        wanted = self._workspace.count
        self._turns.append(
            UserTurn(
                f"This is iteration {self._workspace.iteration}. At most {wanted} "
                f"{'candidate is' if wanted == 1 else 'candidates are'} wanted."
            )
        )
        for _ in range(self._config.turns):
            reply = await self._next()
            self._turns.append(reply.turn)
            if reply.stop == "refusal":
                raise CallError("the model refused to go on")
            results, done = await self._use(reply.calls)
            if done:
                return
            text = ""
            if reply.stop == "length":
                text = CUT.format(limit=self._config.max_tokens)
            elif not reply.calls:
                problem = await self._problem(None)
                if not problem:
                    return
                text = f"{problem}\n{GO_ON}"
            self._turns.append(UserTurn(text, results))
        raise CallError(f"it was not done after {self._config.turns} turns (proposer.turns)")

    async def _use(self, calls: Sequence[ToolCall]) -> tuple[tuple[ToolResult, ...], bool]:
        """Use the tools in order, ``finish`` last; return the answers, and whether all is done."""
        results: dict[str, ToolResult] = {}
        done = False
        for call in sorted(calls, key=lambda each: each.name == FINISH):
            if len(results) >= MOST_CALLS:
                text = f"error: more than {MOST_CALLS} calls in one turn; call it again"
                results[call.id] = ToolResult(call.id, text, error=True)
            elif call.name == FINISH:
                results[call.id], done = await self._finish(call)
            else:
                results[call.id] = await self._tools.use(call)
        return tuple(results[call.id] for call in calls), done

    async def _finish(self, call: ToolCall) -> tuple[ToolResult, bool]:
        try:
            check_call(call)
            problem = await self._problem(call.arguments.get("candidates"))
        except Misuse as error:
            return ToolResult(call.id, f"error: {error}", error=True), False
        return ToolResult(call.id, problem or "done", error=bool(problem)), not problem

    async def _problem(self, chosen: Sequence[str] | None) -> str:
        """Return what speaks against ending here, empty if nothing does or no repair is left.

        Of more candidates than are wanted, and of those not ``chosen``, none is kept.
        """
        slots, wanted = self._tools.slots(), self._workspace.count
        unknown = sorted(set(chosen or ()) - set(slots))
        if unknown:
            raise Misuse(f"there is no candidate {', '.join(unknown)[:200]}")
        picked = [slot for slot in slots if chosen is None or slot in chosen]
        problems = []
        if not picked:
            problems.append("There is no candidate in the outbox.")
        if len(picked) > wanted:
            problems.append(
                f"{len(picked)} candidates where {wanted} are wanted: call finish with the names "
                "of those to hand in."
            )
        if not problems:
            for slot in picked:
                check = await self._tools.check(slot)
                if check.refused:
                    problems.append(f"{slot} is {check.problem}")
        if problems and self._repairs > 0:
            self._repairs -= 1
            return "\n".join(problems)
        for slot in slots:
            if slot not in picked[:wanted]:
                self._tools.remove(slot)
        return ""

    async def _keep_valid(self) -> None:
        """Leave in the outbox what the gates let pass, as many as are wanted."""
        kept = 0
        for slot in self._tools.slots():
            if kept < self._workspace.count and not (await self._tools.check(slot)).refused:
                kept += 1
            else:
                self._tools.remove(slot)

    async def _next(self) -> Reply:
        """Return the model's next turn: out of the transcript, or bought.

        Raises:
            CallError: a bound is reached, or there is no answer.
        """
        provider, config, transcript = self._provider, self._config, self._transcript
        system = f"{self._workspace.instructions}\n\n---\n\n{manual()}"
        body = provider.body(system, self._turns, TOOLS, config.max_tokens)
        request = json_hash(body)
        kept = transcript.replies(request)
        for line in kept:
            if line["raw"] is not None:
                self._told = len(self._turns)
                return provider.read(line["raw"])
        self._check_bounds()
        new = self._turns[self._told :]
        said = [asdict(turn) for turn in new if isinstance(turn, UserTurn)]
        self._told = len(self._turns)
        first = {"system": system} if len(self._turns) == 1 else {}
        transcript.add("request", request=request, **first, turns=said)

        def keep(raw: Json, cost: Spent, reason: str) -> None:
            if raw is None and cost == Spent():
                transcript.add("failure", request=request, reason=reason)
            else:
                transcript.reply(request, raw, cost, reason)

        tries = config.retries + 1 - len(kept)
        if tries <= 0:
            raise CallError(kept[-1]["reason"])
        return await asked(provider, body, config, tries, self._end, keep)

    def _check_bounds(self) -> None:
        """Raise ``CallError`` if nothing may be bought any more."""
        config, here = self._config, self._transcript.spent
        run = self._others + here
        bounds = (
            ("iteration_tokens", _tokens(here)),
            ("iteration_usd", here.usd),
            ("run_tokens", _tokens(run)),
            ("run_usd", run.usd),
        )
        for name, spent in bounds:
            cap = getattr(config, name)
            if cap and spent >= cap:
                raise CallError(f"proposer.{name}={cap:g} is reached ({spent:g} so far)")
        if time.monotonic() >= self._end:
            raise CallError(_late(config))


async def asked(
    provider: Provider,
    body: dict[str, Json],
    config: SessionConfig,
    tries: int,
    end: float,
    keep: Callable[[Json, Spent, str], None],
) -> Reply:
    """Return the answer to a request, tried up to ``tries`` times until the time ``end``.

    ``keep`` is told of every try, before its answer is used: the answer (None: it is of no use),
    what it cost, and why it is of no use.

    Raises:
        CallError: there is no answer.
    """
    wait = FIRST_WAIT
    for left in range(tries - 1, -1, -1):
        seconds = min(config.call_seconds, end - time.monotonic())
        if seconds <= 0:
            raise CallError(_late(config))
        try:
            raw, spent = await provider.send(body, seconds)
        except CallError as error:
            failure = error
            keep(None, error.spent, error.reason)
        else:
            try:
                reply = provider.read(raw)
            except ValueError as error:
                failure = CallError(str(error), "choose another endpoint", again=True)
                keep(None, spent, failure.reason)
            else:
                keep(raw, spent, "")
                return reply
        pause = max(min(wait, LONGEST_WAIT), failure.wait)
        if not failure.again or not left:
            raise failure
        if time.monotonic() + pause >= end:
            raise evolve(failure, reason=f"{failure.reason}; {_late(config)}")
        await asyncio.sleep(pause)
        wait *= 2
    raise AssertionError("a request needs at least one try")


def manual() -> str:
    """Return what a model must know of the tools."""
    place = resources.files("whale_metaharness.proposers") / "tools.md"
    return place.read_text(encoding="utf-8")


def _late(config: SessionConfig) -> str:
    return f"the session's {config.session_seconds:g} s are over (proposer.session_seconds)"


def _never() -> float:
    return time.monotonic() + 1e9


def _tokens(spent: Spent) -> int:
    return spent.prompt_tokens + spent.sampled_tokens
