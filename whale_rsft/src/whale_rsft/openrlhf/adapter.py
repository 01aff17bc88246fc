"""All that touches OpenRLHF and DeepSpeed behind their documented interfaces.

Written for the version in ``pin``; ``tests/cluster/test_contract.py`` holds the names used here.
Importing this module imports Ray, DeepSpeed and vLLM (which OpenRLHF's Ray package asks for).
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from openrlhf.models import Actor, SFTLoss
from openrlhf.models.utils import log_probs_from_logits
from openrlhf.trainer.ray.launcher import BaseModelActor
from openrlhf.utils.deepspeed import DeepspeedStrategy
from openrlhf.utils.deepspeed.deepspeed_utils import (
    offload_deepspeed_states,
    reload_deepspeed_states,
)
from torch import Tensor, nn

from whale_rsft.openrlhf.options import Options

__all__ = ["Actor", "BaseModelActor", "SFTLoss", "log_probs_from_logits"]

DTYPE = "bf16"  # OpenRLHF's Actor knows bf16 and fp16
ATTENTION = "sdpa"


class Strategy(DeepspeedStrategy):  # type: ignore[misc]
    """OpenRLHF's strategy with gradients summed as they should be.

    With the settings that its dynamic batches use (accumulation steps 1, several backward passes,
    one step), ZeRO 1 and 2 keep the last micro-batch's gradient only. Here the caller says when to
    step (``managed_gradient_accumulation: false``), and the losses are not divided by anything.
    """

    def __init__(self, options: Options) -> None:
        """Take the settings; nothing is opened."""
        args = SimpleNamespace(
            local_rank=-1,
            ds=SimpleNamespace(
                param_dtype=DTYPE,
                zero_stage=options.zero,
                tensor_parallel_size=1,
                # bfloat16 sums lose what is small beside them. Stage 1 would get another optimizer
                # for it, one that fails on a zero or infinite gradient.
                grad_accum_dtype=None if options.zero == 1 else "fp32",
            ),
            train=SimpleNamespace(dynamic_batch_enable=True),
        )
        super().__init__(
            seed=options.seed, max_norm=options.clip, zero_stage=options.zero, args=args
        )
        self.options = options

    def get_ds_train_config(
        self, optim_dict: dict[str, Any] | None = None, *, max_norm: float | None = None
    ) -> dict[str, Any]:
        """Return DeepSpeed's configuration."""
        config: dict[str, Any] = super().get_ds_train_config(optim_dict, max_norm=max_norm)
        config["managed_gradient_accumulation"] = False
        config["steps_per_print"] = 1 << 30
        return config

    def _get_model_parameters(
        self, model: Any, *, optim: str | None = None, weight_decay: float = 0.0
    ) -> tuple[nn.Module, list[nn.Parameter]]:
        """Return all parameters as one group: weight decay is for all, as in trainer ``torch``."""
        module = model.model
        return module, [each for each in module.parameters() if each.requires_grad]

    def train(self, actor: Actor) -> Actor:
        """Give ``actor`` DeepSpeed's engine, AdamW and a constant learning rate."""
        options = self.options
        prepared, _, _ = self.prepare(
            (
                actor,
                {
                    "optim": "adam",
                    "adam": {
                        "lr": options.lr,
                        "betas": (options.beta1, options.beta2),
                        "eps": 1e-8,  # torch's
                        "weight_decay": options.weight_decay,
                    },
                    "lr_scheduler": "constant",
                    "max_norm": options.clip,
                    "scheduler_steps": 1,
                },
            )
        )
        return prepared


def open_actor(strategy: Strategy, folder: Path) -> Actor:
    """Return the model of a Hugging Face folder, ready to be trained."""
    actor = Actor(
        str(folder),
        attn_implementation=ATTENTION,
        param_dtype=DTYPE,
        ds_config=strategy.get_ds_train_config(),
        packing_samples=False,
        temperature=1.0,
    )
    if strategy.options.gradient_checkpointing:
        actor.gradient_checkpointing_enable()
    return strategy.train(actor)


def apply(actor: Actor) -> float:
    """Make the optimizer step; return the gradient's norm before clipping, NaN if it was refused.

    DeepSpeed looks whether the gradient is finite in stages 1 and 2; in stage 3 with bfloat16 it
    goes by what the last look said.
    """
    engine = actor.model
    if engine.zero_optimization_stage() == 3:
        engine.optimizer.check_overflow()
    engine.step()
    return float(engine.get_global_grad_norm()) if engine.was_step_applied() else float("nan")


def own_values(actor: Actor, rank: int, ranks: int) -> list[Tensor]:
    """Return served values as they lie here, such that all ranks together have each once."""
    parameters = list(actor.model.module.parameters())
    if actor.model.zero_optimization_stage() == 3:
        parts = [(each.ds_tensor.data, each.ds_numel) for each in parameters]
        return [part[: max(0, whole - rank * len(part))] for part, whole in parts]  # no padding
    return [each.data for i, each in enumerate(parameters) if i % ranks == rank]


def publish(strategy: Strategy, actor: Actor, tokenizer: Any, folder: Path) -> None:
    """Write the model as a Hugging Face folder (all ranks together; rank 0 writes)."""
    strategy.save_model(actor, tokenizer, str(folder))


def save_state(actor: Actor, folder: Path) -> None:
    """Write masters, moments and weights into ``folder`` (all ranks together)."""
    # Not ``save_ckpt``: it deletes older folders beside this one.
    actor.model.save_checkpoint(str(folder.parent), tag=folder.name, save_latest=False)


def load_state(actor: Actor, folder: Path) -> None:
    """Read what ``save_state`` wrote with as many ranks."""
    found, _ = actor.model.load_checkpoint(str(folder.parent), tag=folder.name)
    if found is None:
        raise FileNotFoundError(folder)


def offload(actor: Actor) -> None:
    """Move masters, moments and gradient buffers to the host's memory."""
    if torch.cuda.is_available():
        offload_deepspeed_states(actor.model)


def reload(actor: Actor) -> None:
    """Move them back."""
    if torch.cuda.is_available():
        reload_deepspeed_states(actor.model)
