"""Journals and stored trajectories that were damaged: one line of error, or the run as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resume_kit import resealed

from whale_core.errors import RunFolderError
from whale_core.keys import DrawKey, content_hash
from whale_core.records import Call, Message, Outcome, Spent, ToolEvent, Trajectory, Verdict
from whale_core.run.folder import RunFolder
from whale_core.run.journal import read_journal
from whale_core.run.restore import Checkpoint, PhaseEnd, Standing, accepted_harness, accepted_path
from whale_core.run.stored import read_trajectory, trajectory_json

SOURCE = "class Harness: ..."
VALUES = [None, -1, 0, 10**30, 1.5, True, "", "x", "../../etc/passwd", [], [[]], {}, {"a": {}}]


def phase_end(phase: int) -> PhaseEnd:
    return PhaseEnd(
        phase=phase,
        kind="weights" if phase else "start",
        cycle=phase,
        step=3 * phase,
        result={"kind": "weights", "cycle": 1, "length": 3, "signals": [0.1]} if phase else None,
        harness="h",
        harness_id=content_hash(SOURCE),
        checkpoint="step-000003" if phase else None,
        weights_id="w",
        sampler={"epoch": 0, "taken": 24},
        search=None,
        selection={"mean": 0.5, "low": 0.4, "high": 0.6, "split": "selection", "draws": 1},
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with every kind of line that a continued run reads."""
    path = tmp_path_factory.mktemp("journal") / "run"
    folder = RunFolder.create(path)
    folder.commit("run_started", run="r", settings_hash="s", started=1.0)
    for phase in range(3):
        if phase:
            for step in range(3):
                folder.append("ledger.jsonl", [{"n": step}])
                folder.append(f"rollouts/phase-{phase:03d}.jsonl", [{"r": step}])
                folder.commit("rollouts", phase=phase, purpose="train", rollouts=1, asked="a")
                folder.commit("weight_step", phase=phase, step=step, reward=0.25)
            line = Checkpoint(phase, 3, "step-000003", "w", "o", {"epoch": 0, "taken": 24}, ["x"])
            folder.commit("checkpoint", **asdict(line))
        folder.note("resumed", at=2.0)
        accepted_path(path, phase).write_text(SOURCE)
        folder.commit("phase_done", **asdict(phase_end(phase)))
    folder.commit("rollouts", phase=3, purpose="score", rollouts=1, asked="b")
    folder.close()
    return path


def taken_up(path: Path) -> Standing:
    """Do with a folder what ``whale resume`` does first."""
    folder = RunFolder.open(path)
    try:
        standing = Standing.read(folder)
        folder.replay_from(standing.replay_from)
        for end in standing.ends:
            accepted_harness(path, end)
        return standing
    finally:
        folder.close()


def check(written: Path, where: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a copy's journal: it is taken up, or refused in one line with nothing changed."""
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(written, where)
    journal = where / "journal.jsonl"
    changed = change(journal.read_bytes())
    journal.write_bytes(changed)
    outside = where.parent / "passwd"
    outside.write_text("not of this run")
    try:
        taken_up(where)
    except RunFolderError as error:
        assert str(where) in str(error) and "\n" not in str(error)
        assert journal.read_bytes() in (changed, changed[: changed.rfind(b"\n") + 1])
    assert outside.read_text() == "not of this run"


def test_the_folder_itself_is_taken_up(written: Path, tmp_path: Path) -> None:
    where = Path(shutil.copytree(written, tmp_path / "run"))
    standing = taken_up(where)
    assert [end.phase for end in standing.ends] == [0, 1, 2]
    assert standing.checkpoint is not None and standing.taken == []


FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=st.data())
def test_bytes_changed(written: Path, tmp_path: Path, data: st.DataObject) -> None:
    def change(text: bytes) -> bytes:
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 40)))
        return text[:start] + data.draw(st.binary(max_size=40)) + text[stop:]

    check(written, tmp_path / "run", change)


@given(data=st.data())
def test_no_byte_changes_unnoticed(
    written: Path, tmp_path_factory: Any, data: st.DataObject
) -> None:
    """Not even one that leaves good JSON behind: a score, a signal, a name."""
    journal = written / "journal.jsonl"
    text = journal.read_bytes()
    at = data.draw(st.integers(0, text.rfind(b"\n", 0, -1)))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != text[at]))
    where = tmp_path_factory.mktemp("changed") / "journal.jsonl"
    where.write_bytes(text[:at] + bytes([byte]) + text[at + 1 :])
    with pytest.raises(RunFolderError):
        read_journal(where)


