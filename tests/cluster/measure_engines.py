"""Measure that the rollout engines agree, and write docs/evidence/cluster/engines.json.

    python tests/cluster/measure_engines.py            in the cluster lane; some minutes
    python tests/cluster/measure_engines.py --models tiny-random --dtypes float32 --output FILE

For each model and dtype one real vLLM server, asked by two engines: ``vllm`` with token ids, and
``openai`` with messages, which the server renders, and ``token_ids``. Beside them the embedded
engine ``transformers``. All get the same prompts.

*Greedy.* Of two engines' sequences those are counted that are equal, and of the others the first
place of difference is looked at: a float tie is a place where neither engine's token is less likely
than the best one by more than TIE, log-probabilities taken from a float32 forward pass over what
both agree on. Stated: every difference is a float tie, and in float32 at most a tenth of the
sequences differ.

*Sampled.* The log-probabilities that an engine tells of the tokens it sampled (temperature 1,
top_k 20) are compared with those that the plain Hugging Face module gives in one forward pass (it
is the embedded engine's, and what a trainer computes), and with those by which the engine ``vllm``
scores given tokens. Stated: mean and largest absolute difference within LOGPROBS.

Bounds were stated before anything was measured. float32 differs in the order of sums alone. In
bfloat16 logits near 16 lie 1/8 apart, so that two ways of computing give log-probabilities that
differ by about as much; a tie is four such steps. It was two before the first measurement, in which
one of 16 places on SmolLM2 had a gap of 0.35: each of two tokens can be two steps off.

Exits 1 when a bound is broken. Stopped, the command goes on after the last case that was measured
when it is given again (``….partial.jsonl`` beside the result keeps them).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

from measure_kit import EVIDENCE, ROOT, facts, sources_hash, write

from whale_core.errors import WhaleError

RESULT = EVIDENCE / "engines.json"
SOURCES = (  # what decides over sampled tokens and their log-probabilities
    "vllm/src/whale_vllm/completions.py",
    "vllm/src/whale_vllm/decoding.py",
    "openai/src/whale_openai/engine.py",
    "openai/src/whale_openai/reply.py",
    "transformers/src/whale_transformers/attention.py",
    "transformers/src/whale_transformers/decoding.py",
    "transformers/src/whale_transformers/forward.py",
    "transformers/src/whale_transformers/sampling.py",
)
VERSIONS = ("vllm", "torch", "transformers", "openai")
MODELS = ("tiny-random", "smollm2-135m-instruct")
DTYPES = ("float32", "bfloat16")
ENGINES = ("transformers", "vllm", "openai")
SCORERS = ("forward pass", "vllm")
PROMPTS, TOKENS = 32, 48
MAX_CONTEXT = 512
TIMEOUT = 3600.0  # seconds of a request; the machine may be busy, and no speed is measured

TIE = {"float32": 1e-3, "bfloat16": 0.5}
LOGPROBS = {
    "float32": {"mean": 1e-4, "largest": 2e-3},
    "bfloat16": {"mean": 0.1, "largest": 1.0},
}
DIFFERENT = {"float32": 0.1, "bfloat16": 1.0}  # share of greedy sequences

SYSTEM = (
    "You are a patient teacher. Answer in plain words, in two or three short sentences, and say "
    "when you are not sure of something. Give one example where it helps."
)
TASKS = (
    "Explain what {} is.",
    "Name three things that one does with {}.",
    "Write the first lines of a letter to a friend about {}.",
    "What would a child ask about {}? Answer that, too.",
)
SUBJECTS = (
    "a lighthouse",
    "the tide",
    "bread",
    "a chess clock",
    "copper",
    "a glacier",
    "an abacus",
    "the moon",
)


def measured_sources() -> str:
    """Return the hash of the sources that are measured."""
    return sources_hash(ROOT / "plugins", SOURCES)


def main() -> int:
    """Measure all, write, and say what is out of bounds."""
    options = arguments()
    sources = measured_sources()
    settings = {"prompts": options.prompts, "tokens": options.tokens}
    partial = options.output.with_suffix(".partial.jsonl")
    about = json.dumps([sources, settings, options.device])
    known = measured_before(partial, about)
    cases = []
    for model in options.models:
        for dtype in options.dtypes:
            try:
                case = known.get((model, dtype)) or asyncio.run(measure(model, dtype, options))
            except WhaleError as error:
                print(f"error: {model} in {dtype}: {error}", file=sys.stderr)
                return error.exit_code
            cases.append(case)
            print(json.dumps(case), flush=True)
            if (model, dtype) not in known:
                with partial.open("a") as lines:
                    lines.write(json.dumps({"about": about, "case": case}) + "\n")
    result = {
        "command": "python tests/cluster/measure_engines.py",
        "sources": sources,
        **facts(VERSIONS, "CPU only" if options.device == "cpu" else device_name()),
        "settings": settings,
        "bounds": {"tie": TIE, "logprobs": LOGPROBS, "different": DIFFERENT},
        "cases": cases,
    }
    write(options.output, result)
    partial.unlink(missing_ok=True)
    wrong = [problem for case in cases for problem in problems(case)]
    for problem in wrong:
        print(f"out of bounds: {problem}", file=sys.stderr)
    return 1 if wrong else 0


def measured_before(partial: Path, about: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the cases that an interrupted call measured of the same sources and settings."""
    if not partial.is_file():
        return {}
    lines = [json.loads(line) for line in partial.read_text().splitlines()]
    cases = [line["case"] for line in lines if line["about"] == about]
    return {(case["model"], case["dtype"]): case for case in cases}


