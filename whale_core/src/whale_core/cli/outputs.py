"""Two ways to draw a run: a live panel on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections import deque
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from whale_core.cli.progress import Progress
from whale_core.cli.text import count, duration, percent, sparkline
from whale_core.cli.view import LENGTH_UNITS

PLAIN_INTERVAL_S = 10.0
EVENTS_SHOWN = 6


class PlainOutput:
    """One line per event, and a line of progress at most every ten seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = 0.0

    def __enter__(self) -> PlainOutput:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def event(self, progress: Progress, line: str) -> None:
        """Print ``line`` after the time since the start."""
        self._last = progress.elapsed
        text = f"[{duration(progress.elapsed)}] {line}"
        self._console.print(text, markup=False, soft_wrap=True)

    def tick(self, progress: Progress) -> None:
        """Print how far the batch is, unless a line was printed a moment ago."""
        if progress.batch is None or progress.elapsed - self._last < PLAIN_INTERVAL_S:
            return
        batch = progress.batch
        line = f"{batch.purpose}: {batch.done} of {batch.total} rollouts, {_throughput(progress)}"
        if progress.time_left is not None:
            line += f", about {duration(progress.time_left)} left"
        self.event(progress, line)


class LiveOutput:
    """A panel that is redrawn in place; the last events stand below it."""

    def __init__(self, console: Console) -> None:
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._progress: Progress | None = None
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=2, transient=True
        )
        self._console = console

    def __enter__(self) -> LiveOutput:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, traceback)
        for line in self._events:
            self._console.print(line, markup=False)

    def event(self, progress: Progress, line: str) -> None:
        """Add ``line`` to the last events."""
        self._events.append(f"[{duration(progress.elapsed)}] {line}")
        self._progress = progress

    def tick(self, progress: Progress) -> None:
        """Nothing to do: the panel is redrawn on its own clock."""
        self._progress = progress

    def _draw(self) -> Panel | Text:
        if self._progress is None:
            return Text("starting …")
        return draw(self._progress, list(self._events))


def draw(progress: Progress, events: list[str]) -> Panel:
    """Return the panel for one moment of a run."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, value in _facts(progress):
        table.add_row(Text(label), Text(value))
    lines = [Text(event, style="dim", overflow="ellipsis", no_wrap=True) for event in events]
    return Panel(Group(table, Text(), *lines), title=Text(f"whale: {progress.name}"))


def _facts(progress: Progress) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    if phase := progress.phase:
        facts.append(("cycle", f"{phase.cycle}, phase {phase.number}: {phase.kind}"))
        planned = f" of {phase.planned}" if phase.planned else ""
        facts.append((f"{LENGTH_UNITS[phase.kind]}s done", f"{progress.position}{planned}"))
    if progress.rewards:
        latest = percent(progress.rewards[-1])
        facts.append(("training reward", f"{latest}  {sparkline(progress.rewards)}"))
    if progress.best is not None:
        facts.append(("archive's best", percent(progress.best)))
        facts.append(("accepted harness", progress.accepted))
    if batch := progress.batch:
        facts.append(("batch", f"{batch.purpose}, {batch.done} of {batch.total} rollouts"))
    facts.append(("sampled", _throughput(progress)))
    left = f", about {duration(progress.time_left)} left" if progress.time_left is not None else ""
    facts.append(("time", f"{duration(progress.elapsed)}{left}"))
    return facts


def _throughput(progress: Progress) -> str:
    rate = progress.tokens_per_second
    pace = f" ({rate:.0f}/s)" if rate is not None else ""
    return f"{count(progress.rollouts)} rollouts, {count(progress.sampled_tokens)} tokens{pace}"
