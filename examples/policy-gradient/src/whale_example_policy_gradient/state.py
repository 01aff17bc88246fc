"""Float32 master weights with AdamW, and their file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from whale_core.errors import RunFolderError

FILE = "clipped-pg.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")


class Masters:
    """Small updates round away in bfloat16; they add up here."""

    def __init__(self, tensors: Mapping[str, Tensor], lr: float) -> None:
        """Take float32 copies, in the order of their names."""
        self.tensors = {name: tensors[name].detach().float().clone() for name in sorted(tensors)}
        self.optimizer = torch.optim.AdamW(list(self.tensors.values()), lr=lr, weight_decay=0.0)

    def add_gradients(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Move the gradients of the served parameters into the masters' float32 ones."""
        for name, parameter in parameters.items():
            if parameter.grad is None:
                continue
            master = self.tensors[name]
            gradient = parameter.grad.float()
            master.grad = gradient if master.grad is None else master.grad.add_(gradient)
            parameter.grad = None

    def step(self, parameters: Mapping[str, nn.Parameter], max_norm: float) -> float:
        """Make one step and round it into the served parameters; return the gradient's norm.

        A gradient that is not finite changes nothing.
        """
        norm = float(nn.utils.clip_grad_norm_(list(self.tensors.values()), max_norm))
        if torch.isfinite(torch.tensor(norm)):
            self.optimizer.step()
            with torch.no_grad():
                for name, parameter in parameters.items():
                    parameter.copy_(self.tensors[name])
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def fit(self, parameters: Mapping[str, nn.Parameter]) -> bool:
        """Return whether the served parameters are the rounding of these masters."""
        return self.tensors.keys() == parameters.keys() and all(
            torch.equal(self.tensors[name].to(p.dtype), p) for name, p in parameters.items()
        )

    def write(self, path: Path) -> None:
        """Write masters, moments and step counts into the folder ``path``."""
        found = {f"master.{name}": tensor for name, tensor in self.tensors.items()}
        for name, tensor in self.tensors.items():
            for key, value in self.optimizer.state.get(tensor, {}).items():
                found[f"{key}.{name}"] = value
        path.mkdir(parents=True, exist_ok=True)
        save_file(found, path / FILE)

    @classmethod
    def read(cls, path: Path, lr: float, device: torch.device) -> Masters:
        """Return what ``write`` wrote.

        Raises:
            RunFolderError: it cannot be read.
        """
        try:
            found = load_file(path / FILE, device=str(device))
        except (OSError, SafetensorError) as error:
            raise RunFolderError(f"{path / FILE}: no readable optimizer state ({error})") from error
        masters = cls(_part(found, "master"), lr)
        states = {key: _part(found, key) for key in (*MOMENTS, "step")}
        for name, tensor in masters.tensors.items():
            if name in states["step"]:
                state = {key: values[name] for key, values in states.items()}
                masters.optimizer.state[tensor] = {**state, "step": state["step"].cpu()}
        return masters


def _part(found: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    start = f"{kind}."
    return {name.removeprefix(start): t for name, t in found.items() if name.startswith(start)}
