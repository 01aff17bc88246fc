"""The file of bought verdicts: damage, several processes, kill -9."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import judge_kit
import pytest
from attrs import asdict
from chat_server_kit import KEY, Answer, Body, Endpoint, completion
from judge_kit import BLOCK, USD, fair, judge_of, judged, judging, reply_to

from whale_core.keys import json_hash
from whale_core.records import Spent
from whale_searchqa.judge.store import Bought, Store, default_path


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("TOY_KEY", KEY)
    server = judging(Endpoint())
    yield server
    server.close()


def bought(number: int, verdict: bool | None = True, buyer: str = "b") -> Bought:
    cost = Spent(1, 10 + number, 5, 2, 0.1 * number, malformed=int(verdict is None))
    return Bought(f"key {number}", buyer, verdict, cost)


def test_what_is_added_is_there_for_another_object(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "deep" / "v.jsonl"), Store(tmp_path / "deep" / "v.jsonl")
    assert store.verdict("key 1") is None
    store.add(bought(1, None))
    store.add(bought(1, False))
    store.add(bought(1, True, buyer="other"))
    for each in (store, other, Store(store.path)):
        assert each.verdict("key 1") is False  # the first verdict stands
        assert each.replies("key 1", "b") == [bought(1, None), bought(1, False)]
        assert each.replies("key 1", "other") == [bought(1, True, buyer="other")]
        assert each.replies("key 2", "b") == []
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_each_reply_is_on_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, synced = Store(tmp_path / "v.jsonl"), []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file)), real(file)))
    store.prepare()
    assert len(synced) == 1  # the folder: the file is new
    store.add(bought(1))
    assert synced[-1].st_ino == store.path.stat().st_ino
    assert synced[-1].st_size == store.path.stat().st_size > 0


def test_half_a_last_line_costs_that_line_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "v.jsonl")
    store.add(bought(1))
    store.add(bought(2))
    whole = store.path.read_bytes()
    for cut in range(1, len(whole) - whole.index(b"\n")):
        store.path.write_bytes(whole[:-cut])
        fresh = Store(store.path)
        assert (fresh.verdict("key 1"), fresh.verdict("key 2")) == (True, None)
        fresh.add(bought(3, False))
        again = Store(store.path)
        assert (again.verdict("key 1"), again.verdict("key 3")) == (True, False)
        # what was cut is the line's end, or also what makes it whole
        assert again.verdict("key 2") is (True if cut == 1 else None)


def test_a_changed_byte_costs_that_line_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "v.jsonl")
    for number in (1, 2, 3):
        store.add(bought(number))
    lines = store.path.read_bytes().splitlines(keepends=True)
    for place in range(len(lines[1])):
        for byte in (b"\x00", b"\xff", b"7", b"\n"):
            damaged = lines[1][:place] + byte + lines[1][place + 1 :]
            store.path.write_bytes(lines[0] + damaged + lines[2])
            fresh = Store(store.path)
            assert fresh.verdict("key 1") is True
            if damaged != lines[1]:
                assert fresh.verdict("key 2") is None, damaged
            assert fresh.verdict("key 3") is (True if damaged.endswith(b"\n") else None)


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": 1},
        {"verdict": "true"},
        {"spent": [1, 2, 3, 4]},
        {"spent": [1, 2, 3, -4, 0.0]},
        {"spent": [1, 2, 3, True, 0.0]},
        {"spent": [1, 2, 3, 4, float("nan")]},
        {"spent": None},
        {"key": 3},
    ],
)
def test_a_line_of_another_kind_is_passed_over(tmp_path: Path, changes: Any) -> None:
    store = Store(tmp_path / "v.jsonl")
    store.add(bought(1))
    fields = {**json.loads(store.path.read_text()), **changes}
    del fields["check"]
    store.path.write_text(json.dumps({**fields, "check": json_hash(fields)}) + "\n")
    assert Store(store.path).verdict("key 1") is None
    store.path.write_text('3\n{}\n"text"\nnull\n' + "[" * 100_000 + "\n")
    assert Store(store.path).verdict("key 1") is None


def test_a_file_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    store = Store(tmp_path / "v.jsonl")
    store.add(bought(1))
    store.add(bought(2))
    store.path.unlink()
    store.add(bought(3))
    assert Store(store.path).verdict("key 3") is True
    assert store.verdict("key 3") is True


ADDING = """
import sys
from pathlib import Path
from whale_core.records import Spent
from whale_searchqa.judge.store import Bought, Store
store, name = Store(Path(sys.argv[1])), sys.argv[2]
for number in range(100):
    store.add(Bought(f"{name} {number}", name * 300, number % 2 == 0, Spent(1, number, 0, 1, 0.5)))
    assert store.verdict(f"{name} {number}") is (number % 2 == 0)