def arguments() -> argparse.Namespace:
    """Read the command line; what is smaller than the whole must not be written as the evidence."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--prompts", type=int, default=PROMPTS, help=f"at most {PROMPTS}")
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE")
    options = parser.parse_args()
    whole = (list(MODELS), list(DTYPES), PROMPTS, TOKENS, "cpu")
    asked = (options.models, options.dtypes, options.prompts, options.tokens, options.device)
    if options.output == RESULT and asked != whole:
        parser.error("other settings than the whole measurement's: give --output FILE")
    if getattr(find_spec("vllm"), "origin", None) is None:
        parser.error("vLLM is not installed here: make cluster-venv")
    return options


async def measure(model: str, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return one case: all three engines on a model in a dtype."""
    from whale_core.plugins import Setup
    from whale_core.records import Sampling
    from whale_openai.config import Config as OpenAIConfig
    from whale_openai.engine import OpenAIEngine
    from whale_transformers.config import Config as EmbeddedConfig
    from whale_transformers.engine import TransformersEngine
    from whale_transformers.models import model_source
    from whale_vllm.engine import VLLMEngine

    folder = model_source(model)
    served = VLLMEngine(vllm_config(folder, dtype, options.device), Setup(0))
    engines: dict[str, Any] = {"vllm": served}
    try:
        await served.probe(Sampling())
        assert served._fleet is not None
        asked = OpenAIConfig(
            base_url=f"{served._fleet.pool.names[0]}/v1",
            model=folder,
            api_key_env="",
            max_context=MAX_CONTEXT,
            send=("temperature", "top_p", "top_k", "seed"),
            token_ids=True,
            timeout=TIMEOUT,
        )
        engines["openai"] = OpenAIEngine(asked, Setup(0))
        await engines["openai"].probe(Sampling())
        embedded = EmbeddedConfig(model=model, dtype=dtype, device=options.device)
        engines["transformers"] = TransformersEngine(embedded, Setup(0))
        greedy, sampled = [
            {name: await generated(engines[name], made) for name in ENGINES}
            for made in (
                requests(served.tokenizer, options, Sampling(temperature=0.0)),
                requests(served.tokenizer, options, Sampling()),
            )
        ]
        tie = ties_of(folder, options.device)
        return {
            "model": model,
            "dtype": dtype,
            "same_weights": await served.weights_id() == await engines["transformers"].weights_id(),
            "same_prompts": same_prompts(greedy) and same_prompts(sampled),
            "greedy": [
                compared(pair, greedy[pair[0]], greedy[pair[1]], tie, TIE[dtype])
                for pair in combinations(ENGINES, 2)
            ],
            "sampled": [
                await scored(name, sampled[name], scorer, engines)
                for name in ENGINES
                for scorer in SCORERS
            ],
        }
    finally:
        for engine in engines.values():
            await engine.close()


def vllm_config(folder: str, dtype: str, device: str) -> Any:
    """Return the settings of a server that leaves room for the rest."""
    from whale_vllm.config import Config

    more = ("--enforce-eager", "--max-num-seqs", "64")  # compiling takes longer than the rest
    if device == "cpu":
        more += ("--kv-cache-memory-bytes", "400000000")
    memory = 0.1 if device == "cpu" else 0.3
    return Config(
        model=folder,
        dtype=dtype,
        max_context=MAX_CONTEXT,
        gpu_memory=memory,
        arguments=more,
        timeout=TIMEOUT,
    )


