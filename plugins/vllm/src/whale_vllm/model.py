"""The served model's folder: what the engine reads of it, and copies of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from whale_core.chat_tokenizer import TextTokenizer
from whale_core.checkpoint import INDEX, Tensor, parameters, weight_files
from whale_core.errors import InputError

DTYPES = ("float32", "bfloat16", "float16")
SMALL = (".json", ".jinja", ".txt", ".model")  # what a model's folder holds beside its weights
# Of config.json, what changes no logit; dtypes are compared by themselves.
NOT_COMPUTED = {"_name_or_path", "dtype", "torch_dtype", "transformers_version", "use_cache"}
SHOWN = 3


@frozen
class Model:
    """A Hugging Face folder, as far as the engine needs it."""

    folder: Path
    tokenizer: TextTokenizer
    vocabulary: int
    longest: int  # tokens of a context, by its positions; 0 when it does not say
    dtype: str
    parameters: Mapping[str, Tensor]


def open_model(name: str, dtype: str) -> Model:
    """Read the model that the settings name; nothing is loaded but its tokenizer.

    Raise ``InputError`` when it cannot be found, read or served.
    """
    folder = model_folder(name)
    config = read_config(folder)
    text = config.get("text_config") or config  # of models that also see
    vocabulary = text.get("vocab_size")
    if not isinstance(vocabulary, int):
        raise InputError(f"{folder / 'config.json'}: vocab_size is missing")
    return Model(
        folder=folder,
        tokenizer=load_tokenizer(name, folder),
        vocabulary=vocabulary,
        longest=int(text.get("max_position_embeddings") or 0),
        dtype=served_dtype(folder, text, dtype),
        parameters=parameters(folder),
    )


def model_folder(name: str) -> Path:
    """Return the local folder of a model's name; a hub id is downloaded if it is not there."""
    if not name:
        raise InputError("engine.model: missing, give a Hugging Face folder or a hub id")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        raise InputError(
            f"engine.model={name}: no such folder; give a Hugging Face folder or a hub id like "
            "owner/name"
        )
    from huggingface_hub import snapshot_download

    patterns = ["*.safetensors", *(f"*{suffix}" for suffix in SMALL)]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # many kinds, and the remedy is the same for all
        raise InputError(
            f"engine.model={name}: cannot be had from the hub ({type(error).__name__}); give a "
            "Hugging Face folder"
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """Return a folder's ``config.json``. Raise ``InputError`` if it has none that can be read."""
    file = folder / "config.json"
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read ({error})") from error
    if not isinstance(config, dict):
        raise InputError(f"{file}: expected a JSON object")
    return config


def served_dtype(folder: Path, config: Mapping[str, Any], wanted: str) -> str:
    """Return the dtype to serve in: ``wanted``, or what the configuration says."""
    if wanted != "auto":
        return wanted
    said = str(config.get("dtype") or config.get("torch_dtype")).removeprefix("torch.")
    if said not in DTYPES:
        raise InputError(
            f"{folder / 'config.json'}: its dtype is {said}; set engine.dtype to one of "
            f"{', '.join(DTYPES)}"
        )
    return said


def load_tokenizer(name: str, folder: Path) -> TextTokenizer:
    """Return the folder's tokenizer. Raise ``InputError`` if there is none that can serve."""
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        tokenizer = TextTokenizer(loaded, _generation_ends(folder))
        tokenizer.template([{"role": "user", "content": ""}])  # does the template compile?
    except InputError as error:
        raise InputError(f"engine.model={name}: {error}") from error
    except Exception as error:  # many kinds, and the remedy is the same for all
        said = " ".join(str(error).split())[:200]
        raise InputError(
            f"engine.model={name}: cannot load its tokenizer: {type(error).__name__}: {said}"
        ) from error
    if not tokenizer.end_tokens:
        raise InputError(f"engine.model={name}: its tokenizer has no token that ends a turn")
    return tokenizer


def check_same_model(folder: Path, model: Model) -> None:
    """Raise ``InputError`` unless ``folder`` holds exactly the model's parameters, of its shapes.

    A server takes what it gets: a parameter that is missing would keep its old numbers.
    """
    found = parameters(folder)
    if missing := sorted(model.parameters.keys() - found.keys()):
        raise InputError(
            f"{folder}: parameter {_some(missing)} is missing from its weights: they are "
            "incomplete, or another model's"
        )
    if extra := sorted(found.keys() - model.parameters.keys()):
        raise InputError(
            f"{folder}: its weights hold {_some(extra)}, which the served model has not"
        )
    for name, tensor in found.items():
        if tensor.shape != model.parameters[name].shape:
            raise InputError(
                f"{tensor.file}: parameter {name} has shape {tensor.shape}, the served model's "
                f"has {model.parameters[name].shape}"
            )


def check_same_config(folder: Path, model: Model) -> None:
    """Raise ``InputError`` unless ``folder``'s ``config.json`` makes the same of the model's
    weights: parameters of the same shapes can be another architecture's."""
    found, wanted = (_computed(read_config(each)) for each in (folder, model.folder))
    for key in sorted(found.keys() | wanted.keys()):
        if found.get(key) != wanted.get(key):
            raise InputError(
                f"{folder / 'config.json'}: {key} is {found.get(key)}, in {model.folder} "
                f"{wanted.get(key)}"
            )


def copy_model(weights: Path, model: Path, target: Path) -> None:
    """Write the weights of one folder, and what else the other holds, as a folder of its own."""
    target.mkdir(parents=True, exist_ok=True)
    for source in (model, weights):  # the second has the last word
        for file in sorted(source.iterdir()):
            if file.suffix in SMALL and file.name != INDEX and file.is_file():
                shutil.copyfile(file, target / file.name)
    files = weight_files(weights)
    for file in files:
        shutil.copyfile(file, target / file.name)
    if (weights / INDEX).is_file():
        shutil.copyfile(weights / INDEX, target / INDEX)
    for file in target.iterdir():  # a crash after the caller's journal line must not lose them
        with open(file, "rb+") as stream:
            os.fsync(stream.fileno())


def _computed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a configuration, and of those within it, decides the logits."""
    return {
        key: _computed(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in NOT_COMPUTED
    }


def _generation_ends(folder: Path) -> list[int]:
    try:
        said = json.loads((folder / "generation_config.json").read_bytes()).get("eos_token_id")
    except FileNotFoundError:
        said = read_config(folder).get("eos_token_id")
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"generation_config.json: cannot be read ({error})") from error
    if isinstance(said, int):
        return [said]
    return [each for each in said or () if isinstance(each, int)]


def _some(names: list[str]) -> str:
    more = f" (and {len(names) - SHOWN} more)" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
