"""The entry point: what this package registers. Nothing heavy is imported here."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_domains() -> list[Registration]:
    """Return the domain ``jsonl``."""
    return [
        Registration(
            name="jsonl",
            factory="whale_example_jsonl.domain:JsonlDomain",
            config="whale_example_jsonl.config:Config",
            summary="questions and answers from a JSONL file",
        )
    ]


@hookimpl
def whale_register_verifiers() -> list[Registration]:
    """Return the verifier ``answer-match``."""
    return [
        Registration(
            name="answer-match",
            factory="whale_example_jsonl.verifier:AnswerMatch",
            config="whale_example_jsonl.config:VerifierConfig",
            summary="compares the final answer: exact, ignore-case or number",
        )
    ]
