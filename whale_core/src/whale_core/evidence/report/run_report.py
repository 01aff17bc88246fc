"""The report of one run."""

from __future__ import annotations

from pathlib import Path

from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.page import FILE, Section, page, write_page
from whale_core.evidence.report.sections.behaviour import behaviour
from whale_core.evidence.report.sections.cost import cost
from whale_core.evidence.report.sections.curves import curves
from whale_core.evidence.report.sections.lineage import lineage
from whale_core.evidence.report.sections.pair import pair
from whale_core.evidence.report.sections.settings import settings
from whale_core.evidence.report.sections.summary import head, summary
from whale_core.evidence.report.sections.trajectories import trajectories
from whale_core.run.journal import JOURNAL

SECTIONS = (
    ("result", "Result in short", summary),
    ("pair", "The pair on the sealed test", pair),
    ("curves", "Curves", curves),
    ("behaviour", "Behaviour", behaviour),
    ("harness", "The harness", lineage),
    ("episodes", "Episodes", trajectories),
    ("cost", "Cost", cost),
    ("settings", "How to repeat it", settings),
)


def run_page(folder: Path, reload_seconds: int = 0) -> str:
    """Return the report of the run in ``folder`` as one HTML page.

    Raises:
        RunFolderError: it is no run folder, it is damaged, or it may not be read.
    """
    run = ReportedRun.read(folder)
    sections = [Section(anchor, name, make(run)) for anchor, name, make in SECTIONS]
    return page(f"{run.name}: a WHALE run", head(run), sections, reload_seconds)


def keep_report(folder: Path) -> Path:
    """Write ``report.html`` into the folder of a run that has ended, unless the one that is there
    is newer than the journal; return its path.

    Raises:
        WhaleError: the folder cannot be read, or not be written to.
    """
    path = folder / FILE
    if not path.is_file() or path.stat().st_mtime < (folder / JOURNAL).stat().st_mtime:
        write_page(path, run_page(folder))
    return path
