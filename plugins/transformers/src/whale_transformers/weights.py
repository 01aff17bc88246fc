"""Identity and files of the served weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from safetensors import SafetensorError, safe_open

from whale_core.checkpoint import DTYPES, OLD_BUFFERS, unreadable, weight_files
from whale_core.errors import InputError

SHOWN = 3


@frozen
class Stored:
    """A tensor in a file: what the file's header says of it."""

    file: Path
    shape: tuple[int, ...]
    dtype: str  # as safetensors writes it: F32, BF16, …


def weights_hash(model: Any) -> str:
    """Return 16 hex digits over all parameters: name, dtype, shape and bytes, in name order.

    Equal to ``whale_core.checkpoint.checkpoint_hash`` of the folder it was loaded from.
    """
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        head = f"{name} {parameter.dtype} {tuple(parameter.shape)}".encode()
        values = parameter.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy()
        digest.update(len(head).to_bytes(8, "big"))
        digest.update(head)
        digest.update(values.nbytes.to_bytes(8, "big"))
        digest.update(memoryview(values))
    return digest.hexdigest()[:16]


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """Return what the headers of a folder's weights say, by tensor name.

    Raises:
        InputError: there are no safetensors weights, or a file is cut off or damaged.
    """
    found: dict[str, Stored] = {}
    for file in weight_files(folder):
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (it is not a mapping)
                    if name in found:
                        raise InputError(f"{file}: tensor {name} is in {found[name].file} too")
                    entry = tensors.get_slice(name)
                    found[name] = Stored(file, tuple(entry.get_shape()), entry.get_dtype())
        except (OSError, SafetensorError, ValueError) as error:
            raise unreadable(file, error) from error
    return found


def load_in_place(model: Any, folder: Path) -> None:
    """Copy the safetensors weights of ``folder`` into the parameters of ``model``.

    Whoever holds a parameter keeps it. Raise ``InputError``, naming the file, when the weights are
    damaged, not finite, or not this model's; nothing is copied then.
    """
    from safetensors.torch import load_file

    stored = stored_tensors(folder)
    parameters = dict(model.named_parameters())
    ignored = [*(getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ())]
    ignored += OLD_BUFFERS
    unknown = stored.keys() - model.state_dict().keys()
    extra = (n for n in unknown if not any(re.search(pattern, n) for pattern in ignored))
    check_names(folder, parameters.keys() - stored.keys(), extra)
    check_dtypes(stored, parameters)
    for name, parameter in parameters.items():
        if stored[name].shape != tuple(parameter.shape):
            raise InputError(
                f"{stored[name].file}: parameter {name} has shape {stored[name].shape}, "
                f"the model's has {tuple(parameter.shape)}"
            )
    state: dict[str, torch.Tensor] = {}
    for file in sorted({each.file for each in stored.values()}):
        try:
            state.update(load_file(file))
        except (OSError, SafetensorError, ValueError) as error:
            raise unreadable(file, error) from error
    check_finite({name: state[name] for name in parameters}, folder)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(state[name])


def check_names(folder: Path, missing: Iterable[str], extra: Iterable[str]) -> None:
    """Raise ``InputError`` if there are parameters that no file has, or tensors of no parameter."""
    if names := sorted(missing):
        raise InputError(
            f"{folder}: parameter {_some(names)} is missing from its weights: "
            "they are incomplete, or another model's"
        )
    if names := sorted(extra):
        raise InputError(
            f"{folder}: its weights hold {_some(names)}, which the model of its config.json has "
            "not: they do not belong together"
        )


def check_dtypes(stored: Mapping[str, Stored], parameters: Iterable[str]) -> None:
    """Raise ``InputError`` for parameters that are not stored as plain floating-point numbers."""
    for name in parameters:
        if name in stored and stored[name].dtype not in DTYPES:
            raise InputError(
                f"{stored[name].file}: parameter {name} is stored as {stored[name].dtype}, "
                f"the engine reads {', '.join(DTYPES)}"
            )


def check_finite(tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Raise ``InputError`` for a parameter with a value that is not finite."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{folder}: parameter {name} has values that are not finite (NaN or infinite): "
                "the weights are damaged, or training diverged"
            )


def _some(names: list[str]) -> str:
    more = f" (and {len(names) - SHOWN} more)" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