def requests(tokenizer: Any, options: argparse.Namespace, sampling: Any) -> list[Any]:
    """Return requests that hold both a prompt's ids and its messages."""
    import numpy as np

    from whale_core.keys import generator
    from whale_core.records import GenerationRequest, Message

    made = []
    for index in range(options.prompts):
        text = TASKS[index % len(TASKS)].format(SUBJECTS[index // len(TASKS)])
        messages = (Message("system", SYSTEM), Message("user", text))
        rendered = tokenizer.template([{"role": m.role, "content": m.content} for m in messages])
        ids = np.array(tokenizer.encode(rendered, special=True), np.int32)
        key = generator("measure engines", index).bytes(16)
        made.append(GenerationRequest(ids, options.tokens, (), sampling, key, messages))
    return made


async def generated(engine: Any, asked: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return each request with what the engine made of it. Raise ``AssertionError`` for a fault."""
    from whale_core.records import Generation

    made = await engine.generate(asked)
    for each in made:
        assert isinstance(each, Generation), each
    return list(zip(asked, made, strict=True))


def same_prompts(found: dict[str, list[tuple[Any, Any]]]) -> bool:
    """Return whether the server made the same ids of the messages as our tokenizer."""
    return all(
        made.prompt_ids.tolist() == request.prompt_ids.tolist() for request, made in found["openai"]
    )


def ties_of(folder: str, device: str) -> Any:
    """Return a function from a prefix and tokens to how much less likely than the best next token
    the least likely of them is, by a float32 forward pass."""
    import torch
    from transformers import AutoModelForCausalLM

    from whale_transformers.models import quiet

    with quiet():
        module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    module.to(device).eval()

    def gap(prefix: Any, tokens: Sequence[int]) -> float:
        ids = torch.from_numpy(prefix).long().to(device)[None]
        with torch.no_grad():
            logp = torch.log_softmax(module(input_ids=ids).logits[0, -1], -1)
        return float(logp.max() - logp[list(tokens)].min())

    return gap


def compared(
    pair: tuple[str, str],
    ours: list[tuple[Any, Any]],
    theirs: list[tuple[Any, Any]],
    gap: Any,
    tie: float,
) -> dict[str, Any]:
    """Return how the greedy tokens of two engines differ."""
    import numpy as np

    places, gaps = [], []
    for (request, one), (_, two) in zip(ours, theirs, strict=True):
        a, b = one.token_ids, two.token_ids
        if a.tolist() == b.tolist():
            continue
        shared = min(len(a), len(b))
        differ = np.flatnonzero(a[:shared] != b[:shared])
        place = int(differ[0]) if len(differ) else shared
        places.append(place)
        if place == shared:  # one ended where the other went on: no tie
            gaps.append(float("inf"))
            continue
        prefix = np.concatenate([request.prompt_ids, a[:place]])
        gaps.append(gap(prefix, (int(a[place]), int(b[place]))))
    return {
        "engines": list(pair),
        "sequences": len(ours),
        "equal": len(ours) - len(places),
        "first_differences": places,
        "ties": sum(each <= tie for each in gaps),
        "gaps": [round(each, 5) for each in gaps],
    }


async def scored(
    name: str, found: list[tuple[Any, Any]], scorer: str, engines: dict[str, Any]
) -> dict[str, Any]:
    """Return how far what an engine tells of its samples is from what another computes."""
    import numpy as np

    from whale_rsft.places import logprobs

    differences = []
    for request, made in found:
        row = np.concatenate([request.prompt_ids, made.token_ids]).astype(np.int32)
        if scorer == "vllm":
            told = await engines["vllm"].logprobs(row)
        else:
            told = await engines["transformers"].borrow(partial(logprobs, token_ids=row))
        differences.append(np.abs(told[-len(made.token_ids) :] - made.logprobs))
    every = np.concatenate(differences)
    return {
        "engine": name,
        "scored_by": scorer,
        "tokens": len(every),
        "mean": float(f"{every.mean():.3g}"),
        "largest": float(f"{every.max():.3g}"),
    }


def problems(case: dict[str, Any]) -> list[str]:
    """Return in what a case is not as stated."""
    name, dtype = f"{case['model']} in {case['dtype']}", case["dtype"]
    found = []
    if not (case["same_weights"] and case["same_prompts"]):
        found.append(f"{name}: the engines served other weights or prompts")
    for each in case["greedy"]:
        different = each["sequences"] - each["equal"]
        if each["ties"] < different or different > DIFFERENT[dtype] * each["sequences"]:
            found.append(f"{name}: greedy {each}")
    for each in case["sampled"]:
        if any(not each[kind] <= bound for kind, bound in LOGPROBS[dtype].items()):
            found.append(f"{name}: sampled {each}")
    return found


def device_name() -> str:
    """Return the GPU's name."""
    import torch

    return torch.cuda.get_device_name()


if __name__ == "__main__":
    sys.exit(main())
