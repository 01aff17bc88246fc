"""Say which coordinate holds a pair back: the harness, the weights, both, or neither yet.

From one state a short search and a few weight steps are made with the set's (or the run's) own
plugins; the pairs are then measured on held-out examples of the selection split, on common draws.
With RUN the state is the one in which it stands (--plugin-set and settings are then its own);
nothing is written into it, and the test split stays sealed.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from whale_core.cli.configuration import add_configuration

if TYPE_CHECKING:
    from whale_core.evidence.probed import Probed

EXAMPLES = """\
  whale diagnose --plugin-set smoke
  whale diagnose --plugin-set default domain=math --rollouts 600
  whale diagnose runs/default-20260101-120000 --examples 96 --draws 4
  whale diagnose --plugin-set smoke --json
"""

ROWS = {
    "theta_h": "(θ, h)",
    "theta_h1": "(θ, h1)",
    "theta1_h": "(θ1, h)",
    "theta1_h1": "(θ1, h1)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale diagnose``."""
    parser.add_argument("--plugin-set", metavar="NAME", help="see: whale plugins")
    parser.add_argument("--seed", type=int, metavar="N", help="the same as seed=N")
    parser.add_argument(
        "--rollouts",
        type=int,
        metavar="N",
        help="about so many for each coordinate's probe (default: three steps or iterations)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        metavar="N",
        help="held-out examples each pair is measured on (default: selection.examples)",
    )
    parser.add_argument(
        "--draws", type=int, metavar="N", help="rollouts of each (default: selection.draws)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the diagnosis as JSON; progress goes to stderr"
    )
    add_configuration(parser)


def execute(options: argparse.Namespace) -> None:
    """Probe and print."""
    import json
    import sys
    from functools import partial

    from whale_core.cli.session import RunConsole, watched
    from whale_core.config import read_config, resolve
    from whale_core.errors import InputError
    from whale_core.evidence.probe import probe_run, probe_set
    from whale_core.evidence.probe_size import Budget
    from whale_core.plugins.manager import load_plugins
    from whale_core.run.reader import StoredRun, find_run

    budget = Budget(options.rollouts, options.examples, options.draws)
    plugins = load_plugins()
    if options.plugin_set is not None:
        settings = list(options.settings)
        if options.seed is not None:
            settings.append(f"seed={options.seed}")
        resolved = resolve(plugins, options.plugin_set, options.config, settings)
        work = partial(probe_set, resolved, plugins, budget)
    elif len(options.settings) == 1 and "=" not in options.settings[0]:
        if options.config or options.seed is not None:
            raise InputError("with RUN the settings are the run's own: use --plugin-set for others")
        run = StoredRun.open(find_run(options.settings[0]))
        resolved = read_config(plugins, run.path / "config.yaml")
        work = partial(probe_run, run, resolved, plugins, budget)
    else:
        raise InputError("give --plugin-set NAME (and settings), or one RUN")
    console = RunConsole(file=sys.stderr if options.json else sys.stdout, highlight=False)
    with watched(plugins, console):
        probed = work()
    if options.json:
        print(json.dumps(probed.as_json(), indent=2, ensure_ascii=False))
        return
    for line in lines_of(probed):
        console.print(line, markup=False, soft_wrap=True)


def lines_of(probed: Probed) -> list[str]:
    """Return the diagnosis as plain lines: the verdict first, then what it stands on."""
    from whale_core.cli.text import count, duration, percent, plural, printable

    found, training, search = probed.diagnosis, probed.training, probed.search
    also = ", starved" if found.starved and found.verdict != "starved" else ""
    lines = [
        f"diagnosis  {found.verdict}{also}",
        f"because    {found.rule}",
        f"next       {found.advice}",
    ]
    for name, label in ROWS.items():
        score = probed.pairs[name].interval
        lines.append(
            f"{label:<10} {percent(score.mean)} ({100 * score.low:.1f} to {100 * score.high:.1f})"
        )
    some = next(iter(probed.pairs.values()))
    lines += [
        f"measured   on selection, {plural(len(some.means), 'example')} × {some.draws} draws",
        f"search     {plural(search.iterations, 'iteration')}, "
        f"{plural(search.candidates, 'candidate')}, {search.rejected} rejected; accepted "
        f"{printable(search.accepted, 40)}: {printable(search.reason, 160)}",
        f"training   {plural(training.steps, 'step')}, {training.accepted} of {training.scored} "
        f"accepted ({percent(training.acceptance)}), {plural(training.updates, 'update')}",
    ]
    costs = (
        ("search", search.cost),
        ("training", training.cost),
        ("measuring", probed.confirmation),
    )
    for label, cost in costs:
        tokens = cost.prompt_tokens + cost.sampled_tokens
        usd = f", {cost.usd:.2f} USD" if cost.usd else ""
        lines.append(
            f"{label:<10} {count(cost.rollouts)} rollouts, {count(tokens)} tokens{usd}, "
            f"{duration(cost.seconds)}"
        )
    return lines
