"""The runs of a comparison's plan as conditions, those without a result among them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from whale_core.errors import RunFolderError
from whale_core.evidence.analysis import Condition
from whale_core.evidence.collect import RunRecord
from whale_core.evidence.execute import Ended
from whale_core.evidence.kept import keep, kept
from whale_core.evidence.plan import ComparisonPlan, PlannedRun


def conditions_of(
    plan: ComparisonPlan, folder: Path, ended: Mapping[int, Ended]
) -> list[Condition]:
    """Return the plan's conditions with the records of their runs in ``folder``, and keep those of
    finished runs.

    ``ended`` says by number how the work on runs ended.

    Raises:
        RunFolderError: a folder or a record is of a run of other settings than the plan's.
    """
    runs = plan.runs(folder)
    return [
        Condition(
            name=condition.name,
            settings_hash=condition.settings_hash,
            runs=tuple(
                _record(run, ended.get(run.number)) for run in runs if run.condition == condition
            ),
            planned=condition.rollouts or None,
        )
        for condition in plan.conditions
    ]


def _record(run: PlannedRun, ended: Ended | None) -> RunRecord:
    try:
        record = kept(run.folder) or keep(run.folder)
    except RunFolderError as error:
        return RunRecord(
            run=run.folder.name,
            plugin_set=run.condition.name,
            seed=run.seed,
            settings_hash=run.condition.settings_hash,
            state="failed",
            reason=ended.reason if ended is not None and ended.code else str(error),
        )
    if record.settings_hash != run.condition.settings_hash or record.seed != run.seed:
        raise RunFolderError(
            f"{run.folder}: its settings or its seed are not those of the comparison's plan"
        )
    if record.finished or ended is None or ended.code in (0, 5):
        return record
    return evolve(record, state="failed", reason=ended.reason)
