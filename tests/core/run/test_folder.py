"""The commit protocol: only committed bytes survive, and one controller holds a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whale_core.errors import Interrupted, RunFolderError
from whale_core.run.folder import JOURNAL, RunFolder


def made(path: Path) -> RunFolder:
    folder = RunFolder.create(path)
    folder.commit("run_started")
    return folder


def test_uncommitted_lines_are_cut_off(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.append("ledger.jsonl", [{"n": 1}])
    folder.commit("one")
    folder.append("ledger.jsonl", [{"n": 2}])
    folder.append("rollouts/phase-001.jsonl", [{"r": 1}])
    folder.close()

    folder = RunFolder.open(tmp_path / "run")
    assert folder.read("ledger.jsonl") == [{"n": 1}]
    assert not (tmp_path / "run" / "rollouts" / "phase-001.jsonl").exists()
    folder.append("ledger.jsonl", [{"n": 3}])
    folder.commit("three")
    folder.close()
    lines = (tmp_path / "run" / JOURNAL).read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["run_started", "one", "three"]
    assert json.loads(lines[-1])["lengths"]["ledger.jsonl"] == len('{"n":1}\n{"n":3}\n')


def test_unfinished_last_line_is_dropped_and_a_changed_one_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.commit("one")
    folder.close()
    journal = tmp_path / "run" / JOURNAL
    journal.write_bytes(journal.read_bytes() + b'{"event": "tw')
    folder = RunFolder.open(tmp_path / "run")
    assert [entry["event"] for entry in folder.entries] == ["run_started", "one"]
    folder.close()

    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([lines[0], b"{broken", lines[1]]))
    with pytest.raises(RunFolderError, match="line 2"):
        RunFolder.open(tmp_path / "run")


def test_second_controller_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    with pytest.raises(RunFolderError, match="in use"):
        RunFolder.open(tmp_path / "run")
    folder.close()
    RunFolder.open(tmp_path / "run").close()


def test_full_folder_and_other_folders_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "run").close()
    with pytest.raises(RunFolderError, match="whale resume"):
        RunFolder.create(tmp_path / "run")
    with pytest.raises(RunFolderError, match="not a run folder"):
        RunFolder.open(tmp_path)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    made(tmp_path / "run").close()
    (tmp_path / "run" / "mine.jsonl").write_text("an observer's")
    (tmp_path / "run" / "ledger.jsonl").write_text("never committed")
    RunFolder.open(tmp_path / "run").close()
    assert (tmp_path / "run" / "mine.jsonl").read_text() == "an observer's"
    assert not (tmp_path / "run" / "ledger.jsonl").exists()


def test_other_format_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "run").close()
    journal = tmp_path / "run" / JOURNAL
    journal.write_text(journal.read_text().replace('"format": 3', '"format": 2'))
    with pytest.raises(RunFolderError, match="format 2"):
        RunFolder.open(tmp_path / "run")


def test_a_file_shorter_than_the_journal_says_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.append("ledger.jsonl", [{"n": 1}])
    folder.commit("one")
    folder.close()
    (tmp_path / "run" / "ledger.jsonl").write_text("")
    with pytest.raises(RunFolderError, match="shorter"):
        RunFolder.open(tmp_path / "run")
    assert (tmp_path / "run" / JOURNAL).read_bytes().count(b"\n") == 2  # nothing was changed


def test_a_record_that_was_edited_is_refused_wherever_it_is_read(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.append("ledger.jsonl", [{"n": 1}])
    folder.commit("one")
    folder.append("ledger.jsonl", [{"n": 2}])
    folder.note("with what was appended")
    assert folder.read("ledger.jsonl") == [{"n": 1}, {"n": 2}]
    folder.close()
    (tmp_path / "run" / "ledger.jsonl").write_text('{"n":1}\n{"n":3}\n')
    folder = RunFolder.open(tmp_path / "run")
    with pytest.raises(RunFolderError, match="after byte 8: not what the run wrote"):
        folder.read("ledger.jsonl")
    folder.close()


def test_lines_that_were_left_out_or_moved_are_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    for name in ("one", "two", "three"):
        folder.commit(name)
    folder.close()
    journal = tmp_path / "run" / JOURNAL
    first, one, two, three = journal.read_bytes().splitlines(keepends=True)
    for lines in ((first, two, three), (first, two, one), (first, one, one)):
        journal.write_bytes(b"".join(lines))
        with pytest.raises(RunFolderError, match="its check does not fit"):
            RunFolder.open(tmp_path / "run")
    journal.write_bytes(first + one)
    RunFolder.open(tmp_path / "run").close()


def replayed(path: Path, index: int) -> RunFolder:
    folder = RunFolder.open(path)
    folder.replay_from(index)
    return folder


def test_recorded_blocks_are_met_again_and_nothing_is_written(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    for number in range(3):
        folder.append("ledger.jsonl", [{"n": number}])
        folder.commit("block", number=number, seconds=number)
    folder.close()
    before = (tmp_path / "run" / JOURNAL).read_bytes()

    folder = replayed(tmp_path / "run", 2)
    assert folder.recorded("block", "ledger.jsonl") == [{"n": 1}]
    folder.append("ledger.jsonl", [{"n": "not written"}])
    folder.commit("block", number=1, seconds=99)  # times differ between equal runs
    assert folder.recorded("block", "ledger.jsonl") == [{"n": 2}] and folder.replaying
    folder.commit("block", number=2, seconds=99)
    assert not folder.replaying and folder.recorded("block", "ledger.jsonl") is None
    assert (tmp_path / "run" / JOURNAL).read_bytes() == before
    folder.append("ledger.jsonl", [{"n": 3}])
    folder.commit("block", number=3)
    assert folder.read("ledger.jsonl") == [{"n": number} for number in range(4)]
    folder.close()


def test_a_run_that_goes_another_way_than_its_record_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.commit("block", number=1)
    folder.close()
    folder = replayed(tmp_path / "run", 1)
    with pytest.raises(RunFolderError, match="number is 2 now, but it was 1"):
        folder.commit("block", number=2)
    with pytest.raises(RunFolderError, match="a block 'other' is due"):
        folder.recorded("other", "ledger.jsonl")
    folder.close()


def test_a_note_is_for_the_reader_only(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.append("ledger.jsonl", [{"n": 0}])
    folder.note("interrupted", why="power")
    folder.commit("block", number=1)
    folder.close()
    folder = replayed(tmp_path / "run", 1)
    assert [entry["event"] for entry in folder.entries] == ["run_started", "block"]
    folder.commit("block", number=1)
    assert not folder.replaying and folder.read("ledger.jsonl") == [{"n": 0}]
    folder.close()


def test_a_stop_lets_the_block_be_committed_first(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    folder.stop = True
    with pytest.raises(Interrupted, match="whale resume"):
        folder.commit("block", number=1)
    folder.close()
    folder = RunFolder.open(tmp_path / "run")
    assert folder.entries[-1]["number"] == 1
    folder.close()
