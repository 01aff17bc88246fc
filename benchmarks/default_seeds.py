"""The five seeds of the plugin set ``default`` in a domain, planned before any of them is run.

    python benchmarks/default_seeds.py plan chess      # writes its plan.json
    python benchmarks/default_seeds.py run chess 0     # one seed; keeps its result beside the plan
    python benchmarks/default_seeds.py table chess     # prints the table of all results
    python benchmarks/default_seeds.py moved chess     # what each coordinate did to the behaviour

``plan`` fixes the seeds, the settings' hash and the test split's hash; commit it before ``run``.
``run`` refuses when the settings or the split are no longer those of the plan.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from whale_core.cli.tables import PAIR_LABELS
from whale_core.config import resolve
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.run.sealed import split_hash
from whale_core.run.session import run

EVIDENCE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "default"
DOMAINS = ("chess", "math", "searchqa")
SEEDS = [0, 1, 2, 3, 4]
GIVEN = {"extraction": "retrieval", "right_after_tool": "tool_worked"}  # joint rate: condition


def overrides(domain: str) -> list[str]:
    """Return the settings that choose the domain: none for the set's own, as most would run it."""
    plugins = load_plugins()
    own = resolve(plugins, "default", [], []).chosen["domain"].name
    return [] if domain == own else [f"domain={domain}"]


def planned_hashes(name: str) -> dict[str, str]:
    """Return the hashes of the settings and of the test split, as they are now."""
    plugins = load_plugins()
    resolved = resolve(plugins, "default", [], overrides(name))
    chosen = resolved.chosen["domain"]
    domain = plugins.build("domain", chosen.name, chosen.config, Setup(0))
    return {
        "settings_hash": resolved.settings_hash(),
        "test_split_hash": split_hash(domain.split("test")),
    }


def write_plan(name: str) -> None:
    """Write the plan."""
    folder = EVIDENCE / name
    folder.mkdir(parents=True, exist_ok=True)
    plan = {"plugin_set": "default", "domain": name, "seeds": SEEDS, **planned_hashes(name)}
    (folder / "plan.json").write_text(json.dumps(plan, indent=2) + "\n")
    print(json.dumps(plan, indent=2))


def run_seed(name: str, seed: int) -> None:
    """Run one planned seed and keep its result without the run folder's place."""
    plan = json.loads((EVIDENCE / name / "plan.json").read_text())
    now = planned_hashes(name)
    if seed not in plan["seeds"] or any(plan[key] != now[key] for key in now):
        raise SystemExit(f"seed {seed} with {now} is not what was planned: {plan}")
    plugins = load_plugins()
    resolved = resolve(plugins, "default", [], [*overrides(name), f"seed={seed}"])
    folder = Path(tempfile.mkdtemp(prefix=f"default-{name}-{seed}-")) / "run"
    print(f"{name}, seed {seed}, in {folder}", flush=True)
    keep(name, run(resolved, plugins, folder))


def keep(name: str, result: dict[str, Any]) -> None:
    """Keep a result beside the plan."""
    kept = {key: value for key, value in result.items() if key != "folder"}
    path = EVIDENCE / name / f"seed-{result['seed']}.json"
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def results(name: str) -> list[dict[str, Any]]:
    """Return the kept results, by seed."""
    return [json.loads(path.read_text()) for path in sorted((EVIDENCE / name).glob("seed-*.json"))]


def print_table(name: str) -> None:
    """Print one line per seed, in percent, with intervals."""
    others = {"theta_h0": "(θ,h0)", "theta0_h": "(θ0,h)", "theta0_h0": "(θ0,h0)"}
    differences_from = " | ".join(f"(θ,h) − {label}" for label in others.values())
    print(f"| seed | (θ0, h0) | (θ0, h) | (θ, h0) | (θ, h) | {differences_from} |")
    print("|---" * 8 + "|")
    for result in results(name):
        pairs = result["pairs"]
        cells = [f"{100 * pairs[name]['mean']:.1f}" for name in ("theta0_h0", "theta0_h")]
        cells += [f"{100 * pairs['theta_h0']['mean']:.1f}", _interval(pairs["theta_h"])]
        differences = {(d["a"], d["b"]): d for d in result["differences"]}
        cells += [_interval(differences["theta_h", other]) for other in others]
        print(f"| {result['seed']} | {' | '.join(cells)} |")


def print_moved(name: str) -> None:
    """Print each behaviour metric of the four pairs: mean over seeds, lowest and highest.

    Metrics that are rates of two things together are told given the second one, too.
    """
    print(f"| metric | {' | '.join(PAIR_LABELS.values())} |")
    print("|---|---|---|---|---|")
    pairs = [result["pairs"] for result in results(name)]
    for metric in pairs[0]["theta_h"]["metrics"] if pairs else ():
        rows = [(metric, "")]
        if metric in GIVEN:
            rows.append((metric, GIVEN[metric]))
        for name, condition in rows:
            cells = [_range(_values(pairs, corner, name, condition)) for corner in PAIR_LABELS]
            print(f"| {name}{' given ' if condition else ''}{condition} | {' | '.join(cells)} |")


def _values(pairs: list[dict[str, Any]], corner: str, metric: str, condition: str) -> list[float]:
    """Return a metric of one corner by seed, divided by its condition's where that was ever met."""
    found = [each[corner]["metrics"] for each in pairs]
    if not condition:
        return [metrics[metric] for metrics in found]
    return [metrics[metric] / metrics[condition] for metrics in found if metrics[condition]]


def _range(values: list[float]) -> str:
    if not values:
        return "-"
    mean = sum(values) / len(values)
    return f"{mean:.2f} ({min(values):.2f} to {max(values):.2f})"


def _interval(value: dict[str, float]) -> str:
    return f"{100 * value['mean']:.1f} ({100 * value['low']:.1f} to {100 * value['high']:.1f})"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["plan", "run", "table", "moved"])
    parser.add_argument("domain", choices=DOMAINS)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    options = parser.parse_args()
    if options.command == "plan":
        write_plan(options.domain)
    elif options.command == "run":
        run_seed(options.domain, options.seed)
    elif options.command == "table":
        print_table(options.domain)
    else:
        print_moved(options.domain)


if __name__ == "__main__":
    main()
