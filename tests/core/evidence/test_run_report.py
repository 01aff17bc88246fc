"""The report of a run whose every number is known and whose every text is hostile."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import shlex
from argparse import ArgumentParser
from html import unescape
from pathlib import Path

import pytest
from page_kit import HOSTILE, Elements
from stored_run_kit import BASE, BETTER, SEALED_ANSWER, Told, write_run

from whale_core.cli.configuration import add_run_configuration, resolved_run
from whale_core.cli.main import main
from whale_core.config import resolve
from whale_core.evidence.report.blocks import number, table
from whale_core.evidence.report.costs import by_candidate, by_role, paper_count, total, yield_of
from whale_core.evidence.report.curves import BEST, REWARD, SELECTION, curves_of
from whale_core.evidence.report.diff import side_by_side
from whale_core.evidence.report.episodes import episodes_of
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import clipped, tag, visible
from whale_core.evidence.report.run_report import run_page
from whale_core.evidence.report.sections.lineage import accepted_line
from whale_core.evidence.report.sections.summary import what_it_was
from whale_core.evidence.report.svg import Mark, Series, line_chart
from whale_core.evidence.report.words import same_as, told_differences
from whale_core.plugins.manager import load_plugins

# A part of the smoke set alone, with two roles left empty.
ALONE = ("harness_search=null", "proposer=null", "scheduler=weight-only", "scheduler.epochs=0.375")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "plain", Told())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "hostile", Told(HOSTILE))


def test_whatever_a_model_wrote_the_page_has_the_same_elements(plain: Path, hostile: Path) -> None:
    good, bad = Elements(run_page(plain)), Elements(run_page(hostile))
    assert not good.open
    assert not bad.open
    assert bad.shape == good.shape
    for name, attributes in bad.elements:
        assert not any(key.startswith("on") or key in ("style", "src") for key in attributes)
        assert all(not str(value).startswith("http") for value in attributes.values())
        assert name not in ("img", "iframe", "base", "link", "object", "form")
    assert [name for name, _ in bad.elements].count("script") == 1
    assert "<script>alert(1)</script>" in bad.text  # to be read, as it was written


def test_what_cannot_be_seen_is_shown_as_an_escape(hostile: Path) -> None:
    page = run_page(hostile)
    for character in "\x00\x1b\u202e\u2066\udc80":
        assert character not in page
        assert f'<span class="esc">{ascii(character)[1:-1]}</span>' in page
    page.encode()  # no lone surrogate is left


def test_the_policy_allows_the_style_and_the_script_of_the_file_and_nothing_else(
    plain: Path,
) -> None:
    page = run_page(plain)
    policy = Elements(page).elements[3][1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    for name in ("style", "script"):
        inside = re.search(f"<{name}>(.*?)</{name}>", page, re.DOTALL)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in str(policy["content"])
    assert str(policy["content"]).startswith("default-src 'none'; ")
    assert "unsafe" not in str(policy["content"])
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


@pytest.mark.parametrize(
    "make",
    [
        lambda: tag("script", "alert(1)"),
        lambda: tag("style", "*{}"),
        lambda: tag("b><script", ""),
        lambda: tag("p", onclick="alert(1)"),
        lambda: tag("p", style="color:red"),
        lambda: tag("img", src="x"),
        lambda: tag("a", href="javascript:alert(1)"),
        lambda: tag("a", href="https://example.org"),
        lambda: tag("p", **{"x y": "z"}),
    ],
)
def test_no_element_can_be_made_that_runs_or_loads_something(make: object) -> None:
    with pytest.raises(ValueError, match="report"):
        make()  # type: ignore[operator]


def test_text_and_attributes_are_escaped_and_long_text_is_cut() -> None:
    assert tag("p", "<&\"'>", title="<&\"'>").html == (
        '<p title="&lt;&amp;&quot;&#39;&gt;">&lt;&amp;&quot;&#39;&gt;</p>'
    )
    assert visible("a\tb\n\u202ec").html == 'a\tb\n<span class="esc">\\u202e</span>c'
    assert clipped("x" * 10_000, 100).html.count("x") == 100
    assert (
        "9\u202f900 more" in clipped("x" * 10_000, 100).html
        or "9 900 more" in clipped("x" * 10_000, 100).html
    )


def test_the_two_sentences_say_what_by_how_much_how_sure_and_at_what_cost(plain: Path) -> None:
    text = Elements(run_page(plain)).text.replace("\u202f", " ")
    assert "2 weight steps in 1 phase and 2 search iterations in 1 phase" in text
    assert "solves 75.0 % against 12.5 % of the sealed test: +62.5 points" in text
    assert "an improvement beyond chance" in text
    assert "it took 176 rollouts" in text
    assert "0.3 USD" in text


@pytest.mark.parametrize(
    ("coordinates", "words"),
    [
        ("both", "trained the weights of plain words and searched for a harness around it on"),
        ("weights", "trained the weights of plain words, under the harness it began with, on"),
        ("harness", "searched for a harness around plain words, its weights as they were, on"),
        ("none", "has neither trained the weights of plain words nor searched for a harness yet"),
    ],
)
def test_the_first_sentence_says_what_was_trained_and_searched(
    tmp_path: Path, coordinates: str, words: str
) -> None:
    told = Told(coordinates=coordinates, finished=False)
    said = what_it_was(ReportedRun.read(write_run(tmp_path / "run", told)))
    assert words in said
    assert "improved" not in said
    assert ("2 weight steps in 1 phase" in said) == (coordinates in ("both", "weights"))


def test_curves_count_all_rollouts_but_the_final_pass(plain: Path) -> None:
    found = curves_of(ReportedRun.read(plain).run.entries)
    assert found.rollouts == 112
    assert [(p.rollouts, p.mean) for p in found.series(REWARD)] == [(32, 0.25), (48, 0.5)]
    assert [(p.rollouts, p.mean) for p in found.series(BEST)] == [(80, 0.5), (96, 0.75)]
    assert [(p.rollouts, p.mean) for p in found.series(SELECTION)] == [
        (16, 0.125),
        (64, 0.5),
        (112, 0.75),
    ]
    assert [(r.kind, r.start, r.end) for r in found.ribbons] == [
        ("start", 0, 16),
        ("weights", 16, 64),
        ("harness", 64, 112),
    ]


def test_the_cost_has_every_role_and_the_papers_count_beside_it(
    plain: Path, tmp_path: Path
) -> None:
    run = ReportedRun.read(plain)
    roles = {row.name: row for row in by_role(run)}
    assert roles["proposer: propose"].usd == 0.25
    assert roles["judge: score"].tokens == 336
    assert roles["policy: train"].rollouts == 32
    whole = total(run.ledger)
    assert (whole.rollouts, whole.usd) == (176, pytest.approx(0.3))
    assert whole.tokens == 176 * 28 + 900 + 336
    paper = paper_count(run)
    assert paper is not None
    assert (paper.weights, paper.harness, paper.rollouts) == (32, 64, 96)
    assert run.result is not None
    begun = write_run(tmp_path / "begun", Told(iterations=1, finished=False))
    assert paper_count(ReportedRun.read(begun)) is None  # how many an iteration tries: not known
    gained = yield_of(run.result, whole)
    assert gained is not None
    assert gained.per_usd == pytest.approx(62.5 / 0.3)
    assert gained.per_million_tokens == pytest.approx(62.5 / whole.tokens * 1e6)
    costs = {each.harness: each for each in by_candidate(run)}
    assert costs["h0001"].rollouts == 16
    assert costs["h0001"].proposal_usd == 0.25
    assert costs["h0002"].proposal_usd is None  # the session is told once
    assert costs["h0002"].rollouts == 0


def test_episodes_are_the_first_passed_and_failed_and_never_of_the_test_split(plain: Path) -> None:
    run = ReportedRun.read(plain)
    shown = [
        (e.phase, e.trajectory.example_id, str(e.trajectory.outcome)) for e in episodes_of(run)
    ]
    assert shown == [
        (0, "select-00", "pass"),
        (0, "select-02", "fail"),
        (1, "train-00", "pass"),
        (1, "train-04", "fail"),
        (2, "score-00", "pass"),
        (2, "score-12", "fail"),
    ]
    trained = [sorted(each.trained) for each in episodes_of(run)]
    assert trained == [[], [], [0], [], [], []]
    assert {e.harness for e in episodes_of(run) if e.phase == 2} == {"h0001"}
    assert SEALED_ANSWER in (plain / "rollouts" / "phase-002.jsonl").read_text()
    assert SEALED_ANSWER not in run_page(plain)


@pytest.mark.parametrize(
    ("trained", "words"),
    [
        (16, "Trained on in weight step 1: the 8 tokens that the model sampled in the marked"),
        (
            0,
            "Not trained on: reward 1; of the 16 scored rollouts of weight step 1, 4 were accepted",
        ),
        (None, "Whether it was trained on was not recorded."),
    ],
)
def test_only_what_the_journal_says_was_trained_on_is_called_so(
    tmp_path: Path, trained: int | None, words: str
) -> None:
    run = ReportedRun.read(write_run(tmp_path / "run", Told(trained=trained)))
    passed = next(each for each in episodes_of(run) if each.kind == "weights")
    assert passed.trajectory.reward == 1.0
    assert words in passed.learned
    assert passed.trained == (frozenset({0}) if trained else frozenset())


def test_the_accepted_change_stands_beside_its_parent_with_what_it_won(plain: Path) -> None:
    run = ReportedRun.read(plain)
    assert [entry.id for entry in accepted_line(run)] == ["h0000", "h0001"]
    page = run_page(plain)
    assert 'id="change-h0001"' in page
    text = Elements(page).text
    assert "+25.0 points" in text
    assert "4 solved only after the change, 0 only before it" in text
    assert "1 refused candidate" in text
    lines = Elements(side_by_side(BASE, BETTER).html)
    assert [a["class"] for n, a in lines.elements if n == "div" and a.get("class") == "line"]
    assert "TRIES = 1" in lines.text
    assert "TRIES = 3" in lines.text


def test_a_diff_of_two_large_files_is_bounded() -> None:
    page = side_by_side("\n".join("a" * 5_000 for _ in range(900)), "\n".join(map(str, range(900))))
    assert len(page.html) < 900_000
    assert "more lines" in page.html


def test_a_run_that_goes_on_says_so_and_its_page_loads_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "live", Told(finished=False))
    page = run_page(folder, reload_seconds=5)
    text = Elements(page).text
    assert "It has not ended, and the sealed test is closed" in text
    assert "50.0 % of the selection split" in text
    assert 'data-reload="5"' in page
    assert '<noscript><meta http-equiv="refresh" content="5"/></noscript>' in page
    ribbons = curves_of(ReportedRun.read(folder).run.entries).ribbons
    assert [(r.kind, r.cycle, r.end) for r in ribbons][-1] == ("harness", 1, 96)


def test_a_table_is_sorted_by_the_figure_itself() -> None:
    ps = [0.0041, 0.0049, 1e-7, 3.0]
    made = table(("p",), [(number("–", p),) for p in ps], sortable=True)
    keys = [a["data-value"] for n, a in Elements(made.html).elements if n == "td"]
    assert [float(str(key)) for key in keys] == ps


def test_a_chart_of_nothing_and_of_one_point() -> None:
    assert "Nothing has been measured" in line_chart([], "", "rollouts").html
    one = line_chart([Series("a", "c-0", [Mark(0, 0.0)])], "one", "rollouts").html
    assert one.count("<circle") == 1
    assert "nan" not in one


def test_the_command_writes_each_format(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.html"
    assert main(["report", str(plain), "-o", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == run_page(plain)
    capsys.readouterr()
    assert main(["report", str(plain), "--watch"]) == 0  # ended: written once, without reload
    assert (
        "data-reload=" not in (plain / "report.html").read_text(encoding="utf-8").split("<main")[0]
    )
    capsys.readouterr()
    assert main(["report", str(plain), "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["cost"]["paper"]["rollouts"] == 96
    assert said["harnesses"][1]["effect"]["mean"] == 0.25
    assert main(["report", str(plain), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["series"] for row in rows][-1] == "test theta_h - theta_h0"
    assert float(rows[-1]["mean"]) == 0.25


def test_each_difference_is_told_once_and_none_of_a_pair_with_itself() -> None:
    """Where the harness alone moved, two of the three are one, and one is of equal pairs."""
    h0, h = {"harness_id": "h0", "weights_id": "w"}, {"harness_id": "h", "weights_id": "w"}
    pairs = {"theta0_h0": h0, "theta0_h": h, "theta_h0": h0, "theta_h": h}
    assert [same_as(pairs, name) for name in pairs] == [
        *("theta_h0", "theta_h"),
        *("theta0_h0", "theta0_h"),
    ]
    told = [{"a": "theta_h", "b": b, "mean": 0.1} for b in ("theta0_h0", "theta0_h", "theta_h0")]
    assert told_differences(told, pairs) == told[:1]
    assert told_differences([{**told[0], "mean": None}], pairs) == []


def test_markdown_makes_no_link_image_or_html_of_what_a_model_wrote(
    hostile: Path, tmp_path: Path
) -> None:
    path = tmp_path / "report.md"
    assert main(["report", str(hostile), "--format", "md", "-o", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)[<\[]", text)
    assert "+62.5" in text


@pytest.mark.parametrize("by_name", [True, False])
def test_the_printed_command_repeats_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    by_name: bool,
) -> None:
    plugins = load_plugins()
    made = resolve(plugins, "smoke", (), (*ALONE, "seed=7"))
    if not by_name:  # made in Python, from settings alone
        made = resolve(plugins, made.tree, (), ())
    folder = write_run(tmp_path / "run", Told())
    (folder / "config.yaml").write_text(made.to_yaml())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.yaml").write_text(made.to_yaml())
    shown = re.search(r"<pre>(whale run .*?)</pre>", run_page(folder))
    assert shown is not None
    printed = unescape(shown[1])
    program, verb, *arguments = shlex.split(printed)
    assert (program, verb) == ("whale", "run")
    parser = ArgumentParser()  # what whale run and whale plan read it with
    add_run_configuration(parser)
    parser.add_argument("--run-dir")
    assert resolved_run(plugins, parser.parse_args(arguments)) == made  # empty roles stay empty
    assert main(["report", str(folder), "--format", "md"]) == 0
    assert printed.replace("settings.yaml", "config.yaml") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere"], 4, "no run folder"),
        (["RUN", "--watch", "--format", "md"], 2, "--watch"),
        (["RUN", "-o", "no/such/folder/x.html"], 2, "cannot be written"),
    ],
)
def test_bad_input_is_one_line(
    plain: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    given = [str(plain) if each == "RUN" else each for each in arguments]
    assert main(["report", *given]) == code
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
