"""Settings of the trainer ``openrlhf``."""

from __future__ import annotations

from typing import Annotated

from attrs import field, frozen
from attrs.validators import ge, in_, le

from whale_core.config.paths import PathSetting


@frozen
class OpenRLHF:
    """How trainer ``openrlhf`` spreads the model over Ray actors, one for each rank."""

    address: str = "local"
    """Ray cluster: ``local`` starts one on this machine, ``auto`` takes the running one, else the
    address of its head; as ``engine.ray.address`` where that is used. A connection that the process
    has already is used."""
    nodes: int = field(default=1, validator=ge(1))
    """Machines that train."""
    ranks: int = field(default=1, validator=ge(1))
    """Ranks on each machine."""
    gpus_per_rank: float = field(default=1.0, validator=[ge(0.0), le(1.0)])
    """Share of a GPU that a rank reserves: less than 1 leaves room for an engine's actors on it, 0
    trains on CPUs."""
    zero: int = field(default=2, validator=in_((1, 2, 3)))
    """DeepSpeed ZeRO stage: what is spread over the ranks. 1: optimizer state, 2: gradients too,
    3: parameters too."""
    offload: bool = False
    """Move the optimizer's state to the host's memory whenever it does not train, for the rollouts'
    sake (on GPUs)."""
    folder: Annotated[str, PathSetting()] = ""
    """Folder that all machines see, through which weights travel; by default a temporary one."""
