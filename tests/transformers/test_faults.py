"""What goes wrong in the engine: broken numbers, failing kernels, a dead thread, a stuck one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from engine_kit import ask, generate, prompt

from whale_core.errors import EngineError
from whale_core.plugins import Setup
from whale_core.records import Sampling
from whale_core.rollout.faults import problem_of
from whale_transformers import thread
from whale_transformers.check import identical
from whale_transformers.config import Config
from whale_transformers.engine import TransformersEngine
from whale_transformers.sampling import draw

SLOTS = 3


@pytest.fixture(params=["float32", "bfloat16"])
def own_engine(request):
    """An engine that a test may break; few slots, so that rows are used again."""
    engine = TransformersEngine(
        Config("tiny-random", request.param, threads=1, slots=SLOTS), Setup(0)
    )
    yield engine
    asyncio.run(engine.close())


def plant(engine, token):
    """Make the embedding of ``token`` NaN; nothing that does not hold it is touched."""

    def work(module):
        with torch.no_grad():
            module.get_input_embeddings().weight[token] = torch.nan

    asyncio.run(engine.borrow(work))


def sound(generation, request, engine):
    return problem_of(generation, request, engine.vocabulary) is None


def test_a_prompt_with_broken_numbers_spoils_no_other(own_engine):
    batch = [
        ask(prompt(i, 40 + 31 * (i % 5), 30, vocabulary=60), 5 + i, stream=i) for i in range(11)
    ]
    bad = [1, 2, 6]
    calm = generate(own_engine, [r for i, r in enumerate(batch) if i not in bad], cold=True)
    token = min(set(range(60, 259)) - {int(t) for g in calm for t in g.token_ids})
    for index in bad:
        batch[index].prompt_ids[-3] = token

    plant(own_engine, token)
    made = generate(own_engine, batch, cold=True)
    warm = generate(own_engine, batch[::-1])[::-1]
    for again in (made, warm):
        for index in bad:
            broken = again.pop(index - len([b for b in bad if b < index]))
            assert np.isnan(broken.logprobs).tolist() == [True]
            assert not sound(broken, batch[index], own_engine)
        assert all(map(identical, again, calm))


@pytest.mark.parametrize("victim", [0, SLOTS - 1])
def test_numbers_that_break_while_sampling_spoil_no_other(own_engine, victim):
    """One sequence samples a token whose embedding is NaN: its keys and values stand in the store.

    The prompts differ in length, so rows have absent prompt chunks. The next sequences use the
    victim's row: in the first one after another has moved there, in the last one as it was left.
    """
    batch = [
        ask(
            prompt(i, 30 if i % 2 else 170, vocabulary=60),
            12 + i,
            sampling=Sampling(2.0, top_k=0),
            stream=i,
        )
        for i in range(10)
    ]
    calm = generate(own_engine, batch, cold=True)
    sampled = np.concatenate([g.token_ids for g in calm])
    at = next(
        place
        for place, candidate in enumerate(calm[victim].token_ids[:8])
        if place and candidate >= 60 and (sampled == candidate).sum() == 1
    )
    token = int(calm[victim].token_ids[at])

    plant(own_engine, token)
    made = generate(own_engine, batch, cold=True)
    after = generate(own_engine, batch)
    for again in (made, after):
        broken = again.pop(victim)
        assert np.isnan(broken.logprobs).tolist() == [False] * (at + 1) + [True]
        assert np.array_equal(broken.token_ids[: at + 1], calm[victim].token_ids[: at + 1])
        assert not sound(broken, batch[victim], own_engine)
        rest = calm[:victim] + calm[victim + 1 :]
        assert all(map(identical, again, rest))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_row_of_logits_is_marked_and_the_others_are_drawn_as_without_it(bad):
    rows = np.random.default_rng(0).standard_normal((6, 50)).astype(np.float32)
    settings = [Sampling(t, k, p) for t in (0.0, 1.0) for k, p in ((5, 1.0), (0, 0.9), (0, 1.0))]
    uniforms = np.linspace(0.1, 0.9, 6)

    def drawn(numbers):
        whole = torch.from_numpy(np.vstack([numbers, np.zeros((1, 50), np.float32)]))
        return draw([whole[:, :20], whole[:, 20:]], settings, uniforms)

    tokens, logprobs = drawn(rows)
    for row in range(6):
        spoiled = rows.copy()
        spoiled[row, 33] = bad
        got, values = drawn(spoiled)
        assert np.isnan(values[row]) and np.isnan(values).sum() == 1
        others = np.arange(6) != row
        assert np.array_equal(got[others], tokens[others])
        assert values[others].tobytes() == logprobs[others].tobytes()


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory"), MemoryError("no room")])
def test_a_failing_kernel_is_an_engine_error_and_leaves_nothing_behind(own_engine, error):
    batch = [ask(prompt(i, 70), 9, stream=i) for i in range(5)]
    calm = generate(own_engine, batch, cold=True)
    decoder, steps = own_engine._decoder, 0
    step = decoder._step

    def failing(active, plan):
        nonlocal steps
        steps += 1
        if steps == 4:
            raise error
        step(active, plan)

    decoder._step = failing
    with pytest.raises(EngineError, match=f"{type(error).__name__}: {error}"):
        generate(own_engine, batch, cold=True)
    assert all(chunk.users == 0 for chunk in decoder._cache._chunks.values())
    assert all(map(identical, generate(own_engine, batch), calm))


def test_a_batch_nobody_waits_for_is_given_up_at_its_next_token(own_engine):
    batch = [ask(prompt(i, 70), 9, stream=i) for i in range(3)]
    calm = generate(own_engine, batch)
    own_engine.tokenizer.end_tokens = frozenset()
    long = [ask(prompt(9, 20), 1900)]

    async def impatient():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(own_engine.generate(long), 0.2)
        started = time.monotonic()
        await own_engine.weights_id()
        return time.monotonic() - started

    assert asyncio.run(impatient()) < 1.0
    own_engine.tokenizer.end_tokens = calm and frozenset({2, 0})
    assert all(map(identical, generate(own_engine, batch), calm))


def test_a_dead_thread_fails_whoever_wants_something_and_hangs_nobody():
    engine = TransformersEngine(Config("tiny-random", "float32", threads=1), Setup(0))

    def kill(module):
        raise SystemExit("killed")

    async def work():
        waiting = [asyncio.ensure_future(engine.borrow(kill))]
        waiting += [asyncio.ensure_future(engine.generate([ask([5, 6])])) for _ in range(3)]
        for future in waiting:
            with pytest.raises(EngineError, match="SystemExit: killed"):
                await asyncio.wait_for(future, 10)
        for call in (engine.weights_id, engine.refresh, lambda: engine.generate([ask([5])])):
            with pytest.raises(EngineError, match="thread died of SystemExit"):
                await asyncio.wait_for(call(), 10)
        await asyncio.wait_for(engine.close(), 10)

    asyncio.run(work())


def test_a_thread_stuck_in_an_abandoned_call_is_said_and_recovers_when_it_ends(monkeypatch):
    monkeypatch.setattr(thread, "GRACE_SECONDS", 0.2)
    engine = TransformersEngine(Config("tiny-random", "float32", threads=1), Setup(0))
    ends = threading.Event()

    async def work():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.borrow(lambda module: ends.wait(60)), 0.1)
        for _ in range(2):
            with pytest.raises(EngineError, match="stuck in a call that was given up"):
                await engine.generate([ask([5])])
        ends.set()
        for _ in range(100):
            try:
                return await engine.generate([ask([5])])
            except EngineError:
                await asyncio.sleep(0.05)

    assert asyncio.run(work())
    asyncio.run(engine.close())
    assert not engine._thread._thread.is_alive()


STUCK = """
import asyncio, sys, threading
import torch
from whale_core.plugins import Setup
from whale_transformers import thread
from whale_transformers.config import Config
from whale_transformers.engine import TransformersEngine

