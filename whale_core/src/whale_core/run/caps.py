"""Hard caps: what a run may spend at most. Reaching one stops it, resumable with a larger cap."""

from __future__ import annotations

from pathlib import Path

from attrs import asdict, frozen

from whale_core.config.settings import CapSettings
from whale_core.errors import CapReached
from whale_core.run.ledger import Ledger


@frozen
class Caps:
    """Checks a ledger against the run's caps before each block of rollouts, and before each null
    model."""

    settings: CapSettings
    run: Path

    def check(self, ledger: Ledger, rollouts: int, purpose: str, seconds: float) -> None:
        """Raise ``CapReached`` if ``rollouts`` more may not be made, or, where they are 0, what
        ``purpose`` names may not be bought.

        Rollouts are known beforehand and never pass their cap. Tokens, USD and the run's
        ``seconds`` are known afterwards: the block that passes such a cap is the last. Episodes of
        null models (``purpose`` is ``null``) are no rollouts, but judging them costs.
        """
        spent = {
            "rollouts": ledger.rollouts,
            "tokens": ledger.total("prompt_tokens") + ledger.total("sampled_tokens"),
            "usd": ledger.total("usd"),
            "seconds": seconds,
        }
        for name, cap in asdict(self.settings).items():
            if name == "rollouts" and purpose == "null":
                continue
            due = rollouts - 1 if name == "rollouts" else 0
            if cap and spent[name] + due >= cap:
                due_next = f"{rollouts} rollouts ({purpose})" if rollouts else purpose
                raise CapReached(
                    f"cap.{name}={cap:g} is reached ({spent[name]:g} so far) before the next "
                    f"{due_next}: go on with a larger one, "
                    f"`whale resume {self.run} cap.{name}=…`"
                )
