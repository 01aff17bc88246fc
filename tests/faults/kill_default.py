"""Kill a run of the set ``default`` three times and compare it with one that was not interrupted.

    python tests/faults/kill_default.py WHOLE NEW [--seed 0]

WHOLE is the folder of a finished run of `whale-run --plugin-set default --seed 0`; NEW is where the
interrupted one goes. As long as the run itself; the machine must give the same bits as for WHOLE.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from resume_kit import command, content_of, kill, moments, wait_for_block
from run_kit import blocks_of  # found through resume_kit


def main() -> None:
    """Run, kill, resume, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("whole", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seed = json.loads((options.whole / "result.json").read_text())["seed"]
    state = options.new.with_name(f"{options.new.name}-state")
    arguments = ["run", "--plugin-set", "default", "--seed", str(seed)]
    arguments += ["--run-dir", str(options.new)]
    for blocks, later in sorted(moments(options.whole, options.seed, 3)):
        process = command(arguments, state)
        if wait_for_block(process, options.new, blocks):
            time.sleep(later)
        kill(process)
        at = len(blocks_of(options.new))
        print(f"killed {later:.1f} s after block {blocks}, {at} blocks committed", flush=True)
        arguments = ["resume", str(options.new)]
    process = command(arguments, state)
    _, errors = process.communicate()
    print(errors, f"exit code {process.returncode}")
    then, now = content_of(options.whole), content_of(options.new)
    for part in then:
        print(f"{part}: {'equal' if then[part] == now[part] else 'NOT EQUAL'}")


if __name__ == "__main__":
    main()
