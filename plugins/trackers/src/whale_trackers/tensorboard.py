"""TensorBoard: scalars, through any ``SummaryWriter``, or into event files of our own.

Those are written record by record: what a ``SummaryWriter`` of tensorboardX still has in its queue
would be lost if the run is killed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whale_core.plugins.events import RunInfo

FOLDER = "tensorboard"


class EventFile:
    """A new event file in ``folder``."""

    def __init__(self, folder: Path) -> None:
        """Begin the file."""
        from tensorboardX.event_file_writer import EventsWriter

        # Its name has the second of its making: without more, it could be that of the last one.
        number = sum(1 for _ in folder.glob("events.*"))
        folder.mkdir(exist_ok=True)
        self._file = EventsWriter(str(folder / "events"), f".{number}")

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Append a scalar."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        event = Event(wall_time=time.time(), step=step, summary=scalar(name, value))
        self._file.write_event(event)

    def flush(self) -> None:
        """Hand what was appended to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()


class TensorBoardWriter:
    """Writes to ``host``, or to event files in the run's folder, a new one in each process."""

    def __init__(self, host: Any = None) -> None:
        """Take the writer that the program has opened, if it has."""
        self._host = host
        self._own: EventFile | None = None

    def begin(self, run: RunInfo, axis: str) -> None:
        """Open an event file, unless the program gave a writer."""
        self.end()
        if self._host is None:
            self._own = EventFile(run.folder / FOLDER)

    def write(self, values: Mapping[str, float], axis: str, x: float) -> None:
        """Add a scalar for each number."""
        writer = self._host if self._own is None else self._own
        for name, value in values.items():
            writer.add_scalar(name, value, round(x))
        writer.flush()

    def end(self) -> None:
        """Close the event file."""
        if self._own is not None:
            self._own.close()
            self._own = None
