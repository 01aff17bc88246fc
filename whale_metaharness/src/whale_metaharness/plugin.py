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
    """Offer the proposers."""
    return [
        Registration(
            name="mutation",
            factory="whale_metaharness.mutation:MutationProposer",
            config="whale_metaharness.config:MutationConfig",
            summary="seeded evolutionary search over the domain's catalogue of edits; offline",
        ),
        Registration(
            name="anthropic",
            factory="whale_metaharness.proposers.anthropic:AnthropicProposer",
            config="whale_metaharness.proposers.settings:AnthropicConfig",
            summary="a model behind the Messages API writes candidates, with tools",
        ),
        Registration(
            name="openai",
            factory="whale_metaharness.proposers.openai:OpenAIProposer",
            config="whale_metaharness.proposers.settings:OpenAIConfig",
            summary="a model behind any Chat Completions endpoint writes candidates, with tools",
        ),
    ]
