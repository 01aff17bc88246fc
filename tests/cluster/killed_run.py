"""A run with real actors and servers, begun or resumed; its test kills one of their processes.

    python tests/cluster/killed_run.py FOLDER ENGINE

The plugin set ``smoke`` with trainer ``openrlhf``. Ends as ``whale-run`` would: with the error's
one line and its exit code.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cluster_kit import ray_on_cpu
from smoke import ENGINES

from whale_core.api import resume, run
from whale_core.errors import WhaleError


def main(folder: Path, engine: str) -> int:
    """Make the run, or go on with it."""
    actors = {"ranks": 2, "zero": 2, "gpus_per_rank": 0.0}
    settings: dict[str, Any] = {
        "engine": ENGINES[engine](),
        "model_update.trainer": "openrlhf",
        "model_update.openrlhf": actors,
    }
    try:
        with ray_on_cpu():
            if (folder / "journal.jsonl").exists():
                resume(folder, progress=False)
            else:
                run("smoke", settings, seed=0, run_dir=folder, progress=False)
    except WhaleError as error:
        print(error, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
