"""What every vLLM is started with, as a server or as an actor: its arguments on a command line."""

from __future__ import annotations

from whale_vllm.config import Config


def arguments(config: Config, dtype: str, mode: str, longest: int) -> list[str]:
    """Return the arguments of one replica; the model itself is left out.

    ``mode`` is its ``--logprobs-mode``, ``longest`` the tokens of a context. No default of the
    model's folder shall change what is sampled, so its generation settings are left out.
    """
    return [
        "--dtype",
        dtype,
        "--max-model-len",
        str(longest),
        "--gpu-memory-utilization",
        str(config.gpu_memory),
        "--tensor-parallel-size",
        str(config.tensor_parallel),
        "--logprobs-mode",
        mode,
        "--generation-config",
        "vllm",
        "--seed",
        "0",
        "--enable-prefix-caching",
        "--disable-log-stats",
        *(["--enable-sleep-mode"] if config.sleep else []),
        *config.arguments,
    ]
