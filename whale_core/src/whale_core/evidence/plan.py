"""The plan of a comparison: what is to be run, written down before anything is.

A later call with other settings is refused: runs of one comparison differ in nothing but the
conditions and seeds that the plan names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve, field, frozen

from whale_core import __version__
from whale_core.config import resolve
from whale_core.errors import InputError, RunFolderError
from whale_core.evidence.budget import Budget
from whale_core.plugins.manager import Plugins
from whale_core.records import Json
from whale_core.run.folder import write_json

PLAN = "plan.json"
FORMAT = 1


@frozen
class PlannedCondition:
    """A plugin set under the comparison's settings. ``rollouts`` are what a run of it will make, as
    ``whale plan`` counts them; empty until they were counted."""

    name: str
    settings_hash: str
    rollouts: dict[str, Json] = field(factory=dict, eq=False)


@frozen
class PlannedRun:
    """One run of a comparison: its number (from 1), folder and arguments for ``whale run``."""

    number: int
    condition: PlannedCondition
    seed: int
    folder: Path
    arguments: tuple[str, ...]


@frozen
class ComparisonPlan:
    """Conditions by seeds under common settings, and the budget of every run."""

    conditions: tuple[PlannedCondition, ...]
    seeds: tuple[int, ...]
    settings: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    budget: Budget | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """What every ``whale run`` and ``whale plan`` is given besides the plugin set."""
        return (*(word for file in self.files for word in ("--config", file)), *self.settings)

    def runs(self, folder: Path) -> list[PlannedRun]:
        """Return all runs, seed by seed, so that a comparison that is cut short is balanced."""
        cap = () if self.budget is None else (self.budget.cap,)
        pairs = [(seed, condition) for seed in self.seeds for condition in self.conditions]
        return [
            PlannedRun(
                number,
                condition,
                seed,
                folder / f"{condition.name}-{seed}",
                ("--plugin-set", condition.name, *self.arguments, *cap, "--seed", str(seed)),
            )
            for number, (seed, condition) in enumerate(pairs, start=1)
        ]

    def as_json(self) -> dict[str, Json]:
        """Return the plan as it is stored."""
        return {
            "format": FORMAT,
            "whale": __version__,
            "conditions": [
                {"name": c.name, "settings_hash": c.settings_hash, "rollouts": c.rollouts}
                for c in self.conditions
            ],
            "seeds": list(self.seeds),
            "settings": list(self.settings),
            "files": list(self.files),
            "budget": None
            if self.budget is None
            else {"unit": self.budget.unit, "amount": self.budget.amount},
        }

    @classmethod
    def read(cls, folder: Path) -> ComparisonPlan | None:
        """Return the plan that stands in ``folder``; None if there is none.

        Raises:
            RunFolderError: it cannot be read.
        """
        path = folder / PLAN
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["format"] != FORMAT:
                raise ValueError(f"its format is {stored['format']}, this version reads {FORMAT}")
            return cls(
                tuple(PlannedCondition(**each) for each in stored["conditions"]),
                tuple(stored["seeds"]),
                tuple(stored["settings"]),
                tuple(stored["files"]),
                None if stored["budget"] is None else Budget(**stored["budget"]),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise RunFolderError(f"{path} is not the plan of a comparison: {error}") from error

    def write(self, folder: Path) -> None:
        """Store the plan in ``folder``."""
        write_json(folder / PLAN, self.as_json())

    def counted(self, name: str, rollouts: dict[str, Json]) -> ComparisonPlan:
        """Return the plan with what a run of one condition will make."""
        known = tuple(
            evolve(c, rollouts=rollouts) if c.name == name else c for c in self.conditions
        )
        return evolve(self, conditions=known)

    def differs(self, other: ComparisonPlan) -> str:
        """Say what is not the same in ``other``; empty where nothing is."""
        for key in ("seeds", "settings", "files", "budget"):
            mine, theirs = self.as_json()[key], other.as_json()[key]
            if mine != theirs:
                return f"{key} {json.dumps(theirs)}, not {json.dumps(mine)}"
        names = [c.name for c in self.conditions], [c.name for c in other.conditions]
        if names[0] != names[1]:
            return f"conditions {' '.join(names[1])}, not {' '.join(names[0])}"
        for mine_, theirs_ in zip(self.conditions, other.conditions, strict=True):
            if mine_ != theirs_:
                return f"other settings in {mine_.name} (hash {theirs_.settings_hash})"
        return ""


def plan_comparison(
    plugins: Plugins,
    sets: Sequence[str],
    seeds: Sequence[int],
    settings: Sequence[str] = (),
    files: Sequence[Path] = (),
    budget: Budget | None = None,
) -> ComparisonPlan:
    """Return the plan of every set by every seed; all settings are checked.

    Raises:
        InputError: a set, seed or setting is wrong, or one stands there twice.
        PluginError: a plugin cannot be used.
    """
    for what, names in (("condition", sets), ("seed", seeds)):
        for name in names:
            if list(names).count(name) > 1:
                raise InputError(f"{what} {name} is named twice")
    for setting in settings:
        key = setting.partition("=")[0]
        if key == "seed":
            raise InputError(f"{setting}: a comparison's seeds are given as --seeds")
        if budget is not None and key == f"cap.{budget.unit}":
            raise InputError(f"{setting}: --budget sets it")
    conditions = [
        PlannedCondition(name, resolve(plugins, name, files, settings).settings_hash())
        for name in sets
    ]
    return ComparisonPlan(
        tuple(conditions),
        tuple(seeds),
        tuple(settings),
        tuple(str(file.absolute()) for file in files),
        budget,
    )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read ``0,1,2`` or ``0..4`` (both ends included). Raises ``InputError`` for anything else."""
    seeds: list[int] = []
    for part in text.split(","):
        span = re.fullmatch(r"\s*(\d+)(?:\.\.(\d+))?\s*", part)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
        if first > last or last - first > 10_000:
            raise InputError(f"--seeds {text}: give whole numbers as 0,1,2 or 0..4")
        seeds += range(first, last + 1)
    return tuple(seeds)
