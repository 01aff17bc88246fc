"""Finding, checking and loading the model that a configuration names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from whale_core.errors import InputError
from whale_transformers import convert, tiny

NOT_SERVED = {
    "sliding_attention": "sliding-window attention",
    "chunked_attention": "chunked attention",
    "linear_attention": "linear attention",
    "mamba": "state-space layers",
    "conv": "convolution layers",
}
NEEDED_ARCHITECTURE = "ForCausalLM"


def model_source(name: str) -> str:
    """Return what to load for a configured model name: a folder or a hub id."""
    if name == convert.NAME:
        return str(convert.smollm2_folder())
    if name == tiny.NAME:
        return str(tiny.tiny_folder())
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder)
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        raise InputError(
            f"model {name}: no such folder; give {convert.NAME}, {tiny.NAME}, a Hugging Face "
            "folder, or a hub id like owner/name"
        )
    return name


def load_model(name: str, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    """Return ``(model, tokenizer)`` for a configured name, checked to be one the engine can serve.

    Raise ``InputError`` when it cannot be found, read or served.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    source = model_source(name)
    local = os.path.isdir(source)
    try:
        config = AutoConfig.from_pretrained(source, local_files_only=local)
    except (OSError, ValueError) as error:
        raise InputError(f"model {name}: cannot read its config.json: {_line(error)}") from error
    refuse_unserved(name, config)
    try:
        with quiet():
            model: Any = AutoModelForCausalLM.from_pretrained(
                source,
                config=config,
                dtype=dtype,
                attn_implementation="sdpa",
                local_files_only=local,
            )
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local)
    except (OSError, ValueError) as error:
        raise InputError(f"model {name}: cannot load it: {_line(error)}") from error
    return model.to(device).eval(), tokenizer


def refuse_unserved(name: str, config: Any) -> None:
    """Raise ``InputError`` naming what the engine lacks for models of this configuration."""
    missing = _missing(config)
    if missing is not None:
        raise InputError(
            f"model {name} ({config.model_type}): the transformers engine lacks {missing}; "
            "use a full-attention decoder, or another engine"
        )


def _missing(config: Any) -> str | None:
    if getattr(config, "is_encoder_decoder", False):
        return "encoder-decoder models"
    if hasattr(config, "vision_config") or hasattr(config, "audio_config"):
        return "image and audio inputs (load the text model alone)"
    architectures = getattr(config, "architectures", None) or []
    if architectures and not any(a.endswith(NEEDED_ARCHITECTURE) for a in architectures):
        return f"the architecture {architectures[0]} (only …{NEEDED_ARCHITECTURE})"
    if getattr(config, "state_size", None) or getattr(config, "ssm_cfg", None):
        return NOT_SERVED["mamba"]
    for kind in getattr(config, "layer_types", None) or ():
        if kind != "full_attention":
            return NOT_SERVED.get(kind, f"layers of type {kind}")
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return NOT_SERVED["sliding_attention"]
    if getattr(config, "attn_logit_softcapping", None) or getattr(
        config, "final_logit_softcapping", None
    ):
        return "logit soft-capping"
    if getattr(config, "kv_lora_rank", None):
        return "multi-head latent attention"
    if any(
        getattr(config, key, None)
        for key in ("num_experts", "num_local_experts", "n_routed_experts")
    ):
        return "mixture-of-experts layers"
    if not getattr(config, "num_attention_heads", None):
        return "attention layers in this configuration"
    return None


class quiet:
    """Hide the progress bars of loading and saving."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self._shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()

    def __exit__(self, *exception: object) -> None:
        from transformers.utils import logging

        if self._shown:
            logging.enable_progress_bar()


def _line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
