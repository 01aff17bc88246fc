"""Watch one live episode of a harness, turn by turn as it happens.

HARNESS is a .py file, a base harness of the domain, or (with --run) a harness of a run. The model
is the plugin set's, or the run's with its newest weights; with --replies you write its replies
yourself, and no model is loaded. Nothing is written down. The test split is sealed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from whale_core.cli.configuration import add_configuration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from whale_core.config import Resolved
    from whale_core.plugins.manager import Plugins
    from whale_core.records import Example, Trajectory
    from whale_core.roles import Domain, Harness, RolloutEngine
    from whale_core.rollout.episode import Job
    from whale_core.rollout.executor import RolloutExecutor
    from whale_core.run.reader import StoredRun
    from whale_core.run.task import Task

EXAMPLES = """\
  whale harness try mine.py --plugin-set default
  whale harness try strong --plugin-set default --split weight --draw 3 domain=math
  whale harness try h0003 --run runs/default-20260101-120000 --example harness-0017
  whale harness try h0003 --run RUN --checkpoint initial
  whale harness try mine.py --plugin-set smoke --replies -     # you are the model
  printf 'a\\n---\\ne\\n' | whale harness try mine.py --plugin-set smoke --replies -
"""

INITIAL = "initial"
SPLITS = ("weight", "harness", "selection")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("harness", metavar="HARNESS", help="a .py file or a harness's name")
    parser.add_argument("--plugin-set", metavar="NAME", help="see: whale plugins")
    parser.add_argument(
        "--run", metavar="RUN", help="take settings, harness and weights from a run"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help=f"weights: a folder, a name in the run's weights/, or '{INITIAL}' for the first model",
    )
    parser.add_argument("--split", default="harness", metavar="NAME", help=", ".join(SPLITS))
    parser.add_argument("--example", metavar="ID", help="this example (default: the first)")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="another random draw")
    parser.add_argument(
        "--replies",
        metavar="FILE",
        help="replies in the model's place, a line --- between two; - reads standard input",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the episode as JSON; the turns go to stderr"
    )
    add_configuration(parser)


def execute(options: argparse.Namespace) -> None:
    """Play the episode."""
    import asyncio
    import sys
    from functools import partial

    from whale_core.cli.harness.console import open_console, print_json
    from whale_core.cli.harness.replies import open_replies
    from whale_core.cli.harness.transcript import Transcript
    from whale_core.plugins.manager import load_plugins
    from whale_core.rollout.executor import RolloutExecutor
    from whale_core.rollout.stand_ins import HandPolicy
    from whale_core.run.stored import trajectory_json
    from whale_core.run.task import build_task

    plugins = load_plugins()
    resolved, run = _configuration(options, plugins)
    task = build_task(resolved, plugins)
    example = chosen_example(task.domain, options.split, options.example)
    job = _job(options, resolved, run, task.domain, example)
    console = open_console(sys.stderr if options.json else None)
    transcript = Transcript(console)
    kind, why = _jail(resolved, run)
    if why:
        console.print(f"note: {why}", markup=False, soft_wrap=True)
    checkpoint = options.checkpoint or _newest(run)
    model = "your replies" if options.replies is not None else f"weights {checkpoint}"
    say = f"{job.harness.name} on example {example.id}, draw {job.key.draw}, {model}"
    console.print(say, markup=False, soft_wrap=True)
    executor = RolloutExecutor(task.domain, task.verifier, kind, transcript)
    if options.replies is not None:
        with open_replies(options.replies) as replies:
            by_hand = partial(executor.run, [job], HandPolicy(replies.next))
            made = asyncio.run(_play(task, by_hand))
    else:
        live = partial(_live, executor, job, plugins, resolved, task.domain, run, checkpoint)
        made = asyncio.run(_play(task, live))
    transcript.end(made)
    if options.json:
        print_json(trajectory_json(made))


def chosen_example(domain: Domain, split: str, wanted: str | None) -> Example:
    """Return an example of a split that may be seen: the one called ``wanted``, or the first.

    Raises:
        InputError: there is no such split or example, or the split is sealed.
    """
    from whale_core.errors import InputError
    from whale_core.plugins.suggest import did_you_mean

    if split == "test":
        domain.split(split)  # refuses
    if split not in SPLITS:
        raise InputError(f"no split '{split}'{did_you_mean(split, SPLITS)}")
    examples = domain.split(split)
    if not examples:
        raise InputError(f"domain {domain.name}: the split {split} has no examples")
    if wanted is None:
        return examples[0]
    for example in examples:
        if example.id == wanted:
            return example
    near = did_you_mean(wanted, [example.id for example in examples])
    near = near if near.startswith(", ") else f" ({len(examples)} there: {examples[0].id}, …)"
    raise InputError(f"the split {split} has no example '{wanted}'{near}")


def _configuration(
    options: argparse.Namespace, plugins: Plugins
) -> tuple[Resolved, StoredRun | None]:
    """Return the settings, and the run they are from if it is one."""
    from whale_core.config import read_config, resolve
    from whale_core.errors import InputError
    from whale_core.run.reader import StoredRun, find_run

    if (options.run is None) == (options.plugin_set is None):
        raise InputError("give --plugin-set NAME, or --run RUN for the settings of a run")
    if options.replies is not None and options.checkpoint is not None:
        raise InputError("--replies stands in the model's place: --checkpoint has no use there")
    if options.run is None:
        return resolve(plugins, options.plugin_set, options.config, options.settings), None
    if options.config or options.settings:
        raise InputError("with --run the settings are the run's own: use --plugin-set for others")
    run = StoredRun.open(find_run(options.run))
    return read_config(plugins, run.path / "config.yaml"), run


def _job(
    options: argparse.Namespace,
    resolved: Resolved,
    run: StoredRun | None,
    domain: Domain,
    example: Example,
) -> Job:
    from whale_core.keys import DrawKey
    from whale_core.rollout.episode import Job

    harness = _harness(options.harness, run, domain)
    key = DrawKey(resolved.core.seed, "try", 0, 0, example.id, options.draw)
    return Job(example, harness, key)


def _harness(name: str, run: StoredRun | None, domain: Domain) -> Harness:
    from whale_core.config.settings import HARNESS_FILE
    from whale_core.run.parts import base_harness

    if run is None or name.endswith(HARNESS_FILE) or name in domain.harnesses:
        return base_harness(domain, name)
    return run.harness(name).harness


def _jail(resolved: Resolved, run: StoredRun | None) -> tuple[str, str]:
    """Return the jail's kind: the run's own, since its harnesses may be a model's."""
    from whale_core.jail import probe
    from whale_core.run.parts import choose_jail

    if run is None:
        return choose_jail(resolved.core.rollout.jail, None)
    return probe(run.made_with().jail_kind), ""


