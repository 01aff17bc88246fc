"""The entry point: what this package registers. Nothing heavy is imported here."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_schedulers() -> list[Registration]:
    """Return the scheduler ``saturating``."""
    return [
        Registration(
            name="saturating",
            factory="whale_example_scheduler.scheduler:Saturating",
            config="whale_example_scheduler.config:Config",
            summary="weights and harness in turn; weight phases shorten as the reward rises",
        )
    ]
