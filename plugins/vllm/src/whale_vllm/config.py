"""Settings of the rollout engine `vllm`."""

from __future__ import annotations

import os
from typing import Annotated, Any
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen, validators

from whale_core.abilities import Serving
from whale_core.config.later import LATER
from whale_core.config.paths import PathSetting

# What the engine itself decides; another value would make its numbers or its checks wrong.
OWN_ARGUMENTS = (
    "--config",  # a file may hold any of the others
    "--model",
    "--host",
    "--port",
    "--uds",
    "--dtype",
    "--max-model-len",
    "--gpu-memory-utilization",
    "--tensor-parallel-size",
    "-tp",
    "--logprobs-mode",
    "--generation-config",
    "--seed",
    "--enable-sleep-mode",
    "--api-key",
    "--root-path",
)


def _is_folder(text: str, path: str) -> bool:
    """Say whether a model's name is that of a folder, and not a hub id."""
    return os.path.isdir(path)


def _are_urls(instance: object, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    for url in value:
        try:
            parts = urlsplit(url)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            sound = sound and parts.path in ("", "/") and not (parts.query or parts.username)
        except ValueError:
            sound = False
        if not sound:
            raise ValueError(
                f"'urls' has {url!r}: each must be http://host:port of a vLLM server, without /v1"
            )
    if len(set(value)) < len(value):
        raise ValueError("'urls' names a server twice")


def _are_free(instance: object, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    given = {argument.partition("=")[0].replace("_", "-") for argument in value}
    if found := sorted(given & set(OWN_ARGUMENTS)):
        raise ValueError(f"'arguments' cannot set {', '.join(found)}: the engine does")


@frozen
class Ray:
    """Where the actors of ``transport=ray`` are."""

    address: str = "local"
    """Ray cluster: ``local`` starts one on this machine, ``auto`` takes the running one, else the
    address of its head; as that of a trainer on Ray. A connection that the process has already is
    used."""
    gpus: float = field(default=1.0, validator=[validators.ge(0.0), validators.le(1.0)])
    """Share of each of its ``tensor_parallel`` GPUs that an actor reserves: less than 1 leaves room
    for a trainer's ranks on it, 0 computes on CPUs."""


@frozen
class Config:
    """Which model is served, by which servers or actors."""

    model: Annotated[str, PathSetting(_is_folder)] = ""
    """The initial model: a local Hugging Face folder, or a hub id."""
    urls: tuple[str, ...] = field(default=(), validator=_are_urls)
    """Running servers, ``http://host:port`` each; none: they are started here. They need
    ``VLLM_SERVER_DEV_MODE=1``, and see the folders of this machine under the same paths."""
    transport: str = field(
        default="http", validator=validators.in_(("http", "ray")), metadata=LATER
    )
    """How vLLM is started and spoken to: ``http`` as servers, on this machine; ``ray`` in Ray
    actors, on all machines of a cluster."""
    ray: Ray = field(default=Ray(), metadata=LATER)
    replicas: int = field(default=1, validator=validators.ge(1))
    """Servers, or actors, to start."""
    tensor_parallel: int = field(default=1, validator=validators.ge(1))
    """GPUs of each that is started."""
    dtype: str = field(
        default="auto", validator=validators.in_(("auto", "float32", "bfloat16", "float16"))
    )
    """The numbers of the served weights; ``auto`` is what the model's ``config.json`` says."""
    max_context: int = field(default=4096, validator=validators.ge(2))
    """Largest number of tokens of prompt and reply together."""
    gpu_memory: float = field(
        default=0.9, validator=validators.and_(validators.gt(0.0), validators.le(1.0))
    )
    """Share of a device's memory that one takes that is started (on a CPU: of the memory)."""
    sleep: bool = field(default=False, metadata=LATER)
    """Free the memory of weights and cache while the trainer computes, on the same GPUs; running
    servers need ``--enable-sleep-mode``."""
    arguments: tuple[str, ...] = field(default=(), validator=_are_free)
    """More arguments of ``vllm serve``, for those that are started."""
    timeout: float = field(default=600.0, validator=validators.gt(0.0))
    """Seconds that one request may take, and one loading of weights."""
    start_seconds: float = field(default=1800.0, validator=validators.gt(0.0))
    """Seconds that a server may take to start."""

    def __attrs_post_init__(self) -> None:
        """Raise ``ValueError`` for settings that do not go together."""
        if self.transport == "http":
            return
        if self.urls:
            raise ValueError("'urls' names servers, and transport=ray has none: leave one of them")
        if self.tensor_parallel > 1 and not self.ray.gpus.is_integer():
            raise ValueError(
                f"'ray.gpus' is {self.ray.gpus:g}: Ray reserves several GPUs only whole; set "
                "tensor_parallel=1, or ray.gpus=1"
            )

    def serving(self) -> Serving | None:
        """Return how it serves; None for running servers, and for a model that is a folder here."""
        if self.urls or not self.model or os.path.isdir(self.model):
            return None
        return Serving(
            self.model, self.replicas, self.tensor_parallel, self.max_context, self.gpu_memory
        )
