"""Makes OpenRLHF 0.11.2 run without a GPU: for tests and the smoke run only, never in the package.

``install`` runs in every process that imports OpenRLHF, before it does: here, and in Ray's workers
as their setup hook (``ray.init(runtime_env={"worker_process_setup_hook": "cpu_shims.install"})``
with this folder on ``PYTHONPATH``). It stands in for flash-attn, which OpenRLHF imports whether it
is used or not (on a GPU, too, if it is not installed there), and turns the calls of ``torch.cuda``
that OpenRLHF makes unasked into nothing where there is no GPU.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from importlib.util import find_spec
from typing import Any

STUBS = {
    "flash_attn": (),
    "flash_attn.bert_padding": ("index_first_axis", "pad_input", "rearrange", "unpad_input"),
    "flash_attn.utils": (),
    "flash_attn.utils.distributed": ("all_gather",),
}


def install() -> None:
    """Install all of it. Idempotent."""
    import torch

    on_gpu = torch.cuda.is_available()
    if "flash_attn" in sys.modules or (on_gpu and find_spec("flash_attn") is not None):
        return
    for name, members in STUBS.items():
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        for member in members:
            setattr(module, member, _unusable(f"{name}.{member}"))
        sys.modules[name] = module
    if on_gpu:
        return

    import torch._dynamo.trace_rules  # it lists torch's functions by identity: before they change
    import torch.distributed.device_mesh as meshes

    torch.set_num_threads(1)
    init_device_mesh = meshes.init_device_mesh

    def set_device(device: Any) -> None:
        del device

    def synchronize(device: Any = None) -> None:
        del device

    def empty_cache() -> None: ...

    def current_device() -> Any:
        return torch.device("cpu")

    def init_cpu_mesh(device_type: str, *arguments: Any, **named: Any) -> Any:
        return init_device_mesh("cpu", *arguments, **named)

    for function in (set_device, synchronize, empty_cache, current_device):
        setattr(torch.cuda, function.__name__, function)
    meshes.init_device_mesh = init_cpu_mesh


def _unusable(name: str) -> Any:
    def stand_in(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{name} was called, and there is no flash-attn here")

    return stand_in
