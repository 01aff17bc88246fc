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
            config="whale_metaharness.proposers.settings:MutationConfig",
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
        Registration(
            name="random",
            factory="whale_metaharness.proposers.controls:RandomProposer",
            config="whale_metaharness.proposers.settings:RandomConfig",
            summary="catalogue edits drawn at random: a control",
        ),
        Registration(
            name="single-edits",
            factory="whale_metaharness.proposers.controls:SingleEditsProposer",
            config="whale_metaharness.proposers.settings:SingleEditsConfig",
            summary="every catalogue edit alone, in order: a control",
        ),
        Registration(
            name="replay",
            factory="whale_metaharness.proposers.replay:ReplayProposer",
            config="whale_metaharness.proposers.settings:ReplayConfig",
            summary="proposals recorded earlier, through all gates like any",
        ),
        Registration(
            name="manual",
            factory="whale_metaharness.proposers.manual:ManualProposer",
            config="whale_metaharness.proposers.settings:ManualConfig",
            summary="a person fills the outbox while the run waits",
        ),
        Registration(
            name="policy",
            factory="whale_metaharness.proposers.policy:PolicyProposer",
            config="whale_metaharness.proposers.settings:PolicyConfig",
            summary="the model under training proposes for itself (an experiment)",
        ),
        Registration(
            name="claude-code",
            factory="whale_metaharness.proposers.claude_code.proposer:ClaudeCodeProposer",
            config="whale_metaharness.proposers.settings:ClaudeCodeConfig",
            summary="the command-line agent claude in a jail, behind a proxy that holds the key",
        ),
    ]
