"""Identity and files of the served weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch

from whale_core.errors import InputError


def weights_hash(model: Any) -> str:
    """Return 16 hex digits over all parameters: name, dtype, shape and bytes, in name order."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        head = f"{name} {parameter.dtype} {tuple(parameter.shape)}".encode()
        values = parameter.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy()
        digest.update(len(head).to_bytes(8, "big"))
        digest.update(head)
        digest.update(values.nbytes.to_bytes(8, "big"))
        digest.update(memoryview(values))
    return digest.hexdigest()[:16]


def load_in_place(model: Any, folder: Path) -> None:
    """Copy the safetensors weights of ``folder`` into the parameters of ``model``.

    Whoever holds a parameter keeps it. Raise ``InputError`` when names or shapes do not match;
    nothing is copied then.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{folder}: no safetensors weights there")
    state: dict[str, torch.Tensor] = {}
    for file in files:
        try:
            state.update(load_file(file))
        except (OSError, SafetensorError) as error:
            raise InputError(f"{file}: cannot be read: {error}") from error
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        if name not in state:
            raise InputError(f"{folder}: parameter {name} is missing: not this model's")
        if state[name].shape != parameter.shape:
            raise InputError(
                f"{folder}: parameter {name} has shape {tuple(state[name].shape)}, "
                f"the model's has {tuple(parameter.shape)}"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(state[name])
