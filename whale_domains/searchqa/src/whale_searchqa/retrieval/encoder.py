"""Text to vectors, by any encoder of ``transformers``: a plain folder, one that
sentence-transformers wrote, or a name on the hub.

A query is encoded alone, so its vector is the same to the last bit whatever else is searched for.
Passages are encoded in batches that the corpus alone decides on: padding moves a passage's vector
by less than 1e-5, the same way each time the corpus is indexed.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen

from whale_core.errors import InputError
from whale_core.records import Json

MAX_TOKENS = 512  # of a text, where the encoder says nothing smaller
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


@frozen
class Recipe:
    """How token vectors become a text's vector."""

    pooling: str = "mean"  # or "cls"
    normalise: bool = True
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = MAX_TOKENS


class Encoder:
    """An encoder, loaded. ``dimension`` is the length of its vectors."""

    def __init__(self, name: str, recipe: Recipe, device: str = "cpu") -> None:
        """Load the folder or the hub's model ``name``.

        Raises:
            InputError: it cannot be loaded, or ``device`` is not there.
        """
        import torch
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        self.name = name
        self._device = device
        self._lock = threading.Lock()  # a fast tokenizer used by two threads at once raises
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # "Loading weights" is no progress of ours
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(name)
            model = AutoModel.from_pretrained(name, dtype=torch.float32)
            self._model = model.to(device).eval()
            # RoBERTa's positions begin at 2, so that only its tokenizer says what it can take.
            limits = (
                recipe.max_tokens,
                getattr(model.config, "max_position_embeddings", None) or recipe.max_tokens,
                self._tokenizer.model_max_length,
            )
            self.recipe = evolve(recipe, max_tokens=int(min(limits)))
            self.dimension = self._encode(["text"]).shape[1]
        except Exception as error:  # loading runs the model's own code: anything can come of it
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise InputError(
                f"encoder {name}: cannot be used on {device} ({reason}); name a folder or a model "
                "of the hub that transformers.AutoModel loads and that has one vector per token"
            ) from error
        finally:
            if shown:
                logging.enable_progress_bar()
        self.weights = _weights_hash(model)

    def facts(self) -> dict[str, Json]:
        """Return what vectors depend on."""
        recipe = self.recipe
        return {
            "encoder": self.name,
            "weights": self.weights,
            "dimension": self.dimension,
            "pooling": recipe.pooling,
            "normalise": recipe.normalise,
            "query_prefix": recipe.query_prefix,
            "passage_prefix": recipe.passage_prefix,
            "max_tokens": recipe.max_tokens,
        }

    def queries(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """Return ``float32[texts, dimension]``, each text encoded alone."""
        made = [self._encode([self.recipe.query_prefix + text]) for text in texts]
        return np.concatenate(made) if made else np.empty((0, self.dimension), np.float32)

    def passages(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """Return ``float32[texts, dimension]``, all texts as one batch."""
        return self._encode([self.recipe.passage_prefix + text for text in texts])

    def _encode(self, texts: list[str]) -> np.ndarray[Any, Any]:
        import torch

        with self._lock:
            taken = self._tokenizer(
                texts,
                padding=True,
                truncation=True,
                max_length=self.recipe.max_tokens,
                return_tensors="pt",
            )
        taken = taken.to(self._device)
        with torch.inference_mode():
            hidden = self._model(**taken).last_hidden_state
            if self.recipe.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                mask = taken["attention_mask"].unsqueeze(-1).to(hidden.dtype)
                pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1.0)
            if self.recipe.normalise:
                pooled = torch.nn.functional.normalize(pooled, dim=1)
        return np.asarray(pooled.float().cpu().numpy(), np.float32)


def recipe_of(name: str, pooling: str = "") -> Recipe:
    """Return how an encoder's own files, in a folder or on the hub, say that it is used: those of
    sentence-transformers. ``pooling`` stands above what they say of it.

    Raises:
        InputError: they name no pooling, or one or a module that is not known here, or cannot be
            had; or there are none and ``pooling`` is not given.
    """
    try:
        modules = _read(name, "modules.json")
        if not modules and not pooling:
            raise InputError(
                f"encoder {name}: it has no modules.json of sentence-transformers, which would say "
                "how its token vectors become one: give --pooling mean or --pooling cls"
            )
        kinds = {str(each["type"]).rpartition(".")[2]: str(each["path"]) for each in modules}
        folder = kinds.get("Pooling", "")
        said = {} if pooling else _read(name, f"{folder}/config.json" if folder else "config.json")
        length = _read(name, "sentence_bert_config.json").get("max_seq_length")
        prompts = _read(name, "config_sentence_transformers.json").get("prompts") or {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"encoder {name}: modules.json or its parts: {error!r}") from error
    if unknown := sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"}):
        raise InputError(f"encoder {name}: modules.json: {unknown[0]} is not supported")
    return Recipe(
        pooling=pooling or _pooling(name, said),
        normalise="Normalize" in kinds or not modules,
        query_prefix=str(prompts.get("query") or ""),
        passage_prefix=str(prompts.get("passage") or prompts.get("document") or ""),
        max_tokens=int(length or MAX_TOKENS),
    )


def _pooling(name: str, said: Mapping[str, Any]) -> str:
    modes = [key for key, value in said.items() if key.startswith("pooling_mode_") and value]
    known = [POOLINGS[key] for key in modes if key in POOLINGS]
    if len(modes) != 1 or not known:
        shown = ", ".join(modes) or "nothing"
        raise InputError(f"encoder {name}: pooling by {shown}; supported are mean and cls")
    return known[0]


def _read(name: str, file: str) -> Any:
    """Return what a file of an encoder says, nothing where it has no such file."""
    path = Path(name) / file if Path(name).is_dir() else _fetched(name, file)
    return json.loads(path.read_bytes()) if path is not None and path.is_file() else {}


def _fetched(name: str, file: str) -> Path | None:
    """Return a file of a hub's model in the hub's cache; None where the model has none such."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name, file))
    except EntryNotFoundError as error:
        if not isinstance(error, LocalEntryNotFoundError):
            return None
        reason: Exception = error
    except Exception as error:  # the hub, the network, the cache: each raises its own
        reason = error
    told = next(iter(str(reason).splitlines()), "") or type(reason).__name__
    raise InputError(
        f"encoder {name}: neither a folder here nor to be had from the hub ({told[:200]})"
    )


def _weights_hash(model: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
    return digest.hexdigest()[:16]
