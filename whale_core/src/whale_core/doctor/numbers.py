"""Does the engine keep its promises? A request's result is its own, and weights are what they
are called."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from whale_core.abilities import LendsModule
from whale_core.doctor.finding import Finding, fail, ok, skipped
from whale_core.doctor.subject import Subject
from whale_core.errors import EngineError
from whale_core.keys import DrawKey
from whale_core.records import Fault, Floats, Generation, GenerationRequest, Message, Refusal
from whale_core.roles import RolloutEngine
from whale_core.rollout.chat import TokenBridge
from whale_core.run.services import probe_endpoint

ENGINE_FIX = (
    "correct the engine.* setting or install the package that the message names, or choose another "
    "engine=NAME"
)
SAME_FIX = "try engine.threads=1 or another engine.dtype; else choose another engine=NAME"
WEIGHTS_FIX = "choose another engine=NAME, and report this to the author of this one"

QUESTIONS = (
    "Name a piece.",
    "Name a piece.\n" + "A bishop moves along diagonals, a rook along ranks and files. " * 3,
    "?",
)
MAX_TOKENS = 4
TOLERANCE = {"float32": 1e-3}  # mean absolute difference of log-probabilities
HALF_TOLERANCE = 0.15  # of shorter floats, whose products round differently by shape
SCALE = 1.25  # by which the weights are changed, to see whether the engine takes notice


def check_engine(subject: Subject) -> Finding:
    """Build the engine through its plugin: finds and loads the model and its tokenizer, or asks an
    endpoint for a token."""
    started = time.monotonic()
    engine = subject.build("engine")
    asyncio.run(probe_endpoint(engine, subject.sampling))
    seconds = time.monotonic() - started
    facts = engine.facts()
    told = [f"{key} {facts[key]}" for key in ("model", "dtype", "device") if key in facts]
    name = subject.settings.chosen["engine"].name
    return ok(f"{name}: {', '.join([*told, f'context {engine.max_context}'])}, in {seconds:.1f} s")


async def check_invariance(subject: Subject) -> Finding:
    """Generate alone, in company and in another order: bit for bit the same."""
    requests = _requests(subject)
    engine = subject.engine
    alone = [(await _generate(engine, [request]))[0] for request in requests]
    company = await _generate(engine, requests)
    backwards = (await _generate(engine, requests[::-1]))[::-1]
    for how, made in (("in company", company), ("in another order", backwards)):
        if problem := _difference(alone, made):
            return fail(f"{problem} alone and {how}: results depend on their neighbours", SAME_FIX)
    tokens = sum(len(each.token_ids) for each in alone)
    return ok(
        f"{len(requests)} requests, {tokens} tokens: ids and log-probabilities are bit-equal "
        "alone, in company and in another order"
    )


async def check_logprobs(subject: Subject) -> Finding:
    """Compare the log-probabilities with those of a plain forward pass of the module."""
    engine = subject.engine
    if not isinstance(engine, LendsModule):
        return skipped("this engine lends no module to compare with")
    requests = _requests(subject)
    made = await _generate(engine, requests)
    temperature = subject.sampling.temperature
    pairs = list(zip(requests, made, strict=True))
    plain = await engine.borrow(lambda module: [_plain(module, *p, temperature) for p in pairs])
    own = np.concatenate([each.logprobs for each in made])
    if not np.isfinite(own).all():
        return fail("log-probabilities are not finite", SAME_FIX)
    difference = float(np.abs(own - np.concatenate(plain)).mean())
    tolerance = TOLERANCE.get(str(engine.facts().get("dtype")), HALF_TOLERANCE)
    found = (
        f"differ by {difference:.2g} from a plain forward pass on average ({tolerance:g} is let)"
    )
    return ok(found) if difference <= tolerance else fail(found, SAME_FIX)


async def check_weights(subject: Subject) -> Finding:
    """Load, save, load back and change the weights: the id and the results must follow."""
    engine = subject.engine
    requests = _requests(subject)[:1]
    first = await engine.weights_id()
    before = await _generate(engine, requests)
    problems = []
    if before[0].weights_id != first:
        problems.append(f"a reply names weights {before[0].weights_id}, served are {first}")
    initial = await engine.load(None)
    if initial != first:
        problems.append(f"{first} before and {initial} after loading the same initial weights")
    with tempfile.TemporaryDirectory(prefix="whale-doctor-") as name:
        folder = Path(name) / "weights"
        saved = await engine.save(folder)
        loaded = await engine.load(folder)
    if not saved == loaded == await engine.weights_id() == initial:
        problems.append(f"saved as {saved}, loaded as {loaded}, served were {initial}")
    if problem := _difference(before, await _generate(engine, requests)):
        problems.append(f"{problem} before and after saving and loading the same weights")
    if isinstance(engine, LendsModule):
        problems += await _follows(engine, requests, before, initial)
    if problems:
        return fail("; ".join(problems), WEIGHTS_FIX)
    told = "changed ones get another id" if isinstance(engine, LendsModule) else "not changed here"
    return ok(f"id {initial} is the same after load, save and load back; {told}")


async def _follows(
    engine: Any, requests: list[GenerationRequest], before: Sequence[Generation], initial: str
) -> list[str]:
    """Change the module in place and put it back; return where the engine did not follow."""
    problems = []
    await engine.borrow(_scale)
    changed = await engine.refresh()
    made = await _generate(engine, requests)
    if changed == initial or made[0].weights_id != changed:
        problems.append(f"other weights in the module, but the id says {made[0].weights_id}")
    if not _difference(before, made):
        problems.append("other weights in the module, but the same results")
    if await engine.load(None) != initial:
        problems.append("loading the initial weights again gives another id")
    elif problem := _difference(before, await _generate(engine, requests)):
        problems.append(f"{problem} before and after the initial weights were loaded again")
    return problems


async def _generate(
    engine: RolloutEngine, requests: Sequence[GenerationRequest]
) -> list[Generation]:
    """Return what the engine samples. Raises ``EngineError`` where it says that it cannot."""
    made = await engine.generate(requests)
    for each in made:
        if isinstance(each, Refusal | Fault):
            raise EngineError(each.reason)
    return [each for each in made if isinstance(each, Generation)]


def _requests(subject: Subject) -> list[GenerationRequest]:
    bridge = TokenBridge(subject.engine.tokenizer)
    return [
        GenerationRequest(
            prompt_ids=bridge.render([Message("user", question)]),
            max_tokens=MAX_TOKENS,
            stop=(),
            sampling=subject.sampling,
            stream=DrawKey(0, "smoke", 0, 0, f"doctor-{number}", 0).stream(0),
        )
        for number, question in enumerate(QUESTIONS)
    ]


def _difference(one: Sequence[Generation], other: Sequence[Generation]) -> str:
    """Return which request's results differ, and in what, or nothing."""
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        if a.token_ids.tobytes() != b.token_ids.tobytes():
            return f"request {number} gets other tokens"
        if a.logprobs.tobytes() != b.logprobs.tobytes():
            most = float(np.abs(a.logprobs - b.logprobs).max())
            return f"request {number} gets log-probabilities that differ by {most:.2g}"
    return ""


def _plain(module: Any, request: GenerationRequest, made: Generation, temperature: float) -> Floats:
    """Return the log-probabilities of the sampled tokens by one forward pass, on the module's
    thread."""
    torch = import_module("torch")
    whole = np.concatenate([request.prompt_ids, made.token_ids]).astype(np.int64)
    device = next(module.parameters()).device
    with torch.inference_mode():
        logits = module(torch.from_numpy(whole)[None].to(device), use_cache=False).logits
        kept = logits[0, len(request.prompt_ids) - 1 : -1].float() / temperature
        every = torch.log_softmax(kept, dim=-1).cpu().numpy()
    picked = made.token_ids[:, None].astype(np.int64)
    values: Floats = np.take_along_axis(every, picked, axis=1)[:, 0].astype(np.float32)
    return values


def _scale(module: Any) -> None:
    for parameter in module.parameters():
        parameter.data.mul_(SCALE)
