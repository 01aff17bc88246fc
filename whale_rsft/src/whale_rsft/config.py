"""Settings of ``rsft``."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt, in_, le, lt, min_len, optional

from whale_core.abilities import Training
from whale_core.config.later import LATER
from whale_rsft.openrlhf.settings import OpenRLHF

TRAINERS = {
    "torch": "whale_rsft.torch_trainer:TorchTrainer",
    "openrlhf": "whale_rsft.openrlhf.trainer:OpenRLHFTrainer",
}
DEVICES = ("auto", "cpu", "cuda", "mps")
LOSSES = ("token-mean", "seq-mean-token-mean", "rank-local")


@frozen
class LoRA:
    """Low-rank training: of each target matrix only alpha/rank · B · A moves."""

    rank: int = field(default=0, validator=ge(0))
    """Rank of the trained part of each target matrix; 0: every parameter is trained whole."""
    alpha: float = field(default=16.0, validator=gt(0.0))
    """The trained part is scaled by alpha / rank."""
    targets: tuple[str, ...] = field(default=("all-linear",), validator=min_len(1))
    """Linear layers that are trained, by the end of their name (``q_proj``); ``all-linear``: all
    but the output layer."""


@frozen
class Config:
    """Settings of ``rsft``; the defaults are for a 135M model on a CPU, not the paper's."""

    prompts: int = field(default=24, validator=ge(1))
    """Prompts of one batch; one batch is one weight step."""
    group_size: int = field(default=8, validator=ge(1))
    """Rollouts of each prompt."""
    accept_above: float = field(default=0.5, validator=[ge(0.0), lt(1.0)])
    """A rollout is accepted when its reward is strictly above this."""
    min_accepted: int = field(default=4, validator=ge(1))
    """Fewer accepted rollouts than this wait for the phase's next step."""
    minibatch: int = field(default=64, validator=ge(1))
    """Accepted rollouts per optimizer step."""
    micro_tokens: int = field(default=512, validator=ge(1))
    """Packed tokens that are computed at once."""
    lr: float = field(default=3e-5, validator=ge(0.0))
    """Learning rate, constant."""
    beta1: float = field(default=0.9, validator=[ge(0.0), lt(1.0)])
    """AdamW's decay of the mean of gradients."""
    beta2: float = field(default=0.95, validator=[ge(0.0), lt(1.0)])
    """AdamW's decay of the mean of squared gradients."""
    weight_decay: float = field(default=0.0, validator=[ge(0.0), le(1.0)])
    """AdamW's weight decay."""
    clip: float = field(default=1.0, validator=gt(0.0))
    """Largest norm of the gradient."""
    trainer: str = field(default="torch", validator=in_(tuple(TRAINERS)), metadata=LATER)
    """What makes the optimizer steps: ``torch`` in this process, on one device; ``openrlhf`` in Ray
    actors, the model spread over them."""
    device: str = field(default="auto", validator=in_(DEVICES), metadata=LATER)
    """Where trainer ``torch`` computes. ``auto``: where the engine's module is; if the engine lends
    none, the first that there is of ``cuda``, ``mps`` and ``cpu``."""
    loss: str = field(default="token-mean", validator=in_(LOSSES), metadata=LATER)
    """Mean over all trained tokens of a minibatch, over its trajectories of the mean over their
    tokens, or over ranks of the mean over each rank's tokens, as the released code has it."""
    ranks: int = field(default=8, validator=ge(1), metadata=LATER)
    """Ranks that loss ``rank-local`` deals a minibatch's trajectories out to."""
    lora: LoRA = field(default=LoRA(), metadata=LATER)
    openrlhf: OpenRLHF = field(default=OpenRLHF(), metadata=LATER)
    gradient_checkpointing: bool = field(default=False, metadata=LATER)
    """Compute each layer again in the backward pass instead of keeping what it computed: less
    memory for one more forward pass."""
    logits_at_once: int = field(default=0, validator=ge(0), metadata=LATER)
    """Positions whose logits are held at once, less memory with a large vocabulary; 0: all of a
    micro-batch."""
    max_accepted_per_prompt: int | None = field(
        default=None, validator=optional(ge(1)), metadata=LATER
    )
    """Of a prompt's accepted rollouts only the first so many are trained on; null: all."""
    drop_all_pass: bool = field(default=False, metadata=LATER)
    """Leave out prompts of which every scored rollout was accepted."""
    exclude_rejected: bool = field(default=False, metadata=LATER)
    """Leave out, in accepted rollouts, replies that were of no use: those the harness rejected with
    `model.reject(reply)`, and those from which it made an environment call that was refused."""
    max_length: int | None = field(default=None, validator=optional(ge(1)), metadata=LATER)
    """Leave out training rows of more tokens, context included; null: none is too long."""
    deduplicate: bool = field(default=False, metadata=LATER)
    """Of a prompt's accepted rollouts that sampled the same tokens, train on the first alone."""
    harness_mixture: int = field(default=1, validator=ge(1), metadata=LATER)
    """Roll out each prompt under one of so many harnesses, chosen at random: the phase's own and
    the best others that the last search scored. 1: its own alone."""

    def training(self) -> Training:
        """Return how it trains, for a plan of its memory."""
        spread = self.trainer == "openrlhf"
        return Training(
            ranks=self.openrlhf.ranks * self.openrlhf.nodes if spread else 1,
            zero=self.openrlhf.zero if spread else 0,
            lora_rank=self.lora.rank,
            tokens=self.micro_tokens,
            logits=self.logits_at_once,
        )
