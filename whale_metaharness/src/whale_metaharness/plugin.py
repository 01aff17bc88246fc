"""Entry point of the package: names its plugins, imports none of them."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_harness_searches() -> list[Registration]:
    """Offer the search ``meta-harness``."""
    return [
        Registration(
            name="meta-harness",
            factory="whale_metaharness.search:MetaHarness",
            config="whale_metaharness.config:Config",
            summary="proposal rounds over an archive; gates; the archive's best is accepted",
        )
    ]


@hookimpl
def whale_register_proposers() -> list[Registration]:
    """Offer the proposer ``mutation``."""
    return [
        Registration(
            name="mutation",
            factory="whale_metaharness.mutation:MutationProposer",
            config="whale_metaharness.config:MutationConfig",
            summary="seeded evolutionary search over the domain's catalogue of edits; offline",
        )
    ]
