"""The process of a Ray actor that holds a vLLM: methods of ``Replica``, by their names."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from whale_core.records import Json
from whale_vllm import guard

OURS = ("prompt", "return_token_ids")  # fields of a request that are no sampling parameters


class VLLMActor:
    """One vLLM. Requests and answers are those of ``/v1/completions``, as ``completions`` makes and
    reads them; everything else is vLLM's own method of that purpose."""

    _llm: Any  # vLLM's AsyncLLM

    async def start(self, arguments: Sequence[str]) -> Mapping[str, Json]:
        """Start vLLM with the arguments of its command line; return where it runs.

        Raises:
            ValueError: it does not know an argument.
        """
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        self._llm = await asyncio.to_thread(_open, arguments)
        await self._llm.get_weight_version()  # its process answers
        guard.watch(_children())
        return {"pid": os.getpid(), "host": socket.gethostname()}

    async def version(self) -> str:
        """Return vLLM's version."""
        import vllm

        return str(vllm.__version__)

    async def healthy(self) -> bool:
        """Return True; raise an error when vLLM's process is gone."""
        await self._llm.check_health()
        return True

    async def longest(self) -> int:
        """Return how many tokens a context may have."""
        return int(self._llm.model_config.max_model_len)

    async def tokenize(self, text: str) -> list[int]:
        """Return the ids that vLLM's tokenizer makes of ``text``."""
        return list(self._llm.get_tokenizer().encode(text, add_special_tokens=False))

    async def complete(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the completion of one request."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        given = {name: value for name, value in body.items() if name not in OURS}
        params = SamplingParams(**given, output_kind=RequestOutputKind.FINAL_ONLY)
        prompt = {"prompt_token_ids": body["prompt"]}
        made = [each async for each in self._llm.generate(prompt, params, uuid.uuid4().hex)]
        return answer_of(made[-1])

    async def weight_version(self) -> str:
        """Return the name of the weights that are served."""
        return str(await self._llm.get_weight_version())

    async def set_weight_version(self, version: str) -> None:
        """Name the weights that are served."""
        await self._llm.update_weight_version(version)

    async def checksums(self) -> Mapping[str, str]:
        """Return a digest of each tensor of each worker."""
        told = await self._llm.compute_weight_checksums()
        merged = {name: digest for each in told for name, digest in each.items()}
        if len(merged) < sum(map(len, told)):
            raise ValueError("two workers name a tensor alike")
        return merged

    async def pause(self) -> None:
        """Let requests under way come to their end and begin no other."""
        await self._llm.pause_generation(mode="wait")

    async def resume(self) -> None:
        """Begin requests again."""
        await self._llm.resume_generation()

    async def reload(self, folder: str) -> None:
        """Read the weights in ``folder``."""
        await self._llm.collective_rpc("reload_weights", kwargs={"weights_path": folder})

    async def forget(self) -> bool:
        """Drop cached keys and values; return whether that was done."""
        return bool(await self._llm.reset_prefix_cache())

    async def configuration(self) -> tuple[str, str, bool]:
        """Return what it was started with, as ``Configuration`` has it."""
        told = self._llm.model_config
        return str(told.model), str(told.dtype).removeprefix("torch."), bool(told.enable_sleep_mode)

    async def sleep(self) -> None:
        """Free the memory of weights and cache."""
        await self._llm.sleep(level=2, mode="wait")

    async def wake(self) -> bool:
        """Take the memory again; return whether all of it is there."""
        return bool(await self._llm.wake_up())


def answer_of(output: Any) -> Mapping[str, Any]:
    """Return a ``RequestOutput`` of vLLM as the answer of ``/v1/completions``."""
    (made,) = output.outputs
    ids = list(made.token_ids)
    logprobs = None
    if made.logprobs is not None:
        pairs = zip(ids, made.logprobs, strict=True)
        logprobs = {"token_logprobs": [float(told[index].logprob) for index, told in pairs]}
    scores = None
    if output.prompt_logprobs is not None:
        scores = [
            told and {str(index): {"logprob": float(one.logprob)} for index, one in told.items()}
            for told in output.prompt_logprobs
        ]
    choice = {
        "finish_reason": made.finish_reason,
        "token_ids": ids,
        "prompt_token_ids": list(output.prompt_token_ids),
        "logprobs": logprobs,
        "prompt_logprobs": scores,
    }
    usage = {"prompt_tokens_details": {"cached_tokens": output.num_cached_tokens}}
    return {"choices": [choice], "usage": usage}


def _open(arguments: Sequence[str]) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.v1.engine.async_llm import AsyncLLM

    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = parser.parse_args(list(arguments))
    except SystemExit as error:  # it would end the actor without a word
        lines = said.getvalue().strip().splitlines() or ["they are not vLLM's"]
        raise ValueError(f"engine.arguments: {lines[-1]}") from error
    return AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(parsed))


def _children() -> list[int]:
    """Return the processes that this one started, and theirs."""
    import psutil

    return [each.pid for each in psutil.Process().children(recursive=True)]
