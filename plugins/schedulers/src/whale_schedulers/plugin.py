"""What this package registers; the classes are imported when a run picks one."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_schedulers() -> list[Registration]:
    """Register the schedulers of this package."""
    return [
        Registration(
            name="fixed",
            factory="whale_schedulers.fixed:Fixed",
            config="whale_schedulers.config:FixedConfig",
            summary="E epochs of weights and I iterations of search in turn, up to a total",
        ),
        Registration(
            name="weight-only",
            factory="whale_schedulers.single:WeightOnly",
            config="whale_schedulers.config:WeightOnlyConfig",
            summary="one weight phase, the harness left as it is",
        ),
        Registration(
            name="harness-only",
            factory="whale_schedulers.single:HarnessOnly",
            config="whale_schedulers.config:HarnessOnlyConfig",
            summary="one harness phase, the weights left as they are",
        ),
    ]
