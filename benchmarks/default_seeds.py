"""The five seeds of the plugin set ``default``, planned before any of them is run.

    python benchmarks/default_seeds.py plan       # writes docs/evidence/default/plan.json
    python benchmarks/default_seeds.py run 0      # one seed; keeps its result beside the plan
    python benchmarks/default_seeds.py table      # prints the table of all results

``plan`` fixes the seeds, the settings' hash and the test split's hash; commit it before ``run``.
``run`` refuses when the settings or the split are no longer those of the plan.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from whale_core.config import resolve
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.run.sealed import split_hash
from whale_core.run.session import run

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "default"
SEEDS = [0, 1, 2, 3, 4]


def planned_hashes() -> dict[str, str]:
    """Return the hashes of the settings and of the test split, as they are now."""
    plugins = load_plugins()
    resolved = resolve(plugins, "default", [], [])
    chosen = resolved.chosen["domain"]
    domain = plugins.build("domain", chosen.name, chosen.config, Setup(0))
    return {
        "settings_hash": resolved.settings_hash(),
        "test_split_hash": split_hash(domain.split("test")),
    }


def write_plan() -> None:
    """Write the plan."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    plan = {"plugin_set": "default", "seeds": SEEDS, **planned_hashes()}
    (FOLDER / "plan.json").write_text(json.dumps(plan, indent=2) + "\n")
    print(json.dumps(plan, indent=2))


def run_seed(seed: int) -> None:
    """Run one planned seed and keep its result without the run folder's place."""
    plan = json.loads((FOLDER / "plan.json").read_text())
    now = planned_hashes()
    if seed not in plan["seeds"] or any(plan[key] != now[key] for key in now):
        raise SystemExit(f"seed {seed} with {now} is not what was planned: {plan}")
    plugins = load_plugins()
    resolved = resolve(plugins, "default", [], [f"seed={seed}"])
    folder = Path(tempfile.mkdtemp(prefix=f"default-{seed}-")) / "run"
    print(f"seed {seed} in {folder}", flush=True)
    keep(run(resolved, plugins, folder))


def keep(result: dict[str, Any]) -> None:
    """Keep a result beside the plan."""
    kept = {key: value for key, value in result.items() if key != "folder"}
    path = FOLDER / f"seed-{result['seed']}.json"
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def print_table() -> None:
    """Print one line per seed, in percent, with intervals."""
    print("| seed | (θ0, h0) | (θ0, h) | (θ, h0) | (θ, h) | (θ,h) − (θ0,h) | (θ,h) − (θ0,h0) |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(FOLDER.glob("seed-*.json")):
        result = json.loads(path.read_text())
        pairs = result["pairs"]
        cells = [f"{100 * pairs[name]['mean']:.1f}" for name in ("theta0_h0", "theta0_h")]
        cells += [f"{100 * pairs['theta_h0']['mean']:.1f}", _interval(pairs["theta_h"])]
        differences = {(d["a"], d["b"]): d for d in result["differences"]}
        cells += [_interval(differences["theta_h", other]) for other in ("theta0_h", "theta0_h0")]
        print(f"| {result['seed']} | {' | '.join(cells)} |")


def _interval(value: dict[str, float]) -> str:
    return f"{100 * value['mean']:.1f} ({100 * value['low']:.1f} to {100 * value['high']:.1f})"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["plan", "run", "table"])
    parser.add_argument("seed", type=int, nargs="?", default=0)
    options = parser.parse_args()
    if options.command == "plan":
        write_plan()
    elif options.command == "run":
        run_seed(options.seed)
    else:
        print_table()


if __name__ == "__main__":
    main()
