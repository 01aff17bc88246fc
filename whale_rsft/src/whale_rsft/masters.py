"""Float32 master weights and their AdamW state, and how both are kept on disk.

Small updates round away in bfloat16 but add up in the masters: the served parameters are always the
masters' rounding, never a second source of truth.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from whale_core.errors import RunFolderError
from whale_rsft.config import Config

STATE_FILE = "rsft-{}.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")


class State(Protocol):
    """What a trainer keeps of a model and moves: float32, with AdamW's moments."""

    @property
    def names(self) -> frozenset[str]:
        """The parameters that move."""
        ...

    def match(self, parameters: Mapping[str, nn.Parameter]) -> bool:
        """Return whether ``parameters`` are what this state rounds to."""
        ...

    def sinks(self) -> Mapping[str, Callable[[Tensor], object]]:
        """Zero the gradients; return what adds a parameter's gradient to them, by its name."""
        ...

    def free_gradients(self) -> None:
        """Free the gradients."""
        ...

    def clip(self) -> float:
        """Clip the gradients, and return their norm before that."""
        ...

    def step(self) -> None:
        """Make one AdamW step."""
        ...

    def round_into(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Write what this state rounds to into ``parameters``, in place."""
        ...

    def write(self, path: Path) -> None:
        """Write everything into the folder ``path``, through to the disk."""
        ...


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

    @property
    def names(self) -> frozenset[str]:
        """The parameters that move: all."""
        return frozenset(self.masters)

    def match(self, parameters: Mapping[str, nn.Parameter]) -> bool:
        """Return whether ``parameters`` are exactly the rounding of these masters."""
        return self.masters.keys() == parameters.keys() and all(
            parameter.shape == self.masters[name].shape
            and torch.equal(parameter, self.masters[name].to(parameter.dtype))
            for name, parameter in parameters.items()
        )

    def sinks(self) -> Mapping[str, Callable[[Tensor], object]]:
        """Zero the float32 gradients; return what adds to them, by name, for ``clip``, ``step``."""
        for master in self.masters.values():
            master.grad = torch.zeros_like(master) if master.grad is None else master.grad.zero_()
        return {
            name: master.grad.add_
            for name, master in self.masters.items()
            if master.grad is not None
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
                raise damaged(path / STATE_FILE.format(kind), "it does not go with the masters")
        for name, master in result.masters.items():
            result._optimizer.state[master] = {
                "step": torch.tensor(float(updates)),
                **{kind: moments[kind][name] for kind in MOMENTS},
            }
        return result


def _save(path: Path, kind: str, tensors: Mapping[str, Tensor], updates: int) -> None:
    save_tensors(path / STATE_FILE.format(kind), tensors, {"updates": str(updates)})


def save_tensors(file: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Write tensors, by name, and facts about them into ``file``, through to the disk."""
    save_file(dict(tensors), file, metadata=dict(facts))
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
        raise damaged(file, str(error)) from error
    if not re.fullmatch(r"[0-9]{1,9}", count):
        raise damaged(file, f"it counts {count!r} updates")
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32:
            raise damaged(file, f"{name} is {tensor.dtype}, not torch.float32")
        if not bool(torch.isfinite(tensor).all()):
            raise damaged(file, f"{name} has values that are not finite")
        if kind == "exp_avg_sq" and bool((tensor < 0).any()):
            raise damaged(file, f"{name} has negative values")
    return tensors, int(count)


def damaged(file: Path, reason: str) -> RunFolderError:
    """Return the error of a state file that cannot be used."""
    return RunFolderError(
        f"{file}: no readable optimizer state ({' '.join(reason.split())}); "
        "resume from another checkpoint"
    )
