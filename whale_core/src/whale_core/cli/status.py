"""Say how far a run is, from another terminal, without disturbing it.

Reads what the run has written; takes no lock and changes nothing. Without RUN the runs in ./runs
are listed, one a line.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from whale_core.evidence.alarms import Alarm
    from whale_core.run.status import Position, Status

EXAMPLES = """\
  whale status
  whale status runs/default-20260101-120000
  whale status runs/default-20260101-120000 --watch
  whale status runs/default-20260101-120000 --json
"""

RUNS = Path("runs")
WATCH_SECONDS = 2.0
LIVE = ("starting", "running", "unknown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale status``."""
    parser.add_argument(
        "run", nargs="?", type=Path, metavar="RUN", help="the run's folder (default: list ./runs)"
    )
    parser.add_argument("--json", action="store_true", help="print the status as JSON")
    parser.add_argument(
        "--watch", action="store_true", help="show it again as it changes, until the run ends"
    )


def execute(options: argparse.Namespace) -> None:
    """Read and print."""
    from whale_core.errors import InputError, RunFolderError
    from whale_core.run.status import list_runs, read_status

    if options.run is None:
        if options.watch:
            raise InputError("--watch needs the run's folder")
        _show_list(list_runs(RUNS), as_json=options.json)
        return
    if not options.run.is_dir():
        raise RunFolderError(f"no run folder at {options.run}")
    if options.watch:
        _watch(options.run, as_json=options.json)
    else:
        _show(read_status(options.run), as_json=options.json)


def _show_list(runs: list[Status], *, as_json: bool) -> None:
    from whale_core.cli.text import printable

    if as_json:
        import json

        print(json.dumps([run.as_json() for run in runs], indent=2, ensure_ascii=False))
        return
    if not runs:
        print(f"no runs in {RUNS}")
    width = max((len(Path(run.run).name) for run in runs), default=0)
    for run in runs:
        parts = [_state(run)]
        if run.position is not None:
            parts.append(_position(run.position))
        if run.spent:
            parts.append(f"{run.spent['rollouts']:.0f} rollouts")
        name = printable(Path(run.run).name)
        print(printable(f"{name:<{width}}  " + ", ".join(part for part in parts if part), 300))


def _show(status: Status, *, as_json: bool) -> None:
    alarms = _alarms(status)
    if as_json:
        import json

        told = {**status.as_json(), "alarms": [alarm.as_json() for alarm in alarms]}
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for line in lines_of(status):
        console.print(line, markup=False, soft_wrap=True)
    for alarm in alarms:
        console.print(f"alarm     {alarm.name}: {alarm.words}", markup=False, soft_wrap=True)
    if status.result is not None:
        from whale_core.cli.tables import print_result

        print_result(console, status.result)


def _alarms(status: Status) -> list[Alarm]:
    """Return the alarms on a run, from its stored rollouts: not read anew for each line of
    ``--watch``."""
    from whale_core.evidence.alarms import alarms_of
    from whale_core.run.reader import StoredRun

    if status.state == "starting":
        return []
    return alarms_of(StoredRun.open(Path(status.run)))


def _watch(run: Path, *, as_json: bool) -> None:
    """Show the status until the run is no longer running; Ctrl-C ends the watching alone."""
    import time

    from whale_core.run.status import read_status

    status = read_status(run)
    try:
        with _screen(as_json) as draw:
            while status.state in LIVE:
                draw(status)
                time.sleep(WATCH_SECONDS)
                status = read_status(run)
    except KeyboardInterrupt:
        return
    _show(status, as_json=as_json)


def _screen(as_json: bool) -> Any:
    """Return a context that draws: in place on a terminal, else whenever something changed."""
    from contextlib import contextmanager

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)

    @contextmanager
    def screen() -> Any:
        if console.is_terminal and not as_json:
            with Live(console=console, transient=True, auto_refresh=False) as live:
                yield lambda status: live.update(Text("\n".join(lines_of(status))), refresh=True)
            return
        shown: list[tuple[Any, ...]] = []

        def draw(status: Status) -> None:
            now = (status.state, status.position, tuple(status.spent.values()))
            if shown[-1:] != [now]:
                shown[:] = [now]
                _line(status, as_json)

        yield draw

    return screen()


def _line(status: Status, as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps(status.as_json(), ensure_ascii=False), flush=True)
        return
    where = _position(status.position) if status.position is not None else ""
    rollouts = f"{status.spent.get('rollouts', 0):.0f} rollouts"
    print(", ".join(part for part in (_state(status), where, rollouts) if part), flush=True)


def lines_of(status: Status) -> list[str]:
    """Return the status as plain lines, what a model wrote made printable."""
    return [f"{label:<9} {value}" for label, value in _facts(status) if value]


def _facts(status: Status) -> Iterable[tuple[str, str]]:
    from whale_core.cli.text import duration, percent, printable, sparkline

    yield "run", printable(status.run, 300)
    yield "state", _state(status)
    if status.state in ("stopped", "killed"):
        yield "go on", f"whale resume {printable(status.run, 300)}"
    if status.position is not None:
        yield "phase", _position(status.position)
    if status.signals:
        yield "signal", f"{percent(status.signals[-1])}  {sparkline(status.signals)}"
    if status.selection:
        yield "selection", " → ".join(percent(mean) for mean in status.selection)
    if status.harness:
        yield "harness", printable(status.harness, 80)
    if status.spent:
        yield "spent", _spent(status)
    left = f", about {duration(status.left_seconds)} left" if status.left_seconds else ""
    if status.state != "starting":
        yield "time", f"{duration(status.seconds)}{left}"
        yield "journal", f"last line {duration(status.idle_seconds)} ago"
    for notice in status.notices:
        yield "notice", printable(notice, 300)


def _state(status: Status) -> str:
    from whale_core.cli.text import printable

    pid = f" (process {status.pid})" if status.pid else ""
    reason = f": {printable(status.reason, 300)}" if status.reason else ""
    return f"{status.state}{pid}{reason}"


def _position(position: Position) -> str:
    from whale_core.cli.text import plural

    of = f" of {position.phases}" if position.phases is not None else ""
    where = f"phase {position.phase}{of}: {position.kind or 'beginning'}"
    if position.kind in ("weights", "harness"):
        unit = "step" if position.kind == "weights" else "iteration"
        planned = f" of {position.planned}" if position.planned is not None else ""
        done = f"{position.done}{planned} {unit}s" if planned else plural(position.done, unit)
        where = f"cycle {position.cycle}, {where}, {done} done"
    since = ", ".join(f"{count} {purpose}" for purpose, count in position.since.items())
    return f"{where}, then {since} rollouts" if since else where


def _spent(status: Status) -> str:
    from whale_core.cli.text import count

    def of(name: str, unit: str) -> str:
        cap = status.caps.get(name)
        most = f" of at most {cap:g}" if cap else ""
        return f"{unit}{most}"

    spent, caps = status.spent, status.caps
    planned = f" of {count(status.planned_rollouts)} planned" if status.planned_rollouts else ""
    parts = [
        count(int(spent["rollouts"])) + planned + of("rollouts", " rollouts"),
        count(int(spent["tokens"])) + of("tokens", " tokens"),
    ]
    if spent["usd"] or caps.get("usd"):
        parts.append(f"{spent['usd']:.2f}" + of("usd", " USD"))
    if caps.get("seconds"):
        parts.append(f"at most {caps['seconds']:g} seconds")
    if spent["not_scored"]:
        parts.append(f"{spent['not_scored']:.0f} not scored")
    return ", ".join(parts)
