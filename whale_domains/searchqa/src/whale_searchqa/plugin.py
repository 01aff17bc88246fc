"""The entry point: what this package registers. Nothing heavy is imported here."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_domains() -> list[Registration]:
    """Return the domain ``searchqa``."""
    return [
        Registration(
            "searchqa",
            "whale_searchqa.domain:SearchQADomain",
            "whale_searchqa.config:Config",
            "questions with a search tool: a bundled invented world, seven benchmarks or a file",
        )
    ]


@hookimpl
def whale_register_verifiers() -> list[Registration]:
    """Return the verifiers ``em`` and ``llm-judge``."""
    return [
        Registration(
            "em",
            "whale_searchqa.em:EmVerifier",
            "whale_searchqa.config:EmConfig",
            "reward 1 when the last reply's answer matches a reference after normalisation",
        ),
        Registration(
            "llm-judge",
            "whale_searchqa.judge.verifier:LlmJudge",
            "whale_searchqa.judge.config:JudgeConfig",
            "reward 1 when a chat model finds that the last reply's answer names what a reference "
            "does",
        ),
    ]