def _newest(run: StoredRun | None) -> str:
    """Return the name of the weights that the run's last finished phase ended with."""
    ends = run.ends() if run is not None else []
    return (ends[-1].checkpoint if ends else None) or INITIAL


async def _play(task: Task, episode: Callable[[], Awaitable[list[Trajectory]]]) -> Trajectory:
    """Return the one trajectory of ``episode``, once what judges it was found to be there."""
    from whale_core.run.services import close_each, probe_service

    try:
        await probe_service(task.unsealed)
        await probe_service(task.verifier)
        (made,) = await episode()
        return made
    finally:
        await close_each(task.unsealed, task.verifier)


async def _live(
    executor: RolloutExecutor,
    job: Job,
    plugins: Plugins,
    resolved: Resolved,
    domain: Domain,
    run: StoredRun | None,
    checkpoint: str,
) -> list[Trajectory]:
    """Play the job with the configured engine and the weights ``checkpoint``."""
    from whale_core.run.parts import policy_of, sampling_of
    from whale_core.run.services import probe_endpoint
    from whale_core.run.task import make_part

    engine = make_part("engine", resolved, plugins, domain)
    settings = resolved.core.rollout
    try:
        await probe_endpoint(engine, sampling_of(settings))
        await _load(engine, run, job.harness, checkpoint)
        return await executor.run([job], policy_of(engine, settings))
    finally:
        await engine.close()


async def _load(
    engine: RolloutEngine, run: StoredRun | None, harness: Harness, checkpoint: str
) -> None:
    """Serve the weights called ``checkpoint``: of the run, of a folder, or the first model.

    Raises:
        InputError: there are none of that name.
        RunFolderError: the run's weights are not what it recorded.
    """
    from whale_core.errors import InputError
    from whale_core.plugins.suggest import did_you_mean
    from whale_core.run.evaluation import Pair, load_pair

    kept = {} if run is None else run.kept_weights()
    name = None if checkpoint == INITIAL else checkpoint
    if run is not None and name in kept:
        await load_pair(engine, run.path, Pair(harness, name, kept[name]))
    elif checkpoint == INITIAL:
        await engine.load(None)
    elif Path(checkpoint).is_dir():
        await engine.load(Path(checkpoint))
    else:
        near = did_you_mean(checkpoint, {INITIAL, *filter(None, kept)})
        raise InputError(f"--checkpoint {checkpoint}: no such folder of weights{near}")
