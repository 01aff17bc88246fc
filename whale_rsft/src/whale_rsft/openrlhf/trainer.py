"""Trainer ``openrlhf``: optimizer steps by Ray actors, on a model spread with DeepSpeed ZeRO.

The actors make their model of what the engine serves when the first phase begins, and stay for the
whole run: neither another phase nor another harness starts anything anew. After a weight step the
weights are published as a Hugging Face folder, which the engine loads.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from whale_core.errors import InputError, RunFolderError
from whale_core.records import Row
from whale_core.roles import RolloutEngine
from whale_rsft.config import Config
from whale_rsft.openrlhf.batches import shares
from whale_rsft.openrlhf.options import Options, Step
from whale_rsft.openrlhf.pin import OPENRLHF, check_installed
from whale_rsft.openrlhf.session import Session
from whale_rsft.trainers import TokenLoss, Update, Updates, trained_tokens

FACTS = "openrlhf.json"
WITH_WEIGHTS = ("config.json", "generation_config.json")  # as the engine wrote them


class OpenRLHFTrainer:
    """Makes updates with Ray actors; see ``whale_rsft.trainers.Trainer``."""

    def __init__(self, config: Config, seed: int) -> None:
        """Take the settings; nothing is started.

        Raises:
            InputError: OpenRLHF is not there, or of another version; settings that do not go
                together.
        """
        check_installed()
        self._config = config
        self._settings = config.openrlhf
        self._options = Options(
            zero=self._settings.zero,
            lr=config.lr,
            beta1=config.beta1,
            beta2=config.beta2,
            weight_decay=config.weight_decay,
            clip=config.clip,
            seed=seed,
        )
        if self._settings.nodes > 1 and not self._settings.folder:
            raise InputError(
                "model_update.openrlhf: nodes > 1 needs a folder that all of them see, through "
                "which weights travel: set model_update.openrlhf.folder"
            )
        self._session: Session | None = None
        self._root: Path | None = None
        self._weights_id = ""  # what actors and engine have in common
        self._published = 0

    async def prepare(self, engine: RolloutEngine) -> None:
        """Start the actors on what ``engine`` serves, if they are not there yet.

        Raises:
            InputError: no such cluster, or a model that cannot be trained here.
            RunFolderError: the engine serves other weights than those trained so far.
            TrainerError: the actors did not start.
        """
        if self._session is None:
            await self._start(engine)
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
        await self._call("reload")
        updates, changed, values = [], 0, 0
        for rows in trained:
            update, steps = await self._update(rows)
            updates.append(update)
            changed += sum(step.changed for step in steps)
            values += sum(step.values for step in steps)
        await self._hand_over(trained[0][0], engine)
        await self._call("offload")
        return Updates(tuple(updates), changed / values)

    async def save(self, path: Path) -> None:
        """Write the state into the folder ``path``: DeepSpeed's files, which are pickles."""
        path.mkdir(parents=True, exist_ok=True)
        if self._session is not None:
            await self._call("reload")
            state = path / "state"
            await self._call("save", state)
            await asyncio.to_thread(_flatten, state)
            await self._call("offload")
        facts = {"openrlhf": OPENRLHF, "layout": self._layout(), "weights_id": self._weights_id}
        (path / FACTS).write_text(json.dumps(facts, indent=2) + "\n")

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        """Restore the state from the folder ``path``.

        Raises:
            RunFolderError: no state there, one of other weights, or one spread over another number
                of ranks.
        """
        try:
            facts = json.loads((path / FACTS).read_text())
            version, layout, weights_id = (
                facts[each] for each in ("openrlhf", "layout", "weights_id")
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{path}: no readable state of the trainer openrlhf; resume from another checkpoint"
            ) from error
        if not weights_id:
            return  # it was written before the first phase
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
        await self._start(engine)
        await self._call("load", path)
        await self._call("offload")

    async def close(self) -> None:
        """End the actors and drop the folders. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await asyncio.to_thread(session.close)
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None
        self._weights_id = ""

    async def _start(self, engine: RolloutEngine) -> None:
        if self._root is None:
            inside = self._settings.folder or None
            self._root = Path(tempfile.mkdtemp(prefix="whale-weights-", dir=inside))
        taken = self._root / "taken"
        shutil.rmtree(taken, ignore_errors=True)
        weights_id = await engine.save(taken)
        _check_text_model(taken)
        if self._session is None:
            self._session = await asyncio.to_thread(Session, self._settings)
        await self._call("init_model_from_pretrained", self._options, taken)
        self._weights_id = weights_id

    async def _update(self, rows: Sequence[Row]) -> tuple[Update, list[Step]]:
        config = self._config
        parts = shares(rows, self._ranks(), config.micro_tokens, config.loss)
        session = self._session
        assert session is not None
        steps: list[Step] = await asyncio.to_thread(session.call_each, "step", parts)
        # Ranks that divide by their own counts are averaged; else all have the same divisor.
        averaged = config.loss == "rank-local"
        divided = [part.divisor if averaged else 1.0 for part in parts]
        update = Update(
            tokens=trained_tokens(rows),
            computed_tokens=sum(part.computed_tokens for part in parts),
            loss=TokenLoss(
                sum(step.nll / by for step, by in zip(steps, divided, strict=True)),
                sum(step.gap / by for step, by in zip(steps, divided, strict=True)),
            ),
            grad_norm=steps[0].grad_norm,
            divisor=float(self._ranks()) if averaged else parts[0].divisor,
        )
        return update, steps

    def _layout(self) -> dict[str, int]:
        settings = self._settings
        return {"ranks": self._ranks(), "zero": settings.zero}

    def _ranks(self) -> int:
        return self._settings.nodes * self._settings.ranks

    async def _call(self, method: str, *arguments: object) -> list[object]:
        if self._session is None:
            raise AssertionError("not prepared")
        if method in ("offload", "reload") and not self._settings.offload:
            return []
        return await asyncio.to_thread(self._session.call, method, *arguments)


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


def _check_text_model(folder: Path) -> None:
    """Refuse a model that also sees: OpenRLHF would load it as one, vision part and all."""
    config = json.loads((folder / "config.json").read_text())
    if "vision_config" in config:
        raise InputError(
            f"the trainer openrlhf trains text models; {config.get('model_type')} of the engine "
            "has a vision part: give the engine a checkpoint of its text part alone"
        )