"""


def test_two_processes_add_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    running = [
        subprocess.Popen([sys.executable, "-c", ADDING, str(path), name]) for name in ("a", "b")
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    assert len(path.read_bytes().splitlines()) == 200
    store = Store(path)
    for name in ("a", "b"):
        assert [store.verdict(f"{name} {n}") for n in range(100)] == [True, False] * 50


def test_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHALE_CACHE", str(tmp_path))
    assert default_path() == tmp_path / "searchqa" / "verdicts.jsonl"
    monkeypatch.delenv("WHALE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert default_path() == tmp_path / "xdg" / "whale" / "searchqa" / "verdicts.jsonl"


@contextmanager
def locked_by_another(path: Path, endpoint: Endpoint, seconds: float) -> Iterator[None]:
    """Hold the file's lock until ``seconds`` after the first request, as if its disk were slow."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        timer = threading.Timer(seconds, fcntl.flock, (file, fcntl.LOCK_UN))

        def plan(number: int, body: Body) -> Answer:
            if number == 0:
                timer.start()
            return fair(number, body)

        endpoint.plan = plan
        yield
        timer.join()


def test_the_event_loop_goes_on_while_a_reply_is_written(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    judge = judge_of(endpoint.url, tmp_path / "v.jsonl")
    judge._store.prepare()

    async def work() -> tuple[list[Any], int]:
        judging = asyncio.gather(*(judge.verify(*job) for job in BLOCK[:5]))
        ticks = 0
        while not judging.done():
            await asyncio.sleep(0.01)
            ticks += bool(endpoint.usages)
        await judge.close()
        return await judging, ticks

    with locked_by_another(judge._store.path, endpoint, 0.7):
        made, ticks = asyncio.run(work())
    assert ticks > 20 and [each.reward for each in made] == [1.0] * 5
    lines = [json.loads(line) for line in judge._store.path.read_text().splitlines()]
    assert len(lines) == 5


@pytest.mark.parametrize("end", ["deadline", "close"])
def test_what_ends_while_a_reply_is_written_waits_for_it(
    end: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    deadline = {"deadline": 0.4} if end == "deadline" else {}
    judge = judge_of(endpoint.url, tmp_path / "v.jsonl", **deadline)
    judge._store.prepare()

    async def work() -> Any:
        judging = asyncio.create_task(judge.verify(*BLOCK[0]))
        while not endpoint.usages:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        if end == "close":
            await judge.close()
        made = (await asyncio.gather(judging, return_exceptions=True))[0]
        await judge.close()
        return made

    with locked_by_another(judge._store.path, endpoint, 1.2):
        made = asyncio.run(work())
    again = judged(judge_of(endpoint.url, tmp_path / "v.jsonl"), BLOCK[0])[0]
    assert len(endpoint.usages) == 1 and again.reward == 1.0 and again.spent.calls == 1
    if end == "deadline":  # it came in time; only the disk was late
        assert made == again and made.spent == again.spent
    else:
        assert isinstance(made, asyncio.CancelledError)


# --- kill -9 --------------------------------------------------------------------------------------


def slips_once(body: Body, seen: dict[str, int]) -> Answer:
    """Judge, but first reply to every third question with something that is no verdict."""
    prompt = str(body["messages"][-1]["content"])
    seen[prompt] = seen.get(prompt, 0) + 1
    third = "Question 3" in prompt or "Question 6" in prompt or "Question 12" in prompt
    slip = third and seen[prompt] == 1
    return Answer(completion(body, "I should think so." if slip else reply_to(body)))


def judge_in_a_child(endpoint: Endpoint, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, judge_kit.__file__, endpoint.url, str(cache)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TOY_KEY": KEY, "PYTHONPATH": str(Path(judge_kit.__file__).parent)},
    )


@pytest.mark.parametrize("answered", [(7,), pytest.param((1, 9), marks=pytest.mark.slow)])
def test_kill_9_and_again_buys_each_reply_once(
    endpoint: Endpoint, tmp_path: Path, answered: tuple[int, ...]
) -> None:
    seen: dict[str, int] = {}
    endpoint.plan = lambda number, body: slips_once(body, seen)
    process = judge_in_a_child(endpoint, tmp_path / "whole.jsonl")
    charged, _ = process.communicate(timeout=120)
    uninterrupted, bills = json.loads(charged), list(endpoint.usages)
    cost = endpoint.usd(USD)
    assert len(bills) == 17 + 3

    seen.clear()
    endpoint.usages.clear()
    for count in answered:
        release = threading.Event()
        first = len(endpoint.usages)

        def hold(
            number: int, body: Body, most: int = first + count, go: threading.Event = release
        ) -> Answer:
            with endpoint._lock:
                held = len(endpoint.usages) + endpoint._busy > most
            if held:  # not answered, not billed
                go.wait(60)
                return Answer(hang_up=True)
            return slips_once(body, seen)

        endpoint.plan = hold
        process = judge_in_a_child(endpoint, tmp_path / "killed.jsonl")
        wait_for_lines(tmp_path / "killed.jsonl", first + count)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        release.set()
        while endpoint._busy:
            time.sleep(0.01)
        assert 0 < len(endpoint.usages) < len(bills)
    endpoint.plan = lambda number, body: slips_once(body, seen)
    charged, _ = judge_in_a_child(endpoint, tmp_path / "killed.jsonl").communicate(timeout=120)
    assert json.loads(charged) == uninterrupted
    assert sorted(map(str, endpoint.usages)) == sorted(map(str, bills))
    assert sum(spent["usd"] for _, spent in uninterrupted) == pytest.approx(cost)
    assert sum(spent["calls"] for _, spent in uninterrupted) == len(bills)
    # and a third time, with nothing left to buy
    charged, _ = judge_in_a_child(endpoint, tmp_path / "killed.jsonl").communicate(timeout=120)
    assert json.loads(charged) == uninterrupted and len(endpoint.usages) == len(bills)


def wait_for_lines(path: Path, count: int) -> None:
    end = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_judges_share_what_one_bought(endpoint: Endpoint, tmp_path: Path) -> None:
    cache = tmp_path / "v.jsonl"
    first = judged(judge_of(endpoint.url, cache), *BLOCK)
    count = len(endpoint.bodies)
    assert count == 17
    # a second object stands for a continued run: the same rollouts are charged the same
    judge = judge_of(endpoint.url, cache)
    again = judged(judge, *BLOCK)
    assert again == first
    assert [asdict(each.spent) for each in again] == [asdict(each.spent) for each in first]
    # but only once, and not any more when that is in the ledger
    assert {each.spent for each in judged(judge, *BLOCK)} == {Spent()}
    judge.settle()
    judge.settle()
    for other in (judge, judge_of(endpoint.url, cache)):
        made = judged(other, *BLOCK)
        assert made == first and {each.spent for each in made} == {Spent()}
    assert len(endpoint.bodies) == count


def test_a_run_is_not_charged_for_what_another_of_its_seed_bought(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    """The other one was killed before it had settled, say; the rollouts have the same keys."""
    cache = tmp_path / "v.jsonl"
    one, continued, other = (judge_of(endpoint.url, cache) for _ in range(3))
    for judge, run in ((one, "run 1"), (continued, "run 1"), (other, "run 2")):
        judge.begin(run)
    first = judged(one, *BLOCK)
    assert sum(each.spent.calls for each in first) == 17
    assert {each.spent for each in judged(other, *BLOCK)} == {Spent()}
    assert [each.spent for each in judged(continued, *BLOCK)] == [each.spent for each in first]
    assert len(endpoint.bodies) == 17


def test_what_is_settled_is_kept_for_others(tmp_path: Path) -> None:
    store = Store(tmp_path / "v.jsonl")
    store.add(bought(1, None))
    store.add(bought(1))
    store.settle({("key 1", "b"): 1})
    store.settle({("key 1", "b"): 2, ("key 2", "c"): 1})
    store.settle({("key 1", "b"): 1})
    fresh = Store(store.path)
    assert fresh.verdict("key 1") is True
    assert [fresh.settled("key 1", "b"), fresh.settled("key 2", "c")] == [2, 1]
    assert fresh.settled("key 1", "c") == 0
