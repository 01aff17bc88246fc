"""A comparison as its report sees it: ``comparison.json`` as ``whale compare`` writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import field, frozen

from whale_core.errors import InputError
from whale_core.records import Json

FILE = "comparison.json"
SCHEMA = 2
SERIES = 8  # colours for conditions; those beyond share the last


@frozen
class Compared:
    """Conditions, their differences, and the runs; ``data`` is the whole file."""

    path: Path
    data: Mapping[str, Json] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Compared:
        """Read the comparison in the file ``path``.

        Raises:
            InputError: it cannot be read, or is no comparison that this version knows.
        """
        try:
            data = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        if not isinstance(data, dict) or "conditions" not in data or "runs" not in data:
            raise InputError(f"{path} is not a comparison: give the file that whale compare wrote")
        if data.get("schema") != SCHEMA:
            raise InputError(
                f"{path} has schema {data.get('schema')!r}, this version reads {SCHEMA}: write it "
                "again with whale compare"
            )
        return cls(path, data)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().parent.name

    @property
    def conditions(self) -> Sequence[Mapping[str, Json]]:
        """The conditions, the best first, those without a result last."""
        done = [each for each in self.data["conditions"] if each["mean"] is not None]
        rest = [each for each in self.data["conditions"] if each["mean"] is None]
        return [*sorted(done, key=lambda each: -each["mean"]), *rest]

    @property
    def runs(self) -> Sequence[Mapping[str, Json]]:
        """The runs in the order of the conditions, then by seed."""
        order = {each["name"]: index for index, each in enumerate(self.conditions)}
        return sorted(
            self.data["runs"], key=lambda run: (order.get(run["condition"], 0), run["seed"])
        )

    def runs_of(self, condition: str) -> list[Mapping[str, Json]]:
        """Return a condition's runs by seed."""
        return [run for run in self.runs if run["condition"] == condition]

    def colour(self, condition: str) -> str:
        """Return the class of a condition's colour: the order in the file, so that it stays."""
        names = [str(each["name"]) for each in self.data["conditions"]]
        return f"c-{min(names.index(condition), SERIES - 1)}"

    def anchor(self, run: Mapping[str, Json]) -> str:
        """Return the anchor of a run's section."""
        names = [str(each["name"]) for each in self.data["conditions"]]
        return f"run-{names.index(run['condition'])}-{int(run['seed'])}"

    @property
    def chance(self) -> Mapping[str, float]:
        """The chance levels, of the first run that tells them."""
        return next((run["chance"] for run in self.runs if run.get("chance")), {})


def find_comparison(name: str) -> Path | None:
    """Return the file of the comparison called ``name`` (the file, its folder, or the folder's name
    in ``runs/``); None if it is none."""
    for path in (Path(name), Path("runs") / name):
        if path.is_file():
            return path
        if (path / FILE).is_file():
            return path / FILE
    return None
