"""The rollout engine ``transformers``: one thread that owns one Hugging Face module."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import torch
import transformers

from whale_core.chat_tokenizer import TextTokenizer
from whale_core.errors import EngineError, InputError
from whale_core.plugins import Setup
from whale_core.records import Generation, GenerationRequest, Json
from whale_transformers.check import check_served
from whale_transformers.config import Config
from whale_transformers.decoding import Decoder
from whale_transformers.kv import CHUNK, PromptCache
from whale_transformers.memory import give_back
from whale_transformers.models import load_model, model_source, quiet, refusing
from whale_transformers.thread import EngineThread
from whale_transformers.weights import load_in_place, weights_hash

T = TypeVar("T")

PROMPT_BYTES = 3 << 27  # memory for the prompt cache; touched as it fills


class TransformersEngine:
    """Embedded engine: implements ``RolloutEngine`` and ``LendsModule`` of the core.

    All computing happens on its one thread; the event loop only waits. Between calls the module is
    a plain Hugging Face model, which a trainer may borrow and change in place (``refresh`` then).
    """

    def __init__(self, config: Config, setup: Setup) -> None:
        """Load the model. Raise ``InputError`` when it cannot be found, read or served."""
        self._config = config
        self._thread = EngineThread("whale-engine")
        try:
            with refusing(config.model, "cannot be served"):
                self._thread.do(self._open)
        except BaseException:
            self._thread.abandon()
            raise

    def _open(self) -> None:
        threads = self._config.threads or usable_cores()
        torch.set_num_threads(threads)
        device = choose_device(self._config.device)
        dtype, reason = choose_dtype(self._config.dtype, device)
        self._model, hugging_face = load_model(self._config.model, dtype, device)
        self._weights_id = weights_hash(self._model)
        model_config = self._model.config
        ends = self._model.generation_config.eos_token_id
        self.tokenizer = TextTokenizer(
            hugging_face, [ends] if isinstance(ends, int) else (ends or [])
        )
        self.tokenizer.template([{"role": "user", "content": ""}])  # does the template compile?
        self.max_context: int = min(self._config.max_context, model_config.max_position_embeddings)
        self.vocabulary: int = len(self._model.get_output_embeddings().weight)
        heads = model_config.num_attention_heads
        kv_heads = getattr(model_config, "num_key_value_heads", None) or heads
        head_dim = getattr(model_config, "head_dim", None) or model_config.hidden_size // heads
        layers = model_config.num_hidden_layers
        block_bytes = 2 * layers * kv_heads * CHUNK * head_dim * dtype.itemsize
        blocks = max(PROMPT_BYTES // block_bytes, 2 * -(-self.max_context // CHUNK))
        cache = PromptCache(blocks, layers, kv_heads, head_dim, dtype, device)
        self._decoder = Decoder(
            self._model, self.tokenizer, cache, self._config.slots, self.max_context
        )
        check_served(self._config.model, self._model, self._decoder)
        self._facts = {
            "engine": "transformers",
            "model": self._config.model,
            "initial_weights": self._weights_id,
            "dtype": str(dtype).removeprefix("torch."),
            "dtype_reason": reason,
            "device": str(device),
            "threads": threads,
            "product_rows": self._decoder.height,
            "narrow_rows": self._decoder.narrow,
            "instruction_set": torch.backends.cpu.get_cpu_capability(),
            "machine": platform.machine(),
            "slots": self._config.slots,
            "max_context": self.max_context,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def facts(self) -> Mapping[str, Json]:
        """Return what defines the engine's numbers, for the manifest."""
        return self._facts

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Return one generation per request, in order.

        Tokens and log-probabilities of a request are bit-equal alone and in any company. A request
        whose logits are not finite ends there, with NaN for the log-probability. Raise
        ``EngineError`` for a prompt that does not fit, or when computing fails (memory, say). When
        this is cancelled, the batch is given up before its next token.
        """
        batch = list(requests)
        given_up = Event()
        try:
            return await self._thread.run(
                lambda: self._decoder.run(batch, self._weights_id, given_up.is_set)
            )
        except asyncio.CancelledError:
            given_up.set()
            raise
        except (RuntimeError, MemoryError) as error:
            raise EngineError(f"{type(error).__name__}: {error}") from error

    async def weights_id(self) -> str:
        """Return the content hash of the weights now served."""
        return await self._thread.run(lambda: self._weights_id)

    async def load(self, path: Path | None) -> str:
        """Copy a checkpoint's weights (None: the initial model's) into the module, in place."""

        def work() -> str:
            folder = path if path is not None else Path(initial_folder(self._config.model))
            load_in_place(self._model, folder)
            return self._noticed()

        return await self._thread.run(work)

    async def save(self, path: Path) -> str:
        """Write weights and tokenizer as a Hugging Face folder; return the weights id."""

        def work() -> str:
            with quiet():
                self._model.save_pretrained(path)
            self.tokenizer.hugging_face.save_pretrained(path)
            return self._weights_id

        return await self._thread.run(work)

    async def borrow(self, work: Callable[[Any], T]) -> T:
        """Run ``work(module)`` on the engine's thread, with the memory of decoding given back."""

        def lend() -> T:
            self._decoder.release()
            give_back()
            try:
                return work(self._model)
            finally:
                give_back()

        return await self._thread.run(lend)

    async def refresh(self) -> str:
        """Drop cached attention state after an in-place change; return the new weights id."""
        return await self._thread.run(self._noticed)

    async def forget(self) -> None:
        """Drop cached prompts."""
        await self._thread.run(self._decoder.forget)

    async def close(self) -> None:
        """Free everything. Idempotent."""
        await self._thread.close(self._free)

    def _free(self) -> None:
        del self._model, self._decoder

    def _noticed(self) -> str:
        self._decoder.forget()
        self._weights_id = weights_hash(self._model)
        return self._weights_id


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_device(name: str) -> torch.device:
    """Return the device of a configured name. Raise ``InputError`` where there is none."""
    there = {
        "auto": True,
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there[name]:
        raise InputError(f"engine.device={name}: this machine has none: set engine.device=auto")
    if name == "auto":
        name = "cuda" if there["cuda"] else "cpu"
    return torch.device(name)


def choose_dtype(name: str, device: torch.device) -> tuple[torch.dtype, str]:
    """Return the dtype for a configured name, and why."""
    if name != "auto":
        return getattr(torch, name), "configured"
    if device.type != "cpu":
        return torch.bfloat16, "auto: accelerator"
    if torch.cpu._is_amx_tile_supported():
        return torch.bfloat16, "auto: the CPU has AMX"
    if torch.cpu._is_avx512_bf16_supported():
        return torch.bfloat16, "auto: the CPU has AVX512-BF16"
    return torch.float32, "auto: the CPU has no fast bfloat16"


def initial_folder(model: str) -> str:
    """Return the folder of the configured model's initial weights (a hub id: its snapshot)."""
    source = model_source(model)
    if os.path.isdir(source):
        return source
    from huggingface_hub import snapshot_download

    return snapshot_download(source, local_files_only=True)
