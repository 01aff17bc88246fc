"""A run's folder and its calls of the hooks, without a run; and what TensorBoard has of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path

from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
from whale_core.plugins.manager import Plugins
from whale_core.roles import PhaseResult, WeightStep

PHASE = PhaseInfo(1, 1, "weights", "h", "w", planned=4)


class Told:
    """What is told of a run in ``folder`` in one process; lines are committed before."""

    def __init__(self, folder: Path, *observers: object) -> None:
        self.folder = folder
        self.failed: list[tuple[str, str, str]] = []
        plugins = Plugins()
        for index, observer in enumerate(observers):
            plugins.observe(observer, f"observer {index}")
        self.hooks = plugins.hooks
        self.hooks.on_observer_error = lambda *told: self.failed.append((*told[:2], str(told[2])))
        if not folder.exists():
            folder.mkdir()
            self._add("journal.jsonl", event="run_started", run="0123456789abcdef", at_seconds=0.1)
        self.info = RunInfo(folder.name, folder, {"seed": 0})
        self.hooks.on_run_started(self.info)

    def steps(self, numbers: Iterable[int]) -> None:
        """Tell of these weight steps: 8 rollouts, 100 tokens and 2 seconds each."""
        for number in numbers:
            self._add("ledger.jsonl", rollouts=8, prompt_tokens=60, sampled_tokens=40)
            self._add("journal.jsonl", event="weight_step", step=number, at_seconds=2.0 * number)
            step = WeightStep(number, 1, 8, 8, 2, 0.1 * number, 1, loss=1.0 / number)
            self.hooks.on_weight_step(PHASE, step)

    def end(self) -> None:
        """Tell of the end of a phase and of the run."""
        score = Evaluation("theta_h", "test", "h", "w", 8, 1, 0.5, 0.2, 0.8, {"format": 1.0})
        self.hooks.on_evaluation(score)
        self.hooks.after_phase(PHASE, PhaseResult("weights", 1, 4, (0.1,) * 4))
        self.hooks.on_run_finished(self.info, {})

    def _add(self, name: str, **line: object) -> None:
        with (self.folder / name).open("a") as file:
            file.write(json.dumps(line) + "\n")


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return steps and values by name, from all event files of ``folder`` in their order."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.glob("events.*")):
        data = path.read_bytes()
        while data:  # length, its checksum, a record, its checksum
            (length,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found
