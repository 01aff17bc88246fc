"""The trainer's process: one rank of a model spread with DeepSpeed ZeRO. One method, one thing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whale_core.records import Floats, Ids
from whale_rsft.openrlhf import adapter
from whale_rsft.openrlhf.batches import Indices, MicroBatch, Share
from whale_rsft.openrlhf.options import Options, Step


class RSFTActor(adapter.BaseModelActor):  # type: ignore[misc]
    """A rank. All ranks are called together: every method but ``alive`` is collective."""

    actor: Any  # OpenRLHF's
    device: torch.device
    tokenizer: Any

    def init_model_from_pretrained(self, options: Options, folder: Path) -> None:
        """Load the model of a Hugging Face folder and make its optimizer, both anew."""
        from transformers import AutoTokenizer

        self.actor = None  # free its memory first
        self._setup_distributed(adapter.Strategy(options))
        self.actor = adapter.open_actor(self.strategy, folder)
        self.actor.train()
        self.device = self.actor.model.device
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.loss = adapter.SFTLoss()

    def step(self, share: Share) -> Step:
        """Make one optimizer step over all ranks' shares.

        A micro-batch of weight zero goes through the model like any other, since the other ranks'
        backward passes wait for it.
        """
        before = [each.clone() for each in self._own_values()]
        nll = gap = 0.0
        for batch in share.micro_batches:
            part_nll, part_gap = self._backward(batch, share)
            nll += part_nll
            gap += part_gap
        grad_norm = adapter.apply(self.actor)
        changed = sum(
            int(torch.count_nonzero(old != new))
            for old, new in zip(before, self._own_values(), strict=True)
        )
        values = sum(each.numel() for each in before)
        return Step(nll, gap, grad_norm, changed, values)

    def logprobs(self, token_ids: Ids) -> Floats:
        """Return ``log p(token_ids[t] | token_ids[:t])`` for t = 1, …, n - 1, float32."""
        ids = torch.from_numpy(token_ids).to(self.device, torch.long)[None]
        self.actor.eval()
        with torch.no_grad():
            picked = self.actor(ids, attention_mask=torch.ones_like(ids), return_logprobs=True)
        self.actor.train()
        values: Floats = picked[0].float().cpu().numpy()
        return values

    def publish(self, folder: Path) -> None:
        """Write the model as a Hugging Face folder."""
        adapter.publish(self.strategy, self.actor, self.tokenizer, folder)

    def save(self, folder: Path) -> None:
        """Write the optimizer's state and the weights into ``folder``."""
        adapter.save_state(self.actor, folder)

    def load(self, folder: Path) -> None:
        """Read what ``save`` wrote with as many ranks."""
        adapter.load_state(self.actor, folder)

    def offload(self) -> None:
        """Give the GPU's memory to others, as far as the platform can."""
        adapter.offload(self.actor)

    def reload(self) -> None:
        """Undo ``offload``."""
        adapter.reload(self.actor)

    def alive(self) -> int:
        """Return the process id."""
        return os.getpid()

    def _backward(self, batch: MicroBatch, share: Share) -> tuple[float, float]:
        def tensor(array: Indices | Floats) -> Tensor:
            return torch.from_numpy(array).to(self.device)

        logits = self.actor(
            tensor(batch.input_ids),
            attention_mask=tensor(batch.attention_mask),
            return_output=True,
            logits_to_keep=tensor(batch.positions),  # no logits where there is no loss
        )["logits"]
        logp = adapter.log_probs_from_logits(logits, tensor(batch.targets))
        weights = tensor(batch.weights)
        # DeepSpeed averages gradients over ranks; ``dp_size`` undoes that where the divisor counts
        # what all of them have.
        loss = self.loss(logp, weights, dp_size=share.ranks, batch_num_tokens=share.divisor)
        self.strategy.backward(loss, self.actor, None)
        with torch.no_grad():
            gaps = (logp - tensor(batch.logprobs)).abs()
            nll = -float((weights * logp).sum())
            return nll, float((weights * gaps).sum())

    def _own_values(self) -> list[Tensor]:
        return adapter.own_values(self.actor, self._rank, self._world_size)
