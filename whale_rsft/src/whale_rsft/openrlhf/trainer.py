"""Trainer ``openrlhf``: optimizer steps by Ray actors, on a model spread with DeepSpeed ZeRO.

The actors make their model of what the engine serves when the first phase begins, and stay for the
whole run: neither another phase nor another harness starts anything anew. After a weight step the
weights are published as a Hugging Face folder, which the engine loads.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whale_core import ray_connection
from whale_core.abilities import Sleeps
from whale_core.errors import InputError, RunFolderError, TrainerError
from whale_core.records import Floats, Ids, Row
from whale_core.roles import RolloutEngine
from whale_rsft.config import Config
from whale_rsft.folders import HALF_TOLERANCE, WEIGHT_FILES, Folders, compare
from whale_rsft.losses import row_weights
from whale_rsft.openrlhf.batches import shares
from whale_rsft.openrlhf.options import Options, Step
from whale_rsft.openrlhf.pin import OPENRLHF, check_installed
from whale_rsft.openrlhf.session import Session, use_of
from whale_rsft.text_part import check_text_model
from whale_rsft.trainers import TokenLoss, Update, Updates, trained_tokens

FACTS = "openrlhf.json"


class OpenRLHFTrainer:
    """Makes updates with Ray actors; see ``whale_rsft.trainers.Trainer``."""

    def __init__(self, config: Config, seed: int) -> None:
        """Take the settings; nothing is started.

        Raises:
            InputError: settings that do not go together.
        """
        self._config = config
        self._settings = config.openrlhf
        self._options = Options.of(config, self._settings.zero, seed)
        given = {"lora.rank": config.lora.rank, "logits_at_once": config.logits_at_once}
        for name in (name for name, value in given.items() if value):
            raise InputError(
                f"the trainer openrlhf has no model_update.{name}: leave it out, or use the "
                "trainer torch"
            )
        if self._settings.nodes > 1 and not self._settings.folder:
            raise InputError(
                "model_update.openrlhf: nodes > 1 needs a folder that all of them see, through "
                "which weights travel: set model_update.openrlhf.folder"
            )
        self._session: Session | None = None
        self._use = use_of(self._settings)
        self._folders = Folders(self._settings.folder)
        self._engine: RolloutEngine | None = None  # that was last trained for
        self._weights_id = ""  # what actors and engine have in common
        self._trained = False  # there is optimizer state, or was: the actors have it

    def check(self) -> None:
        """Check that exactly the OpenRLHF that the adapter is written for is installed and that
        there is a folder for weights, and plan what is wanted of Ray, so that an engine on Ray
        knows it before it starts.

        Raises:
            InputError: it is not, there is none, or the engine wants another Ray cluster.
        """
        check_installed()
        folder = self._settings.folder
        if folder and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
            raise InputError(
                f"model_update.openrlhf.folder={folder}: no folder that can be written; make it, "
                "where all machines see it"
            )
        ray_connection.plan(self._use)

    async def prepare(self, engine: RolloutEngine) -> None:
        """Start the actors on what ``engine`` serves, if they are not there yet.

        Raises:
            InputError: OpenRLHF is not there, or of another version; no such cluster; a model that
                cannot be trained here.
            RunFolderError: the engine serves other weights than those trained so far.
            TrainerError: the actors did not start.
        """
        self._engine = engine
        if self._session is None:
            if self._trained:
                raise _state_has_ended()
            await self._start(engine)
            await self._offload()
        elif self._weights_id != await engine.weights_id():
            raise RunFolderError(
                "the engine does not serve the weights that the trainer's actors have: resume the "
                "run"
            )

    async def train(self, minibatches: Sequence[Sequence[Row]], engine: RolloutEngine) -> Updates:
        """Make one update per minibatch that has a trained token, and hand the weights over.

        Raises:
            InputError: as ``prepare``.
            RunFolderError: as ``prepare``.
            TrainerError: an actor or Ray's head died, or the engine does not serve what was handed
                over. Nothing of these minibatches is in the engine's weights then, or the run is to
                be resumed.
        """
        trained = [rows for rows in minibatches if trained_tokens(rows)]
        if not trained:
            return Updates()
        await self.prepare(engine)
        await self._make_room(engine)
        await self._reload()
        updates, changed, values = [], 0, 0
        for rows in trained:
            update, steps = await self._update(rows)
            updates.append(update)
            changed += sum(step.changed for step in steps)
            values += sum(step.values for step in steps)
        await self._offload()  # before the engine takes its memory again
        if any(update.made for update in updates):
            await self._hand_over(engine, trained[0][0])
        return Updates(tuple(updates), changed / values)

    async def save(self, path: Path) -> None:
        """Write the state into the folder ``path``: DeepSpeed's files, which are pickles, or none
        before the first update.

        Raises:
            TrainerError: the actors, and the state with them, have ended.
        """
        if self._trained and self._session is None:
            raise _state_has_ended()
        path.mkdir(parents=True, exist_ok=True)
        if self._trained:
            assert self._weights_id, "the last hand-over failed, and stopped the run"
            if self._settings.offload and self._engine is not None:
                await self._make_room(self._engine)
            await self._reload()
            state = path / "state"
            await self._call("save", state)
            await asyncio.to_thread(_flatten, state)
            await self._offload()
        facts = {
            "openrlhf": OPENRLHF,
            "layout": self._layout(),
            "trained": self._trained,
            "weights_id": self._weights_id,
        }
        (path / FACTS).write_text(json.dumps(facts, indent=2) + "\n")

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        """Restore the state from the folder ``path``.

        Raises:
            RunFolderError: no state there, one of other weights, or one spread over another number
                of ranks.
        """
        try:
            facts = json.loads((path / FACTS).read_text())
            version, layout, trained, weights_id = (
                facts[each] for each in ("openrlhf", "layout", "trained", "weights_id")
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{path}: no readable state of the trainer openrlhf; resume from another checkpoint"
            ) from error
        if not trained:  # it was written before the first update: actors start anew
            if self._session is not None:
                await self.close()
            self._trained = False
            return
        if (version, layout) != (OPENRLHF, self._layout()):
            raise RunFolderError(
                f"{path}: the state was written by {_shown(layout)} (openrlhf {version}), here are "
                f"{_shown(self._layout())} (openrlhf {OPENRLHF}): it can only be continued as it "
                "was; set model_update.openrlhf to that"
            )
        if weights_id != await engine.weights_id():
            raise RunFolderError(
                "the engine does not serve the weights that this optimizer state belongs to: "
                "load the weights and the optimizer state of the same checkpoint"
            )
        self._engine, self._trained = engine, True
        await self._start(engine)
        await self._call("load", path)
        await self._offload()

    async def close(self) -> None:
        """End the actors, and the optimizer's state with them, and drop the folders. Idempotent.

        After training only ``load`` makes it of use again.
        """
        session, self._session, self._engine = self._session, None, None
        if session is not None:
            await asyncio.to_thread(session.close)
        await asyncio.to_thread(ray_connection.leave, self._use)  # it may only be planned
        self._folders.close()
        self._weights_id = ""

    async def _start(self, engine: RolloutEngine) -> None:
        """Have actors make their model of what ``engine`` serves."""
        self.check()
        try:
            folder, weights_id = await self._folders.take(engine)
            check_text_model(folder)
            await self._make_room(engine)
            if self._session is None:
                self._session = Session(self._settings, self._use)
                await asyncio.to_thread(self._session.start)
            await self._call("init_model_from_pretrained", self._options, folder)
        except BaseException:
            await self.close()
            raise
        self._weights_id = weights_id

    async def _make_room(self, engine: RolloutEngine) -> None:
        """Have the engine leave its GPUs to the actors until it is used again, if it can."""
        if isinstance(engine, Sleeps):
            await engine.sleep()

    async def _update(self, rows: Sequence[Row]) -> tuple[Update, list[Step]]:
        config, session = self._config, self._session
        assert session is not None
        weights, divisor = row_weights(rows, config.loss, config.ranks)
        parts = shares(rows, weights, divisor, self._ranks(), config.micro_tokens)
        steps: list[Step] = await asyncio.to_thread(session.call_each, "step", parts)
        update = Update(
            tokens=trained_tokens(rows),
            computed_tokens=sum(part.computed_tokens for part in parts),
            loss=sum((TokenLoss(step.nll, step.gap) for step in steps), TokenLoss()),
            grad_norm=steps[0].grad_norm,
            divisor=divisor,
        )
        return update, steps

    async def _hand_over(self, engine: RolloutEngine, probe: Row) -> None:
        """Publish the weights as a folder, have the engine load it, and compare."""
        self._weights_id, self._trained = "", True
        loaded = await self._folders.hand_over(engine, self._publish)
        await compare(engine, probe, self._logprobs, HALF_TOLERANCE)
        self._weights_id = loaded

    async def _publish(self, folder: Path) -> None:
        """Write the weights into ``folder``.

        OpenRLHF writes a configuration too, with changes for training (no cache) in it.
        """
        written = folder / "written"
        await self._call("publish", written)
        for pattern in WEIGHT_FILES:
            for file in written.glob(pattern):
                file.replace(folder / file.name)
        shutil.rmtree(written)

    async def _logprobs(self, token_ids: Ids) -> Floats:
        values: list[Floats] = await self._call("logprobs", token_ids)
        return values[0]

    def _layout(self) -> dict[str, int]:
        settings = self._settings
        return {"ranks": self._ranks(), "zero": settings.zero}

    def _ranks(self) -> int:
        return self._settings.nodes * self._settings.ranks

    async def _offload(self) -> None:
        """Leave the GPUs to the rollouts, if that is set."""
        if self._settings.offload:
            await self._call("offload")

    async def _reload(self) -> None:
        """Undo ``_offload``."""
        if self._settings.offload:
            await self._call("reload")

    async def _call(self, method: str, *arguments: object) -> list[Any]:
        if self._session is None:
            raise AssertionError("not prepared")
        return await asyncio.to_thread(self._session.call, method, *arguments)


def _state_has_ended() -> TrainerError:
    return TrainerError(
        "the trainer's actors have ended, and the optimizer's state with them: resume the run"
    )


def _flatten(folder: Path) -> None:
    """Move the files of ``folder`` one folder up: the core hashes files."""
    for file in folder.iterdir():
        file.replace(folder.parent / file.name)
    folder.rmdir()
    (folder.parent / "zero_to_fp32.py").unlink(missing_ok=True)  # a program; nothing runs it


def _shown(layout: object) -> str:
    if isinstance(layout, dict):
        return f"{layout.get('ranks')} ranks with ZeRO {layout.get('zero')}"
    return repr(layout)
