"""Actors that do nothing, made as OpenRLHF's are; Ray's workers import this module."""

from __future__ import annotations

from typing import Any


class Idle:
    """An actor that starts."""

    def __init__(self, ranks: int, rank: int, address: str | None, port: int | None) -> None:
        self.given = (ranks, rank, address, port)

    def get_master_addr_port(self) -> tuple[str, int]:
        """Say where rank 0 waits for the others."""
        return "rank-0", 1234

    def alive(self) -> tuple[Any, list[int]]:
        """Return what it was made with, and its GPUs."""
        import ray

        return self.given, ray.get_gpu_ids()


class Failing(Idle):
    """An actor that does not start."""

    def __init__(self, *given: Any) -> None:
        raise RuntimeError("no GPU here")
