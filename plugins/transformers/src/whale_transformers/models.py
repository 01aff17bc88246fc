"""Finding, checking and loading the model that a configuration names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from whale_core.errors import InputError
from whale_transformers import convert, tiny
from whale_transformers.weights import (
    Stored,
    check_dtypes,
    check_finite,
    check_names,
    stored_tensors,
)

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
    folder = os.path.expanduser(name)
    if os.path.isdir(folder):
        return folder
    if os.path.isabs(folder) or name.startswith((".", "~")) or name.count("/") != 1:
        raise InputError(
            f"model {name}: no such folder; give {convert.NAME}, {tiny.NAME}, a Hugging Face "
            "folder, or a hub id like owner/name"
        )
    return name


def load_model(name: str, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    """Return ``(model, tokenizer)`` for a configured name, checked to be one the engine can serve.

    Raise ``InputError`` when it cannot be found, read or served, naming the file where one is at
    fault. Every parameter comes from the files: none is left as it was initialised.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    source = model_source(name)
    local = os.path.isdir(source)
    stored: Mapping[str, Stored] = {}
    if local:
        check_json_files(Path(source))
    with refusing(name, "cannot read its config.json"):
        config = AutoConfig.from_pretrained(source, local_files_only=local)
        refuse_unserved(name, config)
    if local:
        stored = stored_tensors(Path(source))
        if config.num_hidden_layers > len(stored):
            raise InputError(
                f"model {name}: config.json says {config.num_hidden_layers} layers, but the "
                f"weights have {len(stored)} tensors"
            )
    with refusing(name, "cannot load its weights"), quiet():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            dtype=dtype,
            attn_implementation="sdpa",
            local_files_only=local,
            output_loading_info=True,
        )
        model, found = loaded
    place = Path(source) if local else Path(name)
    check_names(place, found["missing_keys"], found["unexpected_keys"])
    parameters = dict(model.named_parameters())
    check_dtypes(stored, parameters)
    check_finite(parameters, place)
    with refusing(name, "cannot load its tokenizer"), quiet():
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local)
        tokens = max(tokenizer.get_vocab().values(), default=-1) + 1
        rows = model.get_input_embeddings().weight.shape[0]
        if tokens > rows:
            raise InputError(
                f"model {name}: its tokenizer has {tokens} tokens, its embeddings {rows}: "
                "they do not belong together"
            )
    return model.to(device).eval(), tokenizer


def check_json_files(folder: Path) -> None:
    """Raise ``InputError`` for a JSON file of a model's folder that cannot be read.

    Some of them the library would take for missing, and go on without what they say.
    """
    for file in sorted(folder.glob("*.json")):
        try:
            if not isinstance(json.loads(file.read_bytes()), dict):
                raise InputError(f"{file}: expected a JSON object")
        except OSError as error:
            raise InputError(f"{file}: {error.strerror or error}") from error
        except json.JSONDecodeError as error:
            raise InputError(f"{file}: line {error.lineno}: not JSON ({error.msg})") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}: not JSON ({error})") from error


@contextmanager
def refusing(name: str, problem: str) -> Iterator[None]:
    """Turn whatever a library raises about a model's files into an ``InputError`` that names it."""
    try:
        yield
    except InputError as error:
        if name in str(error):
            raise
        raise InputError(f"model {name}: {error}") from error
    except Exception as error:  # many kinds, and the remedy is the same for all
        raise InputError(f"model {name}: {problem}: {_line(error)}") from error


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
    """Hide the progress bars of loading and saving, and warnings that are errors here."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self._shown = logging.is_progress_bar_enabled()
        self._verbosity = logging.get_verbosity()
        logging.disable_progress_bar()
        logging.set_verbosity_error()

    def __exit__(self, *exception: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self._verbosity)
        if self._shown:
            logging.enable_progress_bar()


def _line(error: Exception) -> str:
    """Return an error's kind and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
