"""What cells of a matrix cost, kept beside their rollouts: a stop loses nothing that was paid."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from attrs import define, field

from whale_core.evidence.lines import append_lines, read_lines
from whale_core.records import Json
from whale_core.run.ledger import Charge, Ledger

NAME = "ledger.jsonl"


@define
class CellLedger(Ledger):
    """Sums what the cells that were taken up ever cost; ``now`` what this command spent.

    Each charge is on the disk, with the ``cell`` it is for (empty: for none), before it counts.
    """

    folder: Path
    cell: str = ""
    now: Ledger = field(factory=Ledger)

    def take_up(self, cells: Collection[str]) -> None:
        """Add what earlier commands paid for these cells, given by the hashes of their identities;
        each cell once."""
        for line in read_lines(self.folder / NAME):
            if line.get("cell") in cells:
                self._add(line)

    def charge(self, charge: Charge) -> dict[str, Json]:
        """Write the charge down, add it, and return its line.

        Raises:
            RunFolderError: the cache cannot be written.
        """
        line = self.now.charge(charge)
        append_lines(self.folder / NAME, [json.dumps({**line, "cell": self.cell})])
        self._add(line)
        return line
