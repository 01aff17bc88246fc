"""``whale harness`` on a real run: what it says is what the files say, and it changes nothing."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_kit import blocks_of

from whale_core.cli.main import main
from whale_core.stats import paired_difference

DOCS = Path(__file__).parents[2] / "docs" / "runs.md"
ASKING = """
from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        messages = [{"role": "user", "content": "Letters: " + task["letters"]}]
        for _ in range(3):
            reply = await model.chat(messages)
            if reply.text in list(task["letters"]):
                await env.call("say", letter=reply.text)
                return reply.text
            messages += [reply, {"role": "user", "content": "\\x1b[31mOne of them.\\u202e"}]
        await env.call("say", letter=task["letters"][0])
        return ""
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the set ``smoke`` with two harness phases."""
    folder = tmp_path_factory.mktemp("runs") / "smoke"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHALE_STATE", str(folder.parent / "state"))
        schedule = {"epochs": 0.125, "total_epochs": 0.375, "iterations": 3}  # 1 step, 3 times
        more = [f"scheduler.{name}={value}" for name, value in schedule.items()]
        arguments = ["run", "--plugin-set", "smoke", "--run-dir", str(folder), "--json"]
        assert main([*arguments, *more, "domain.harness=16", "test.examples=8"]) == 0
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run ``whale harness …`` and return what it printed (on stderr where it fails)."""
    capsys.readouterr()
    assert main(["harness", *arguments]) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(said(capsys, *arguments, "--json"))


def metadata(run: Path, name: str) -> dict[str, Any]:
    return json.loads((run / "harnesses" / name / "metadata.json").read_text())


def events(run: Path, event: str) -> list[dict[str, Any]]:
    return [block for block in blocks_of(run) if block["event"] == event]


def cut(run: Path, to: Path, phase: int) -> Path:
    """Copy ``run`` as it stood when ``phase`` had ended, with a block that is being written."""
    copy = to / "copy"
    shutil.copytree(run, copy)
    lines = (copy / "journal.jsonl").read_bytes().split(b"\n")[:-1]
    end = next(
        index
        for index, line in enumerate(lines)
        if (entry := json.loads(line)).get("event") == "phase_done" and entry["phase"] == phase
    )
    (copy / "journal.jsonl").write_bytes(b"\n".join([*lines[: end + 1], b'{"event": "rol']))
    return copy


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_run_ends_with_its_report_which_never_shows_the_sealed_split(run: Path) -> None:
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "The pair it ended with solves" in page or "nothing changed" in page
    assert 'id="change-' in page or "No candidate was accepted" in page
    lines = (run / "rollouts").glob("*.jsonl")
    told = [json.loads(line) for path in lines for line in path.read_bytes().splitlines()]
    sealed = {each["example"] for each in told if each["key"]["purpose"] == "test"}
    assert sealed
    assert not [name for name in sealed if name in page]
    shown = {each["example"] for each in told} - sealed
    assert [name for name in shown if name in page]


