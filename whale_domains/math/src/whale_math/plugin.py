"""The entry point: what this package registers. Nothing heavy is imported here."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_domains() -> list[Registration]:
    """Return the domain ``math``."""
    return [
        Registration(
            "math",
            "whale_math.domain:MathDomain",
            "whale_math.config:Config",
            "math problems with a Python tool: bundled ones, a file, or a published data set",
        )
    ]


@hookimpl
def whale_register_verifiers() -> list[Registration]:
    """Return the verifiers ``math-verify`` and ``strict-box``."""
    return [
        Registration(
            "math-verify",
            "whale_math.verify.equal:MathVerifyVerifier",
            "whale_math.config:MathVerifyConfig",
            "reward 1 for an answer mathematically equal to the reference",
        ),
        Registration(
            "strict-box",
            "whale_math.verify.strict:StrictBoxVerifier",
            "whale_math.config:StrictBoxConfig",
            "the published rule: the reference's exact text in the last box",
        ),
    ]
