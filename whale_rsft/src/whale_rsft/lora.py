"""LoRA (Hu et al. 2021, arXiv:2106.09685): of each target matrix W0 only s·B·A is trained.

The module is left as it is: it holds, and serves, the rounding of W0 + s·B·A, on which its rollouts
were sampled and on which the gradient G = dL/dW is taken. The chain rule gives the factors theirs,
dA = s·Bᵀ·G and dB = s·G·Aᵀ, as soon as a layer's G is there; no G is kept. Factors, their gradients
and AdamW state are float32; W0 is kept in the served dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from whale_core.errors import InputError
from whale_core.keys import generator
from whale_rsft.config import Config
from whale_rsft.masters import STATE_FILE, Masters, damaged, save_tensors

ALL_LINEAR = "all-linear"
BASE = STATE_FILE.format("base")
A, B = "lora_A", "lora_B"


class Adapter:
    """W0 and the factors of every target, by parameter name; implements ``State``."""

    def __init__(self, base: Mapping[str, Tensor], factors: Masters, config: Config) -> None:
        """Hold them; ``factors`` are named ``NAME.lora_A`` and ``NAME.lora_B``."""
        self._base = dict(base)
        self._factors = factors
        self._scale = config.lora.alpha / config.lora.rank

    @classmethod
    def new(cls, module: nn.Module, config: Config, seed: int) -> Adapter:
        """Return an adapter that changes nothing yet: B is zero, A uniform as in peft.

        Raises:
            InputError: ``model_update.lora.targets`` names no linear layer of ``module``.
        """
        base: dict[str, Tensor] = {}
        factors: dict[str, Tensor] = {}
        for name, weight in targets(module, config.lora.targets).items():
            outputs, inputs = weight.shape
            bound = math.sqrt(1.0 / inputs)  # kaiming_uniform_ with a = √5
            draws = generator("lora", seed, name).uniform(-bound, bound, (config.lora.rank, inputs))
            a = torch.from_numpy(draws.astype(np.float32)).to(weight.device)
            base[name] = weight.detach().clone()
            factors[f"{name}.{A}"] = a
            factors[f"{name}.{B}"] = a.new_zeros(outputs, config.lora.rank)
        return cls(base, Masters(factors, config), config)

    @property
    def names(self) -> frozenset[str]:
        """The parameters that move."""
        return frozenset(self._base)

    def match(self, parameters: Mapping[str, nn.Parameter]) -> bool:
        """Return whether the targets among ``parameters`` are W0 + s·B·A, rounded."""
        return self._base.keys() <= parameters.keys() and all(
            parameters[name].shape == base.shape
            and torch.equal(parameters[name], self._merged(name).to(parameters[name].dtype))
            for name, base in self._base.items()
        )

    def sinks(self) -> Mapping[str, Callable[[Tensor], object]]:
        """Zero the factors' gradients, and return what takes in each target's G."""
        self._factors.sinks()
        return {name: partial(self._take, name) for name in self._base}

    def _take(self, name: str, gradient: Tensor) -> None:
        a, b = self._of(name)
        assert a.grad is not None and b.grad is not None
        full = gradient.float()
        a.grad.addmm_(b.t(), full, alpha=self._scale)
        b.grad.addmm_(full, a.t(), alpha=self._scale)

    def free_gradients(self) -> None:
        """Free the factors' gradients."""
        self._factors.free_gradients()

    def clip(self) -> float:
        """Clip the factors' gradients, and return their norm before that."""
        return self._factors.clip()

    def step(self) -> None:
        """Make one AdamW step."""
        self._factors.step()

    @torch.no_grad()
    def round_into(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Write W0 + s·B·A, rounded, into the targets among ``parameters``."""
        for name in self._base:
            parameters[name].copy_(self._merged(name))

    def write(self, path: Path) -> None:
        """Write the factors with their AdamW state, and W0, into the folder ``path``."""
        self._factors.write(path)
        save_tensors(path / BASE, self._base, {})

    @classmethod
    def read(cls, path: Path, config: Config, device: torch.device) -> Adapter | None:
        """Return what ``write`` wrote, bit for bit, on ``device``; None: there was no update yet.

        Raises:
            RunFolderError: the state is missing, damaged, or not that of such an adapter.
        """
        factors = Masters.read(path, config, device)
        if not factors.masters:
            return None
        try:
            base = load_file(path / BASE, device=str(device))
        except (OSError, SafetensorError, ValueError) as error:
            raise damaged(path / BASE, str(error)) from error
        rank = config.lora.rank
        shapes = {f"{name}.{A}": (rank, w.shape[-1]) for name, w in base.items()}
        shapes |= {f"{name}.{B}": (w.shape[0], rank) for name, w in base.items()}
        if shapes != {name: tuple(each.shape) for name, each in factors.masters.items()}:
            raise damaged(path / BASE, "its matrices do not go with the factors")
        return cls(base, factors, config)

    def _of(self, name: str) -> tuple[Tensor, Tensor]:
        return self._factors.masters[f"{name}.{A}"], self._factors.masters[f"{name}.{B}"]

    def _merged(self, name: str) -> Tensor:
        a, b = self._of(name)
        return torch.addmm(self._base[name].float(), b, a, alpha=self._scale)


def targets(module: Any, wanted: tuple[str, ...]) -> dict[str, nn.Parameter]:
    """Return the weights of the linear layers that ``wanted`` names, by parameter name.

    A name means every layer whose path is or ends with it; ``all-linear`` means all of them but the
    output layer.

    Raises:
        InputError: a name fits none.
    """
    parameters = dict(module.named_parameters())
    head = module.get_output_embeddings()
    linear = {
        path: f"{path}.weight"
        for path, layer in module.named_modules()
        if isinstance(layer, nn.Linear) and f"{path}.weight" in parameters
    }
    found: dict[str, nn.Parameter] = {}
    for name in wanted:
        fitting = [
            parameter
            for path, parameter in linear.items()
            if path == name
            or path.endswith(f".{name}")
            or (name == ALL_LINEAR and module.get_submodule(path) is not head)
        ]
        if not fitting:
            there = sorted({path.rsplit(".", 1)[-1] for path in linear})
            raise InputError(
                f"model_update.lora.targets: no linear layer of {type(module).__name__} is called "
                f"{name}; there are {', '.join(there)}, and {ALL_LINEAR}"
            )
        found |= {parameter: parameters[parameter] for parameter in fitting}
    return found
