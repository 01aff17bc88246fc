"""The trainer's Ray actors, one for each rank: where they are placed, started, called and ended."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


class Group:
    """Actors of a class made as OpenRLHF's ``BaseModelActor`` is, by rank.

    OpenRLHF's own ``RayActorGroup`` waits in its constructor, without end where there is no room,
    and leaves its placement group behind. Here nothing waits but ``ray.get`` of what calls return.
    """

    def __init__(self, actor: type, ranks: int, gpus: float) -> None:
        """Have Ray start the actors, each of which reserves the share ``gpus`` of a GPU and as much
        of a CPU."""
        # All of them or none is placed, near each other; of nothing Ray makes no placement group.
        self._places = (
            ray.util.placement_group([{"GPU": gpus, "CPU": gpus}] * ranks, strategy="PACK")
            if gpus
            else None
        )
        remote = ray.remote(actor)
        made = [
            remote.options(num_gpus=gpus, num_cpus=gpus, **self._place(rank))
            for rank in range(ranks)
        ]
        first = made[0].remote(ranks, 0, None, None)
        meeting: Sequence[Any] = first.get_master_addr_port.options(num_returns=2).remote()
        others = [made[rank].remote(ranks, rank, *meeting) for rank in range(1, ranks)]
        self._actors = [first, *others]

    def __len__(self) -> int:
        """Return the number of ranks."""
        return len(self._actors)

    def placed(self) -> bool:
        """Say whether Ray has found room for all of them."""
        if self._places is None:
            return True
        state: str = ray.util.placement_group_table(self._places)["state"]
        return state == "CREATED"

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call ``method`` on every actor; return the references of the results, by rank."""
        return [getattr(actor, method).remote(*arguments) for actor in self._actors]

    def call_each(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Call ``method`` on every actor with an argument of its own."""
        return [
            getattr(actor, method).remote(argument)
            for actor, argument in zip(self._actors, arguments, strict=True)
        ]

    def close(self) -> None:
        """End the actors and give back what was reserved for them. Idempotent."""
        for actor in self._actors:
            with contextlib.suppress(Exception):
                ray.kill(actor)
        if self._places is not None:
            with contextlib.suppress(Exception):
                ray.util.remove_placement_group(self._places)

    def _place(self, rank: int) -> dict[str, Any]:
        if self._places is None:
            return {}
        strategy = PlacementGroupSchedulingStrategy(self._places, placement_group_bundle_index=rank)
        return {"scheduling_strategy": strategy}
