"""What every vLLM is started with, as a server or as an actor: its arguments on a command line."""

from __future__ import annotations

from importlib import metadata

from whale_vllm.config import Config

BATCHED = 4096  # tokens of a step on a CPU


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
        *(_whole_prompts(longest) if on_cpu() else []),
        *config.arguments,
    ]


def on_cpu() -> bool:
    """Say whether the vLLM of this environment is a build for CPUs."""
    try:
        return "cpu" in metadata.version("vllm").partition("+")[2]
    except metadata.PackageNotFoundError:
        return False


def _whole_prompts(longest: int) -> list[str]:
    """Return the arguments by which no prompt is computed in parts.

    A CPU build of vLLM 0.32 ends when a request with a seed, as all are here, is split: "CPU
    Generator does not use offset".
    """
    return ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(max(longest, BATCHED))]
