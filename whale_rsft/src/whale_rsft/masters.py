"""Float32 master weights and their AdamW state, and how both are kept on disk.

Small updates round away in bfloat16 but add up in the masters: the served parameters are always the
masters' rounding, never a second source of truth.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from whale_core.errors import RunFolderError
from whale_rsft.config import Config

STATE_FILE = "rsft-optimizer.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")


class Masters:
    """Masters by parameter name (tied parameters are one), with moments and update count."""

    def __init__(self, tensors: Mapping[str, Tensor], config: Config) -> None:
        """Take float32 copies of ``tensors`` as masters, with fresh AdamW state."""
        self._config = config
        self.masters = {  # in an order that outlives the file: the norm is summed in it
            name: tensors[name].detach().to(torch.float32, copy=True) for name in sorted(tensors)
        }
        self._optimizer = torch.optim.AdamW(
            [{"params": list(self.masters.values())}],
            lr=config.lr,
            betas=(config.beta1, config.beta2),
            weight_decay=config.weight_decay,
            fused=True,  # one pass over memory
        )

    def match(self, parameters: Mapping[str, nn.Parameter]) -> bool:
        """Return whether ``parameters`` are exactly the rounding of these masters."""
        return self.masters.keys() == parameters.keys() and all(
            parameter.shape == self.masters[name].shape
            and torch.equal(parameter, self.masters[name].to(parameter.dtype))
            for name, parameter in parameters.items()
        )

    def zero_gradients(self) -> Mapping[str, Tensor]:
        """Return zeroed float32 gradient buffers, by name; ``step`` uses what is added to them."""
        for master in self.masters.values():
            master.grad = torch.zeros_like(master) if master.grad is None else master.grad.zero_()
        return {
            name: master.grad for name, master in self.masters.items() if master.grad is not None
        }

    def free_gradients(self) -> None:
        """Free the gradient buffers."""
        self._optimizer.zero_grad(set_to_none=True)

    def step(self) -> float:
        """Clip, make one AdamW step, and return the gradient norm before clipping.

        A norm that is not finite changes nothing.
        """
        masters = list(self.masters.values())
        norm = nn.utils.clip_grad_norm_(masters, self._config.clip, foreach=False).item()
        if math.isfinite(norm):
            self._optimizer.step()
        return norm

    @torch.no_grad()
    def round_into(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Write the rounded masters into ``parameters`` in place."""
        for name, parameter in parameters.items():
            parameter.copy_(self.masters[name])

    def write(self, path: Path) -> None:
        """Write masters, moments and update count into the folder ``path``, through to the disk."""
        tensors: dict[str, Tensor] = {}
        updates = 0
        for name, master in self.masters.items():
            tensors[f"master.{name}"] = master
            if state := self._optimizer.state.get(master):
                updates = int(state["step"])
                tensors |= {f"{kind}.{name}": state[kind] for kind in MOMENTS}
        path.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path / STATE_FILE, metadata={"updates": str(updates)})
        with open(path / STATE_FILE, "rb+") as file:
            os.fsync(file.fileno())

    @classmethod
    def read(cls, path: Path, config: Config, device: torch.device) -> Masters:
        """Return what ``write`` wrote into the folder ``path``, bit for bit, on ``device``.

        Raises:
            RunFolderError: the state file is missing or not one of ours.
        """
        file = path / STATE_FILE
        try:
            with safe_open(file, framework="pt", device=str(device)) as stored:
                tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
                updates = int(stored.metadata()["updates"])
            names = [key.removeprefix("master.") for key in tensors if key.startswith("master.")]
            result = cls({name: tensors[f"master.{name}"] for name in names}, config)
            if updates:
                for name, master in result.masters.items():
                    result._optimizer.state[master] = {
                        "step": torch.tensor(float(updates)),
                        **{kind: tensors[f"{kind}.{name}"] for kind in MOMENTS},
                    }
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RunFolderError(
                f"{file}: not a readable optimizer state ({error}); resume from another checkpoint"
            ) from error
        return result
