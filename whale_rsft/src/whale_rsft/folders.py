"""How weights travel between a trainer and an engine in another process: as Hugging Face folders.

The one that the engine saved or loaded last stays until it has loaded another: it may read it
again.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from whale_core.abilities import GivesLogprobs
from whale_core.errors import TrainerError
from whale_core.records import Floats, Ids, Row
from whale_core.roles import RolloutEngine
from whale_core.run.folder import publish_folder

PROBE_TOKENS = 256  # of the probe row
HALF_TOLERANCE = 0.15  # mean absolute difference of log-probabilities, in 16 bits
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.index.json")


class Folders:
    """A temporary folder (``TMPDIR``, or ``inside``) that the engine must be able to read."""

    def __init__(self, inside: str = "") -> None:
        """Make nothing yet."""
        self._inside = inside or None
        self._root: Path | None = None
        self._taken: Path | None = None  # what the engine saved: the tokenizer is there too
        self._made = 0

    async def take(self, engine: RolloutEngine) -> tuple[Path, str]:
        """Return a folder with what ``engine`` serves, and the weights id."""
        folder = self._new()
        weights_id = await engine.save(folder)
        self._taken = folder
        return folder, weights_id

    async def hand_over(
        self, engine: RolloutEngine, write: Callable[[Path], Awaitable[None]]
    ) -> str:
        """Have ``engine`` serve the weights that ``write`` writes into a folder; return their id.

        The folder has what came with the taken weights, which it has already when it is written.

        Raises:
            TrainerError: the engine serves others afterwards.
        """
        taken = self._taken
        assert taken is not None
        folder = self._new()
        part = folder.with_name(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(taken, part, ignore=shutil.ignore_patterns(*WEIGHT_FILES))
        await write(part)
        await asyncio.to_thread(publish_folder, part, folder)
        loaded = await engine.load(folder)
        served = await engine.weights_id()
        if served != loaded:
            raise TrainerError(
                f"the engine was handed the weights {loaded}, but serves {served}: is its server "
                "used by somebody else? Resume the run"
            )
        self._tidy(taken, folder)
        return loaded

    def close(self) -> None:
        """Remove them all. Idempotent."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = self._taken = None

    def _new(self) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="whale-weights-", dir=self._inside))
        self._made += 1
        return self._root / f"{self._made:06d}"

    def _tidy(self, taken: Path, served: Path) -> None:
        """Remove what is not needed any more now that the engine has loaded ``served``."""
        for each in served.parent.iterdir():
            if each not in (served, taken):
                shutil.rmtree(each)
        for pattern in WEIGHT_FILES:
            for file in taken.glob(pattern):
                file.unlink()


async def compare(
    engine: RolloutEngine,
    probe: Row,
    score: Callable[[Ids], Awaitable[Floats]],
    tolerance: float,
) -> None:
    """Compare the engine's log-probabilities of ``probe`` with the trainer's, ``score``, where the
    engine can give any.

    Raises:
        TrainerError: they differ by more than ``tolerance`` on average.
    """
    ids = probe.input_ids[:PROBE_TOKENS]
    if not isinstance(engine, GivesLogprobs) or len(ids) < 2:
        return
    difference = float(np.abs(await score(ids) - await engine.logprobs(ids)).mean())
    if not difference <= tolerance:
        raise TrainerError(
            "after the hand-over the engine does not serve the trained weights: its "
            f"log-probabilities of a row differ from the trainer's by {difference:.2g} on "
            f"average (at most {tolerance:g}); resume the run, with a restarted server"
        )
