from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from metaharness_fakes import h, score_of

from whale_core.errors import RunFolderError
from whale_core.roles import Rejection
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.archive import Archive


def entry(number: int, source: str, **facts: object) -> ArchiveEntry:
    return ArchiveEntry(f"h{number:04d}", source, cycle=0, phase=1, iteration=2, **facts)  # type: ignore[arg-type]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    archive = Archive(tmp_path)
    archive.add(entry(0, h()))
    archive.record("h0000", score_of(0.25, f=0.5), cycle=0, phase=1, iteration=1)
    archive.add(
        entry(
            1,
            h("A = 'é'\r"),
            parent="h0000",
            axis="prompt",
            hypothesis="é helps",
            changes="A",
            position_leak={"last": 0.7},
        )
    )
    archive.add(entry(2, "class (", rejection=Rejection("parse", "line 1: invalid syntax")))
    archive.record("h0001", score_of(0.5), cycle=0, phase=1, iteration=2)
    return archive


def test_loading_gives_the_same_archive(archive: Archive, tmp_path: Path) -> None:
    loaded = Archive.open(tmp_path)
    assert loaded.entries == archive.entries
    assert loaded.mark() == archive.mark() == {"entries": 3, "scores": 2}
    assert (tmp_path / "h0001/harness.py").read_bytes().decode() == archive["h0001"].source
    metadata = json.loads((tmp_path / "h0002/metadata.json").read_text())
    assert metadata["id"] == "h0002"
    assert metadata["rejection"] == {"gate": "parse", "reason": "line 1: invalid syntax"}
    assert "h0002" in loaded and "h0003" not in loaded


def test_scores_of_other_weights_or_phases_are_stale(archive: Archive) -> None:
    assert [name for name, _ in archive.fresh(1, "w0")] == ["h0000", "h0001"]
    assert archive.fresh(1, "w1") == archive.fresh(2, "w0") == []
    archive.record("h0001", score_of(0.0, weights_id="w1"), cycle=1, phase=3, iteration=1)
    assert [(name, score.mean) for name, score in archive.fresh(3, "w1")] == [("h0001", 0.0)]


def test_truncation_drops_what_an_interrupted_phase_added(archive: Archive, tmp_path: Path) -> None:
    before, mark = archive.entries, json.loads(json.dumps(archive.mark()))
    archive.record("h0000", score_of(0.1, weights_id="w1"), cycle=1, phase=3, iteration=1)
    archive.add(entry(3, h("B = 1")))
    archive.record("h0003", score_of(0.9, weights_id="w1"), cycle=1, phase=3, iteration=2)
    (tmp_path / "h0004.tmp").mkdir()  # died while writing
    reopened = Archive.restore(tmp_path, mark)
    assert reopened.entries == before == Archive.open(tmp_path).entries
    assert not (tmp_path / "h0003").exists() and not (tmp_path / "h0004.tmp").exists()
    assert Archive.restore(tmp_path, mark).entries == before


def test_a_restore_that_was_interrupted_is_done_again(archive: Archive, tmp_path: Path) -> None:
    """Whatever part of it was done: what is beyond the mark is never looked at."""
    before, mark = archive.entries, archive.mark()
    archive.record("h0001", score_of(0.1, weights_id="w1"), cycle=1, phase=3, iteration=1)
    for number in (3, 4):
        archive.add(entry(number, h(f"B = {number}")))
        archive.record(
            f"h{number:04d}", score_of(0.9, weights_id="w1"), cycle=1, phase=3, iteration=2
        )
    archive.record("h0000", score_of(0.1, weights_id="w1"), cycle=1, phase=3, iteration=3)
    shutil.rmtree(tmp_path / "h0003")
    (tmp_path / "h0004" / "metadata.json").unlink()
    (tmp_path / "h0004.tmp").mkdir()
    (tmp_path / "h0004.tmp" / "harness.py").touch()
    assert Archive.restore(tmp_path, mark).entries == before == Archive.open(tmp_path).entries


def test_a_mark_beyond_the_archive_is_refused(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="fewer than the journal's 4"):
        Archive.restore(tmp_path, {"entries": 4, "scores": 2})
    with pytest.raises(RunFolderError, match="scores of the archive are missing"):
        Archive.restore(tmp_path, {"entries": 3, "scores": 9})


def test_damage_is_found(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "h0001/harness.py").write_text(h("A = 2"))
    with pytest.raises(RunFolderError, match=r"h0001: harness\.py is not the file"):
        Archive.open(tmp_path)
    (tmp_path / "h0001/metadata.json").write_text("{")
    with pytest.raises(RunFolderError, match="h0001: unreadable archive entry"):
        Archive.open(tmp_path)
    (tmp_path / "h0001").rename(tmp_path / "gone")
    with pytest.raises(RunFolderError, match="harness h0001 of the archive is missing"):
        Archive.open(tmp_path)


def test_ids_are_consecutive(archive: Archive) -> None:
    with pytest.raises(ValueError, match="h0007 cannot follow 3"):
        archive.add(entry(7, h("C = 1")))


def test_equal_programs_are_known_by_the_oldest(archive: Archive) -> None:
    archive.add(entry(3, h(docstring="other words") + "# comment\n"))
    assert sorted(archive.normalised().values()) == ["h0000", "h0001"]