def test_list_says_what_the_archive_and_the_journal_say(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = told(capsys, "list", str(run))
    names = sorted(path.name for path in (run / "harnesses").glob("h*"))
    assert [each["harness"] for each in listed] == names
    assert len(names) >= 4
    ends = events(run, "phase_done")
    for each in listed:
        stored = metadata(run, each["harness"])
        assert (each["parent"], each["axis"]) == (stored["parent"], stored["axis"])
        newest = stored["scores"][-1]["score"] if stored["scores"] else None
        assert (each["score"] is None) == (newest is None)
        if newest:
            assert each["score"]["score"]["mean"] == newest["mean"]
            assert each["score"]["fresh"] is (newest["weights_id"] == ends[-1]["weights_id"])
        accepted = [end["phase"] for end in ends if end["harness_id"] == each["id"]]
        phases = [e["phase"] for e in ends if e["kind"] == "harness" and e["phase"] in accepted]
        assert each["accepted_in"] == phases
    chosen = events(run, "decision")[0]["chosen"]
    reported = [each["id"] for each in listed if each["reported"]]
    assert reported == [ends[chosen]["harness_id"]]
    text = said(capsys, "list", str(run))
    assert all(re.search(rf"^ *{name} ", text, re.M) for name in names)
    assert "stale" in text and "fresh" not in text  # the run ended with weights of its own


def test_a_run_that_works_can_be_read_and_its_scores_are_fresh(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = cut(run, tmp_path, phase=2)
    with (copy / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as the working run does
        before = hashes(copy)
        listed = told(capsys, "list", str(copy))
        scored = [each for each in listed if each["score"]]
        assert any(each["score"]["fresh"] for each in scored)
        assert {each["score"]["weights"] for each in scored if each["score"]["fresh"]} == {"step 1"}
        for command in ("show", "diff", "replay"):
            assert said(capsys, command, str(copy), "h1")
        assert said(capsys, "lineage", str(copy))
        assert hashes(copy) == before


def test_names_that_are_not_there(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run.parent)
    assert "did you mean 'smoke'?" in said(capsys, "list", "smok", code=4)
    monkeypatch.chdir(tmp_path)
    Path("runs").symlink_to(run.parent)
    assert "did you mean 'runs/smoke'?" in said(capsys, "list", "smokey", code=4)
    start = told(capsys, "list", "smoke")[0]
    assert start["harness"] == "h0000"
    assert "it has h0000 to" in said(capsys, "show", "smoke", "h99", code=2)
    for name in ("h0", "h0000", start["id"][:6]):
        assert told(capsys, "show", "smoke", name)["id"] == start["id"]
    assert "no stored episode" in said(capsys, "replay", "smoke", "h1", "none", code=2)


def test_show_has_source_origin_and_all_scores(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told(capsys, "show", str(run), "h0001")
    stored = metadata(run, "h0001")
    assert shown["source"] == (run / "harnesses/h0001/harness.py").read_text()
    assert [each["score"] for each in shown["scores"]] == [s["score"] for s in stored["scores"]]
    text = said(capsys, "show", str(run), "h1")
    assert "class Harness(BaseHarness):" in text and stored["hypothesis"] in text


def test_diff_pairs_by_example(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "diff", str(run), "h0", "h1")
    effect = found["effect"]

    def rewards(name: str) -> dict[str, float]:
        (score,) = (
            each["score"]["rewards"]
            for each in metadata(run, name)["scores"]
            if each["phase"] == effect["phase"]
        )
        return {example: float(np.mean(draws)) for example, draws in score.items()}

    old, new = rewards("h0000"), rewards("h0001")
    order = sorted(old)
    interval = paired_difference(
        np.array([new[each] for each in order]), np.array([old[each] for each in order])
    )
    assert (effect["difference"], effect["low"], effect["high"]) == pytest.approx(
        (interval.mean, interval.low, interval.high)
    )
    assert effect["gained"] == [each for each in order if old[each] < 0.5 < new[each]]
    assert effect["lost"] == [each for each in order if new[each] < 0.5 < old[each]]
    gained, lost = len(effect["gained"]), len(effect["lost"])
    assert effect["difference"] == pytest.approx((gained - lost) / len(order))
    assert any(line.startswith("+") for line in found["diff"])
    parent = metadata(run, "h0001")["parent"]
    assert told(capsys, "diff", str(run), "h1")["old"]["harness"] == parent
    text = said(capsys, "diff", str(run), "h0", "h1")
    assert "95 % interval" in text and f"solved by only the old one: {lost}" in text
    back = told(capsys, "diff", str(run), "h1", "h0")["effect"]
    assert back["gained"] == effect["lost"]
    assert "has no parent" in said(capsys, "diff", str(run), "h0", code=2)


def test_lineage_is_the_tree_of_parents(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def parents(node: Any, above: str | None = None) -> dict[str, str | None]:
        found = {node["harness"]: above}
        for child in node["children"]:
            found |= parents(child, node["harness"])
        return found

    (root,) = told(capsys, "lineage", str(run))
    stored = {
        path.name: metadata(run, path.name)["parent"] for path in (run / "harnesses").glob("h*")
    }
    assert parents(root) == stored
    (branch,) = told(capsys, "lineage", str(run), "h0001")
    of_one = parents(branch)
    assert {"h0000", "h0001"} <= of_one.keys() and of_one.items() <= stored.items()
    for name in stored.keys() - of_one.keys():
        assert stored[name] not in ("h0001", *(of_one.keys() - {"h0000"}))
    assert "└── " in said(capsys, "lineage", str(run))


def test_every_stored_kind_of_episode_replays_the_same(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["h0", "--purpose", "train"], ["h0", "--purpose", "select"], ["h1"]):
        replayed = told(capsys, "replay", str(run), *arguments)
        assert replayed["same"], replayed["differences"]
        assert replayed["replayed"]["calls"] == replayed["recorded"]["calls"]
        assert replayed["recorded"]["key"]["purpose"] != "test"
    text = said(capsys, "replay", str(run), "h1")
    assert "behaves the same" in text and "── turn 1 ──" in text and "Letters: " in text


def test_replay_says_where_another_harness_goes_another_way(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h0 = (run / "h0.py").read_text()
    stored = told(capsys, "replay", str(run), "h0", "--purpose", "train")["recorded"]
    example = stored["example"]
    same, silent, wordy = (tmp_path / f"{name}.py" for name in ("same", "silent", "wordy"))
    same.write_text("# a comment\n" + h0)
    silent.write_text(h0.replace("if letter:", "if False:"))
    wordy.write_text(h0.replace("Say one letter.", "Say \\x1b[31m one letter."))
    of = ["--of", "h0", "--purpose", "train"]
    assert told(capsys, "replay", str(run), str(same), example, *of)["same"]
    other = told(capsys, "replay", str(run), str(wordy), example, *of)
    assert other["differences"] == ["model call 1 puts other messages than the recorded one"]
    assert other["replayed"]["reason"] == "no recorded reply"
    text = said(capsys, "replay", str(run), str(wordy), example, *of)
    assert "-Say one letter." in text and "+Say \\x1b[31m one letter." in text
    assert "\x1b" not in text
    spoke = next(
        line
        for path in sorted((run / "rollouts").glob("*.jsonl"))
        for line in map(json.loads, path.read_text().split("\n")[:-1])
        if line["events"] and line["harness"] == stored["harness"]
        if line["key"]["purpose"] == "train"
    )
    phase = [each for each in events(run, "weight_step") if each["step"] == spoke["key"]["step"]]
    where = [spoke["example"], "--draw", str(spoke["key"]["draw"]), "--of", "h0"]
    where += ["--phase", str(phase[0]["phase"])]
    quiet = told(capsys, "replay", str(run), str(silent), *where)
    assert quiet["differences"][0] == "environment calls: 0 now, 1 recorded"


def test_the_test_split_stays_sealed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = [
        json.loads(line)
        for path in sorted((run / "rollouts").glob("*.jsonl"))
        for line in path.read_text().split("\n")[:-1]
    ]
    sealed = next(each for each in stored if each["key"]["purpose"] == "test")
    message = said(capsys, "replay", str(run), sealed["harness"], sealed["example"], code=2)
    assert "no stored episode" in message
    assert "it has test-" not in message and ", test-" not in message
    for arguments in (["h0", "--run", str(run)], ["first-listed-letter", "--plugin-set", "smoke"]):
        refused = said(capsys, "try", *arguments, "--split", "test", code=2)
        assert "the test split is sealed" in refused
    wanted = ["--example", sealed["example"]]
    assert "has no example" in said(capsys, "try", "h0", "--run", str(run), *wanted, code=2)


def test_try_plays_a_live_episode_with_the_runs_weights(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["try", "h0", "--run", str(run), "--example", "harness-0003"]
    made = told(capsys, *arguments)
    assert made["weights"] == events(run, "phase_done")[-1]["weights_id"]
    assert made["example"] == "harness-0003" and made["key"]["purpose"] == "try"
    again = told(capsys, *arguments)
    assert again["calls"] == made["calls"]  # counted randomness: the same draw is the same
    other = told(capsys, *arguments, "--draw", "5", "--checkpoint", "initial")
    assert other["weights"] == events(run, "phase_done")[0]["weights_id"]
    assert other["calls"][0]["sampled_ids"] != made["calls"][0]["sampled_ids"]
    text = said(capsys, *arguments)
    assert "── turn 1 ──" in text and "Letters: " in text and "outcome" in text
    refused = said(capsys, *arguments, "--checkpoint", "step-00003", code=2)
    assert "did you mean 'step-000003'?" in refused


def test_a_person_can_be_the_model_under_the_same_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, replies = tmp_path / "asking.py", tmp_path / "replies"
    harness.write_text(ASKING)
    arguments = ["try", str(harness), "--plugin-set", "smoke"]
    letters = re.search("Letters: (.+)", said(capsys, *arguments, "--replies", "/dev/null"))
    assert letters is not None
    vowel = next(letter for letter in letters[1] if letter in "aeiou")
    replies.write_text(f"two\nlines\n---\n{vowel}\n---\nunused\n")
    won = told(capsys, *arguments, "--replies", str(replies))
    assert (won["outcome"], won["answer"]) == ("pass", vowel)
    assert [call["text"] for call in won["calls"]] == ["two\nlines", vowel]
    assert [event["name"] for event in won["events"]] == ["say"]
    monkeypatch.setattr("sys.stdin", io.StringIO("x\n---\ny\n---\nz"))
    text = said(capsys, *arguments, "--replies", "-")
    assert "outcome  fail before a verdict: provenance" in text  # it spoke for the model
    assert "assistant: (reply 1, unchanged)" in text
    assert "\\x1b[31mOne of them.\\u202e" in text and "\x1b" not in text
    replies.write_text("x")
    short = told(capsys, *arguments, "--replies", str(replies))
    assert short["reason"] == "no reply left"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["try", "x.py"], "give --plugin-set NAME, or --run RUN"),
        (["try", "x.py", "--plugin-set", "smoke"], "x.py"),
        (["try", "nope", "--plugin-set", "smoke"], "domain toy has first-listed-letter"),
        (["try", "x", "--plugin-set", "smoke", "--split", "wait"], "no split 'wait'"),
        (["try", "x", "--plugin-set", "smoke", "--replies", "a", "--checkpoint", "b"], "no use"),
        (["try", "first-listed-letter", "--plugin-set", "smoke", "--replies", "/no"], "/no: "),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = said(capsys, *arguments, code=2)
    assert message in error and error.startswith("whale: ") and error.count("\n") == 1


def test_the_page_on_run_folders_reads_a_real_one(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall("```python\n(.*?)```", DOCS.read_text(), re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block.replace('"runs/smoke"', repr(str(run))), str(DOCS), "exec"), {})
    printed = capsys.readouterr().out
    for name in (
        "h0001 from h0000",
        "step 1 reward",
        "phase 2 harness",
        "phase-001.jsonl 80 rollouts",
    ):
        assert name in printed, printed
    files = {path.name for path in run.iterdir()} - {".lock"}
    described = DOCS.read_text()
    assert all(name in described for name in files)
