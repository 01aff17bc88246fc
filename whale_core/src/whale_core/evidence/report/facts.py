"""All that a report says of one run, read from its folder; the test split's rollouts stay sealed.

A run that still works is read as it is, without disturbing it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from attrs import field, frozen

from whale_core.errors import RunFolderError
from whale_core.records import Json
from whale_core.run.archive import ArchiveEntry
from whale_core.run.folder import LEDGER
from whale_core.run.journal import Entry
from whale_core.run.reader import MANIFEST, StoredRun
from whale_core.run.restore import PhaseEnd
from whale_core.run.status import Status, read_status

ANSWERS = "answers.jsonl"
ASKED = ("proposal", "load_check", "null_check")  # the blocks that answers.jsonl answers, in order


@frozen
class ReportedRun:
    """A run as its report sees it.

    ``proposals`` has, by phase and iteration, what the proposer answered. ``accepted`` has by
    harness content id the phases at whose end it stood, ``weights`` a name for each weights id.
    """

    run: StoredRun
    status: Status
    settings: Mapping[str, Json] = field(repr=False)
    settings_text: str = field(repr=False)
    manifest: Mapping[str, Json] = field(repr=False)
    ends: Sequence[PhaseEnd] = field(repr=False)
    entries: Sequence[ArchiveEntry] = field(repr=False)
    ledger: Sequence[Mapping[str, Json]] = field(repr=False)
    proposals: Mapping[tuple[int, int], Mapping[str, Json]] = field(repr=False)
    accepted: Mapping[str, Sequence[int]] = field(repr=False)
    weights: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, folder: Path) -> ReportedRun:
        """Read the run in ``folder``.

        Raises:
            RunFolderError: it is no run folder, it is damaged, or it may not be read.
        """
        status = read_status(folder)
        try:
            run = StoredRun.open(folder)
            text = (folder / "config.yaml").read_text(encoding="utf-8")
            settings = yaml.safe_load(text)
            manifest = json.loads((folder / MANIFEST).read_bytes())
            return cls(
                run=run,
                status=status,
                settings=settings if isinstance(settings, dict) else {},
                settings_text=text,
                manifest=manifest,
                ends=run.ends(),
                entries=run.harnesses(),
                ledger=[json.loads(line) for line in run.committed(LEDGER)],
                proposals=_proposals(run),
                accepted=run.accepted_in(),
                weights=run.weights_labels(),
            )
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
            raise RunFolderError(
                f"{folder} cannot be read: a file of it is not as a run writes it "
                f"({type(error).__name__}: {error})"
            ) from error

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.run.path.resolve().name

    @property
    def result(self) -> Mapping[str, Json] | None:
        """The run's result, None while it has none."""
        return self.status.result

    def events(self, *names: str) -> list[Entry]:
        """Return the committed blocks of these kinds, in order."""
        return [entry for entry in self.run.entries if entry["event"] in names]

    def setting(self, path: str, default: Json = None) -> Json:
        """Return a setting by its dotted path."""
        value: Json = self.settings
        for part in path.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    def again(self, settings: str) -> str:
        """Return the command that makes the run anew from the file of its stored settings."""
        return shlex.join(
            ["whale", "run", "--plugin-set", str(self.setting("plugin_set", "")),
             "--config", settings, "--run-dir", "runs/again"]
        )  # fmt: skip

    def plugin(self, role: str) -> str:
        """Return the name of the plugin that plays a role, "" if it is not known."""
        return str(self.setting(f"{role}.name", "") or "")

    def label(self, weights_id: str) -> str:
        """Return a short name of weights, as ``θ0`` or ``step 6``."""
        return self.weights.get(weights_id, weights_id[:8])

    def harness_label(self, harness_id: str) -> str:
        """Return the archive's name of a harness content id, or the start of the id."""
        for entry in self.entries:
            if entry.harness.id == harness_id:
                return entry.id
        return harness_id[:8]


def _proposals(run: StoredRun) -> dict[tuple[int, int], Mapping[str, Json]]:
    """Return the answers to ``proposal`` blocks; the n-th block asked is answered by line n."""
    asked = [entry for entry in run.entries if entry["event"] in ASKED]
    answers = list(run.committed(ANSWERS))
    found: dict[tuple[int, int], Mapping[str, Json]] = {}
    for entry, line in zip(asked, answers, strict=False):
        if entry["event"] == "proposal":
            answer = json.loads(line)
            if isinstance(answer, dict):
                found[int(entry["phase"]), int(entry["iteration"])] = answer
    return found