thread.GRACE_SECONDS, thread.CLOSE_SECONDS = 0.2, 2.0
engine = TransformersEngine(Config("tiny-random", "float32", threads=1), Setup(0))

def wait(module):
    threading.Event().wait()

def compute(module):
    x = torch.randn(300, 300, requires_grad=True)
    while True:
        torch.tanh(x @ x @ x).sum().backward()

async def main():
    try:
        await asyncio.wait_for(engine.borrow(globals()[sys.argv[1]]), 0.2)
    except TimeoutError:
        print("given up")
    try:
        await engine.weights_id()
    except Exception as error:
        print(error)
    await engine.close()

asyncio.run(main())
print("left")
raise SystemExit(6)
"""


LOADING = """
import signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored
import torch
from whale_core.plugins import Setup
from whale_transformers.config import Config
from whale_transformers.engine import TransformersEngine

def load(self):
    main = threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    x = torch.randn(300, 300, requires_grad=True)
    while True:
        torch.tanh(x @ x @ x).sum().backward()

TransformersEngine._open = load
try:
    TransformersEngine(Config("tiny-random"), Setup(0))
except KeyboardInterrupt:
    raise SystemExit(130)
"""


def test_an_interruption_while_the_model_is_loaded_ends_the_process_with_its_code():
    done = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("work", ["wait", "compute"])
def test_a_stuck_engine_does_not_keep_the_process_or_spoil_its_exit_code(work):
    done = subprocess.run(
        [sys.executable, "-c", STUCK, work],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "given up",
        "the engine is stuck in a call that was given up",
        "left",
    ]
    assert (done.returncode, done.stderr) == (6, "")
