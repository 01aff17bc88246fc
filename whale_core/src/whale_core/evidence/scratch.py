"""Rollouts as a run makes them, in a folder that is removed afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from whale_core.config import Resolved
from whale_core.errors import WhaleError
from whale_core.plugins.manager import Observers
from whale_core.run.caps import Caps
from whale_core.run.folder import RunFolder
from whale_core.run.ledger import Ledger
from whale_core.run.parts import RolloutParts, executor_of, policy_of
from whale_core.run.rollouts import Rollouts


@contextmanager
def scratch_rollouts(
    command: str,
    resolved: Resolved,
    parts: RolloutParts,
    observers: Observers,
    ledger: Ledger,
    seed: int,
) -> Iterator[Rollouts]:
    """Open rollouts under a run's settings and caps for ``whale command``.

    An error that would tell to resume the run tells to give the command again.
    """
    core = resolved.core
    with tempfile.TemporaryDirectory(prefix=f"whale-{command}-") as name:
        folder = RunFolder.create(Path(name) / command)
        try:
            folder.commit("run_started", run=command)
            rollouts = Rollouts(
                executor=executor_of(parts),
                policy=policy_of(parts.engine, core.rollout),
                tokenizer=parts.engine.tokenizer,
                folder=folder,
                ledger=ledger,
                observers=observers,
                seed=seed,
                max_not_scored=core.rollout.max_not_scored,
                caps=Caps(core.cap, folder.path),
            )
            rollouts.executor.begin(command)
            yield rollouts
        except WhaleError as error:
            said = str(error).replace(f"whale resume {folder.path}", f"whale {command} …")
            raise type(error)(said) from error
        finally:
            folder.close()
