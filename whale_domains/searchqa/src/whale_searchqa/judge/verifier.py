"""The verifier ``llm-judge``: asks a chat model whether an answer names what a reference names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import asdict, evolve, field, frozen

from whale_core.errors import InputError
from whale_core.keys import content_hash, json_hash
from whale_core.plugins import Setup
from whale_core.records import Example, NotScored, Spent, Trajectory, Verdict
from whale_searchqa import answers
from whale_searchqa.answers import committed, exact_match
from whale_searchqa.judge.config import JudgeConfig
from whale_searchqa.judge.endpoint import Endpoint, Failure
from whale_searchqa.judge.framing import LONGEST, prompt, prompt_version, tidy
from whale_searchqa.judge.reply import Reply, verdict_of
from whale_searchqa.judge.store import Bought, Store, default_path

if TYPE_CHECKING:
    import openai

VERSION = "1"  # of what happens around the prompt
FIRST_WAIT = 1.0  # seconds before the second try; then twice as long each time
MALFORMED = Failure(
    "the judge's reply begins with neither CORRECT nor INCORRECT",
    "raise verifier.max_tokens (a model that reasons first takes more), or choose another judge",
    again=True,
)
NO_PRICES = (
    "verifier.prices is not set, so the judge's tokens are in the ledger and its USD are not"
)
SAMPLE = ("Which city is the capital of France?", ("Paris",), "Paris")


@frozen
class Outcome:
    """What became of a question to the judge; ``lost`` is what was paid and could not be kept."""

    verdict: bool | Failure
    lost: Spent = field(factory=Spent)


@frozen(eq=False)
class Session:
    """What belongs to one event loop: the client, free places, the thread that writes replies down
    in the order in which they came, and the questions under way."""

    loop: asyncio.AbstractEventLoop
    client: openai.AsyncOpenAI
    free: asyncio.Semaphore
    writer: ThreadPoolExecutor = field(factory=partial(ThreadPoolExecutor, 1, "whale-judge"))
    asked: dict[str, asyncio.Task[Outcome]] = field(factory=dict)


class LlmJudge:
    """Reward 1 when the judge says that the last reply's answer is right, 0 otherwise.

    A question that was answered once is never bought again. The rollout that paid for a verdict
    is charged for it, also when a run is continued from before that rollout was in its ledger;
    every other one gets it for nothing. Without an answer, or with a passage in its place, the
    judge is not asked.
    """

    def __init__(self, config: JudgeConfig, setup: Setup) -> None:
        """Ask nothing yet. Raise ``InputError`` when model, key or SDK are missing."""
        self._config = config
        self._endpoint = Endpoint(config)
        self._store = Store(Path(config.cache) if config.cache else default_path())
        self._session: Session | None = None
        self._run = ""
        self.priced = config.prices is not None
        self.notes = () if self.priced else (NO_PRICES,)
        self._charged: dict[tuple[str, str], int] = {}  # how many replies
        self._unsettled: dict[tuple[str, str], int] = {}
        self._judge = content_hash(
            VERSION,
            config.base_url,
            config.model,
            str(config.max_tokens),
            json_hash(config.extra),
        )
        named = [VERSION, answers.VERSION, prompt_version(), self._judge, config.fallback]
        self.version = "-".join(filter(None, named))

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        """Return the judge's verdict on the answer that the episode commits to.

        Parts: ``judge`` and ``em`` say whether the answer is right by each, ``agrees_with_em``
        whether they say the same of an answer that the judge saw; ``fallback`` is 1 where the judge
        failed and exact match decided. What judging cost is in ``spent``.
        """
        references = example.content["answers"]
        answer = tidy(committed(trajectory) or "")
        em = bool(answer) and exact_match(answer, references)
        if not answer or len(answer) > LONGEST:
            return Verdict(0.0, {"judge": 0.0, "em": float(em), "fallback": 0.0})
        asked = prompt(example.content["question"], references, answer)
        verdict, spent = await self._judged(asked, answer, buyer_of(trajectory, self._run))
        if isinstance(verdict, bool):
            parts = {
                "judge": float(verdict),
                "em": float(em),
                "agrees_with_em": float(verdict == em),
                "fallback": 0.0,
            }
            return Verdict(float(verdict), parts, spent)
        if self._config.fallback == "em":
            return Verdict(float(em), {"em": float(em), "fallback": 1.0}, spent)
        return NotScored(f"judge: {verdict.reason}", spent)

    def begin(self, run: str) -> None:
        """Take note of the run that pays: two runs of one seed have rollouts of the same keys."""
        self._run = run

    def settle(self) -> None:
        """Take note that what was told as spent so far is in the ledger to stay."""
        counts, self._unsettled = self._unsettled, {}
        if counts:
            # Where that cannot be written, verdicts cannot either, and that is told.
            with suppress(OSError):
                self._store.settle(counts)

    async def probe(self) -> Spent:
        """Have the judge answer a question that is easy, as the run will put it.

        Raises:
            InputError: it cannot be reached, refuses key, model or settings, or replies with no
                verdict; or the verdicts' file cannot be written.
        """
        spent: list[Spent] = []

        async def keep(verdict: bool | None, cost: Spent) -> None:
            spent.append(cost)

        try:
            self._store.prepare()
        except OSError as error:
            raise InputError(
                f"{self._unwritable(error)}: set verifier.cache or WHALE_CACHE to another place"
            ) from error
        async with self._endpoint.connect() as client:
            ask = partial(self._endpoint.ask, client, prompt(*SAMPLE))
            verdict = await self._tried(ask, SAMPLE[2], self._config.retries + 1, keep)
        if isinstance(verdict, Failure):
            config = self._config
            raise InputError(
                f"verifier llm-judge: {config.base_url}, model {config.model}: {verdict.reason}; "
                f"{verdict.remedy}"
            )
        if not verdict:
            config = self._config
            raise InputError(
                f"verifier llm-judge: {config.base_url}, model {config.model}: it calls a right "
                f"answer incorrect ({SAMPLE[0]} {SAMPLE[2]}); choose another judge"
            )
        return _sum(spent)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        session, self._session = self._session, None
        if session is None or session.loop is not asyncio.get_running_loop():
            return  # connections of a loop that has ended are gone with it
        tasks = list(session.asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        session.writer.shutdown()
        await session.client.close()

    async def _judged(self, asked: str, answer: str, buyer: str) -> tuple[bool | Failure, Spent]:
        """Return the verdict on a question, and what ``buyer`` pays for it.

        Up to the first ``await`` nothing else runs: of rollouts that are judged together, the first
        in order buys what several want to know.
        """
        key = content_hash(self._judge, asked, length=32)
        kept = self._store.verdict(key)
        if kept is not None:
            return kept, self._charge(key, buyer)
        session = self._here()
        task = session.asked.get(key)
        mine = task is None
        if task is None:
            task = asyncio.create_task(self._buy(session, key, asked, answer, buyer))
            session.asked[key] = task
            task.add_done_callback(lambda done: session.asked.pop(key))
        outcome = await asyncio.shield(task)
        spent = self._charge(key, buyer) + (outcome.lost if mine else Spent())
        return outcome.verdict, spent

    def _due(self, key: str, buyer: str) -> list[Bought]:
        """Return what ``buyer`` paid for and was not charged for yet, here or in a ledger."""
        charged = max(self._charged.get((key, buyer), 0), self._store.settled(key, buyer))
        return self._store.replies(key, buyer)[charged:]

    def _charge(self, key: str, buyer: str) -> Spent:
        """Return what ``buyer`` must be told as spent, once."""
        due = self._due(key, buyer)
        if due:
            count = len(self._store.replies(key, buyer))
            self._charged[key, buyer] = self._unsettled[key, buyer] = count
        return _sum(reply.spent for reply in due)

    async def _buy(
        self, session: Session, key: str, asked: str, answer: str, buyer: str
    ) -> Outcome:
        """Ask until there is a verdict, and keep every reply before it is used.

        Replies that were kept before a crash count as tries.
        """
        lost = Spent()

        async def keep(verdict: bool | None, cost: Spent) -> None:
            nonlocal lost
            lost = cost
            bought = Bought(key, buyer, verdict, cost)
            await _whole(session.loop.run_in_executor(session.writer, self._store.add, bought))
            lost = Spent()

        async with session.free:
            kept = self._store.verdict(key)  # another process may have bought it meanwhile
            if kept is not None:
                return Outcome(kept)
            before = len(self._due(key, buyer))
            ask = partial(self._endpoint.ask, session.client, asked)
            try:
                made = await self._tried(ask, answer, self._config.retries + 1 - before, keep)
            except OSError as error:
                return Outcome(Failure(self._unwritable(error), ""), lost)
        first = self._store.verdict(key)  # also where the time ended while it was written down
        return Outcome(made if first is None else first)

    async def _tried(
        self,
        ask: Callable[[], Awaitable[Reply | Failure]],
        answer: str,
        tries: int,
        keep: Callable[[bool | None, Spent], Awaitable[None]],
    ) -> bool | Failure:
        """Ask up to ``tries`` times within the deadline; ``keep`` is told of every paid reply."""
        failure = MALFORMED
        wait = FIRST_WAIT
        loop = asyncio.get_running_loop()
        end = loop.time() + self._config.deadline
        try:
            async with asyncio.timeout_at(end):
                for left in range(tries - 1, -1, -1):
                    made = await ask()
                    if isinstance(made, Reply):
                        verdict = verdict_of(made.text, answer)
                        await keep(verdict, evolve(made.spent, malformed=int(verdict is None)))
                        if verdict is not None:
                            return verdict
                        made = MALFORMED
                    failure = made
                    pause = max(wait, failure.wait)
                    if not left or not failure.again or loop.time() + pause >= end:
                        break
                    await asyncio.sleep(pause)
                    wait *= 2
        except TimeoutError:
            late = f"the judge gave no verdict within {self._config.deadline:g} s"
            return Failure(late, "is it overloaded? raise verifier.deadline")
        return failure

    def _here(self) -> Session:
        """Return what belongs to the running loop; it is made where there is none."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.loop is not loop:
            free = asyncio.Semaphore(self._config.concurrency)
            self._session = Session(loop, self._endpoint.connect(), free)
        return self._session

    def _unwritable(self, error: OSError) -> str:
        return f"{self._store.path} cannot be written ({error.strerror or error})"


def buyer_of(trajectory: Trajectory, run: str) -> str:
    """Return what names a rollout: its run, its draw, its harness and its weights."""
    return json_hash([run, asdict(trajectory.key), trajectory.harness_id, trajectory.weights_id])


async def _whole(work: asyncio.Future[None]) -> None:
    """Wait for ``work`` to its end, also when this is cancelled meanwhile: a reply that is paid for
    is on disk, or known not to be."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            cancelled = error
        except OSError:
            break
    if cancelled is not None and work.exception() is None:
        raise cancelled
    work.result()


def _sum(costs: Iterable[Spent]) -> Spent:
    return reduce(Spent.__add__, costs, Spent())
