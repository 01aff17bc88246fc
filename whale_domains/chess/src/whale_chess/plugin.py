"""The entry point: what this package registers. Nothing heavy is imported here."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_domains() -> list[Registration]:
    """Return the domain ``chess``."""
    return [
        Registration(
            "chess",
            "whale_chess.domain:ChessDomain",
            "whale_chess.config:Config",
            "chess puzzles: the bundled sample or a Lichess puzzle file",
        )
    ]


@hookimpl
def whale_register_verifiers() -> list[Registration]:
    """Return the verifier ``chess-line``."""
    return [
        Registration(
            "chess-line",
            "whale_chess.verifier:ChessLineVerifier",
            "whale_chess.config:VerifierConfig",
            "replays the moves; reward 1 for the complete reference line",
        )
    ]
