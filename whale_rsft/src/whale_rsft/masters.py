"""Float32 master weights and their AdamW state, and how both are kept on disk.

Small updates round away in bfloat16 but add up in the masters: the served parameters are always the
masters' rounding, never a second source of truth.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from whale_core.errors import RunFolderError
from whale_rsft.config import Config

STATE_FILE = "rsft-{}.safetensors"
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
        """Return zeroed float32 gradient buffers, by name, to add to for ``clip`` and ``step``."""
        for master in self.masters.values():
            master.grad = torch.zeros_like(master) if master.grad is None else master.grad.zero_()
        return {
            name: master.grad for name, master in self.masters.items() if master.grad is not None
        }

    def free_gradients(self) -> None:
        """Free the gradient buffers."""
        self._optimizer.zero_grad(set_to_none=True)

    def clip(self) -> float:
        """Clip the gradients, and return their norm before that."""
        masters = list(self.masters.values())
        return nn.utils.clip_grad_norm_(masters, self._config.clip, foreach=False).item()

    def step(self) -> None:
        """Make one AdamW step."""
        self._optimizer.step()

    @torch.no_grad()
    def round_into(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Write the rounded masters into ``parameters`` in place."""
        for name, parameter in parameters.items():
            parameter.copy_(self.masters[name])

    def write(self, path: Path) -> None:
        """Write masters and moments into the folder ``path``, one file each, through to the disk.

        safetensors copies what it writes: one file at a time needs a third of the memory.
        """
        states = self._optimizer.state
        updates = max((int(state["step"]) for state in states.values()), default=0)
        path.mkdir(parents=True, exist_ok=True)
        _save(path, "master", self.masters, updates)
        for kind in MOMENTS if updates else ():
            moments = {name: states[master][kind] for name, master in self.masters.items()}
            _save(path, kind, moments, updates)

    @classmethod
    def read(cls, path: Path, config: Config, device: torch.device) -> Masters:
        """Return what ``write`` wrote into the folder ``path``, bit for bit, on ``device``.

        Raises:
            RunFolderError: a state file is missing, damaged or not one of ours, or the files do not
                belong together.
        """
        masters, updates = _load(path, "master", device)
        result = cls(masters, config)
        if not updates:
            return result
        moments: dict[str, dict[str, Tensor]] = {}
        for kind in MOMENTS:
            moments[kind], count = _load(path, kind, device)
            shapes = {name: moment.shape for name, moment in moments[kind].items()}
            if count != updates or shapes != {n: m.shape for n, m in masters.items()}:
                raise _damaged(path / STATE_FILE.format(kind), "it does not go with the masters")
        for name, master in result.masters.items():
            result._optimizer.state[master] = {
                "step": torch.tensor(float(updates)),
                **{kind: moments[kind][name] for kind in MOMENTS},
            }
        return result


def _save(path: Path, kind: str, tensors: Mapping[str, Tensor], updates: int) -> None:
    file = path / STATE_FILE.format(kind)
    save_file(dict(tensors), file, metadata={"updates": str(updates)})
    with file.open("rb+") as written:
        os.fsync(written.fileno())


def _load(path: Path, kind: str, device: torch.device) -> tuple[dict[str, Tensor], int]:
    """Return one file's tensors in the order of their names, and the update count."""
    file = path / STATE_FILE.format(kind)
    try:
        with safe_open(file, framework="pt", device=str(device)) as stored:
            tensors = {key: stored.get_tensor(key) for key in sorted(stored.keys())}
            count = stored.metadata()["updates"]
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise _damaged(file, str(error)) from error
    if not re.fullmatch(r"[0-9]{1,9}", count):
        raise _damaged(file, f"it counts {count!r} updates")
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32:
            raise _damaged(file, f"{name} is {tensor.dtype}, not torch.float32")
        if not bool(torch.isfinite(tensor).all()):
            raise _damaged(file, f"{name} has values that are not finite")
        if kind == "exp_avg_sq" and bool((tensor < 0).any()):
            raise _damaged(file, f"{name} has negative values")
    return tensors, int(count)


def _damaged(file: Path, reason: str) -> RunFolderError:
    return RunFolderError(
        f"{file}: no readable optimizer state ({' '.join(reason.split())}); "
        "resume from another checkpoint"
    )