@FUZZ
@given(data=st.data())
def test_fields_changed(written: Path, tmp_path: Path, data: st.DataObject) -> None:
    def change(text: bytes) -> bytes:
        lines = [json.loads(line) for line in text.splitlines()]
        line = data.draw(st.sampled_from(lines))
        key = data.draw(st.sampled_from(sorted(line)))
        if isinstance(line[key], dict) and line[key] and data.draw(st.booleans()):
            line, key = line[key], data.draw(st.sampled_from(sorted(line[key])))
        if data.draw(st.booleans()):
            line[key] = data.draw(st.sampled_from(VALUES))
        else:
            del line[key]
        return resealed(lines)

    check(written, tmp_path / "run", change)


@FUZZ
@given(data=st.data())
def test_lines_dropped_doubled_and_moved(
    written: Path, tmp_path: Path, data: st.DataObject
) -> None:
    def change(text: bytes) -> bytes:
        lines = text.splitlines(keepends=True)
        picks = st.lists(st.sampled_from(range(len(lines))), max_size=len(lines) + 2)
        chosen = [lines[index] for index in data.draw(picks)]
        return resealed([json.loads(line) for line in chosen])

    check(written, tmp_path / "run", change)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
ANY_TEXT = st.text(alphabet=st.characters(), max_size=20)  # lone surrogates included


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """Any trajectory: also prompts that go on from the call before, and those that do not."""
    calls: list[Call] = []
    for _ in range(draw(st.integers(0, 4))):
        before = calls[-1] if calls else None
        ids = draw(st.lists(st.integers(0, 2**31 - 1), max_size=6))
        said = tuple(Message(r, t) for r, t in draw(st.lists(st.tuples(ANY_TEXT, ANY_TEXT))))
        if before is not None and draw(st.booleans()):
            ids = [*before.prompt_ids.tolist(), *before.token_ids.tolist(), *ids]
            said = (*before.messages, Message("assistant", before.text, len(calls) - 1), *said)
        sampled = draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5))
        size = len(sampled)
        logs = draw(st.lists(st.floats(-(2.0**99), 0, width=32), min_size=size, max_size=size))
        calls.append(
            Call(
                prompt_ids=np.array(ids, np.int32),
                token_ids=np.array(sampled, np.int32),
                logprobs=np.array(logs, np.float32),
                text=draw(ANY_TEXT),
                finish_reason=draw(st.sampled_from(["end", "stop", "length"])),
                weights_id="w",
                messages=said,
                cached_tokens=draw(st.integers(0, 5)),
            )
        )
    events = draw(st.lists(st.tuples(st.text(), st.dictionaries(st.text(), JSON), JSON)))
    return Trajectory(
        example_id=draw(st.text()),
        harness_id="h",
        weights_id="w",
        key=DrawKey(draw(st.integers(0, 9)), "train", 1, 2, "e", 3),
        calls=tuple(calls),
        events=tuple(ToolEvent(n, a, r, 0, draw(st.none() | st.text())) for n, a, r in events),
        answer=draw(st.none() | ANY_TEXT),
        record=draw(st.dictionaries(st.text(), JSON, max_size=3)),
        outcome=draw(st.sampled_from(list(Outcome))),
        reason=draw(st.none() | ANY_TEXT),
        verdict=draw(st.none() | st.builds(Verdict, st.floats(0, 1))),
        metrics=draw(st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False))),
        spent_else=draw(st.builds(Spent, *[st.integers(0, 9)] * 4)),
        cpu_seconds=0.25,
        seconds=0.5,
    )


def through_disk(trajectory: Trajectory) -> Any:
    return json.loads(
        json.dumps(trajectory_json(trajectory), ensure_ascii=False).encode("utf-8", "surrogatepass")
    )


@given(trajectories())
def test_a_stored_trajectory_comes_back_exactly(trajectory: Trajectory) -> None:
    back = read_trajectory(through_disk(trajectory))
    assert back == trajectory
    assert (back.spent, back.cpu_seconds, back.seconds) == (trajectory.spent, 0.25, 0.5)
    for call, then in zip(back.calls, trajectory.calls, strict=True):
        assert call.prompt_ids.tolist() == then.prompt_ids.tolist()
        assert call.token_ids.tolist() == then.token_ids.tolist()
        assert call.logprobs.tobytes() == then.logprobs.tobytes()
    assert evolve(back, reason="other") != trajectory


@given(trajectories(), st.data())
def test_a_damaged_trajectory_is_refused_or_read(
    trajectory: Trajectory, data: st.DataObject
) -> None:
    stored = through_disk(trajectory)
    key = data.draw(st.sampled_from(sorted(stored)))
    stored[key] = data.draw(st.sampled_from(VALUES))
    try:
        read_trajectory(stored)
    except RunFolderError as error:
        assert "\n" not in str(error)
