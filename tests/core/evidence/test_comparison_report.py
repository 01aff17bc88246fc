"""The report of a comparison, from the file that ``whale compare`` writes."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from comparison_kit import comparison
from page_kit import HOSTILE, Elements
from stored_run_kit import Told, write_run

from whale_core.cli.main import main
from whale_core.evidence.analysis import compare, grouped
from whale_core.evidence.collect import collect
from whale_core.evidence.report.comparison_report import comparison_text

SIX = ("weight-only", "harness-only", "fst", "whale", "adaptive", "stagewise")


def written(folder: Path, data: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "comparison.json"
    path.write_text(json.dumps(data))
    return path


def test_it_says_what_is_best_by_how_much_how_sure_and_at_what_cost(tmp_path: Path) -> None:
    data = comparison(("weight-only", "fst", "whale"), seeds=5)
    text = Elements(comparison_text(written(tmp_path, data), "html")).text.replace("\u202f", " ")
    assert "3 conditions on the domain chess under 5 seeds, each with 1 500 rollouts" in text
    assert "that of whale: 30.0 % (27.0 to 33.0 % over seeds), from 2.0 % at the start" in text
    assert "1 490 rollouts, 2.5 million tokens, 0.5 USD and 3 min 50 s a run" in text
    assert "It beats weight-only beyond chance" in text
    assert "From fst it cannot be told apart" in text
    assert "5.8 %1 of 287 / 1 500; never / 1 500" in text  # rollouts to match
    assert "pass@4" in text
    assert "share of examples that at least one of k draws solves" in text
    assert "the machine's own time is not priced" in text
    assert "Best selection score so far (too high by the luck of the best), mean over" in text


def test_of_few_seeds_it_does_not_speak_of_the_conditions(tmp_path: Path) -> None:
    data = comparison(("weight-only", "fst", "whale"), seeds=3)
    text = Elements(comparison_text(written(tmp_path, data), "html")).text
    assert "Of these 3 seeds' runs its score above those of weight-only" in text
    assert "beats" not in text


def test_a_condition_that_is_better_on_the_common_seeds_is_not_called_the_same(
    tmp_path: Path,
) -> None:
    """The best mean of all has seeds that the other did not finish."""
    data = comparison(("fst", "whale"), seeds=5)
    data["differences"][0] |= {"a": "fst", "b": "whale", "p": 0.001, "p_holm": 0.001,
                               "low": 0.01, "high": 0.19}  # fmt: skip
    text = Elements(comparison_text(written(tmp_path, data), "html")).text
    assert "fst scored surely above it" in text and "cannot be told apart" not in text


def test_seeds_lead_to_the_section_of_their_run(tmp_path: Path) -> None:
    page = Elements(comparison_text(written(tmp_path, comparison()), "html"))
    ids = [given["id"] for _, given in page.elements if given.get("id")]
    links = {str(given["href"])[1:] for name, given in page.elements if name == "a"}
    assert len(ids) == len(set(ids))
    assert links <= set(ids)
    assert {f"run-{c}-{s}" for c in range(2) for s in range(3)} <= links


def test_whatever_stands_in_the_file_the_page_has_the_same_elements(tmp_path: Path) -> None:
    good, bad = (
        Elements(comparison_text(written(tmp_path, comparison(text=text)), "html"))
        for text in ("plain words", HOSTILE)
    )
    assert bad.shape == good.shape
    assert not any(key.startswith("on") for _, given in bad.elements for key in given)


def test_runs_without_a_result_are_named(tmp_path: Path) -> None:
    data = comparison()
    broken = {**data["runs"][0], "state": "failed", "reason": "no memory", "pairs": {},
              "differences": (), "points": (), "decided_at": None}  # fmt: skip
    data["runs"][0] = broken
    data["conditions"][0] |= {"mean": None, "start": None, "across_seeds": None, "seeds": {},
                              "curve": [], "selection_optimism": None, "phases": {}}  # fmt: skip
    data["conditions"][0]["spent"] = dict.fromkeys(data["conditions"][0]["spent"])
    data["conditions"][0]["unfinished"] = [{"seed": 0, "state": "failed", "reason": "no memory"}]
    data["differences"][0] |= {"mean": None, "low": None, "high": None, "p": None, "p_holm": None}
    path = written(tmp_path, data)
    text = Elements(comparison_text(path, "html")).text
    assert "weight-only, seed 0: failed (no memory)" in text
    assert "5 finished" in text
    assert "whale against weight-only" in text
    for format_ in ("md", "csv", "json"):
        assert comparison_text(path, format_)


def test_thirty_runs_are_a_small_page_made_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, comparison(SIX, seeds=5, phases=24, text="words " * 40))
    begun = time.process_time()
    page = comparison_text(path, "html")
    assert time.process_time() - begun < 3.0
    assert len(page.encode()) < 15_000_000
    assert page.count("<details") >= 30


def test_the_command_takes_folder_and_file_and_gives_each_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, comparison())
    assert main(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == comparison_text(path, "html")
    capsys.readouterr()
    assert main(["report", str(path), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 2 * 3 * 4
    assert main(["report", str(path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == comparison()
    assert main(["report", str(path), "--watch"]) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "not a comparison"),
        ('{"conditions": [], "runs": [], "schema": 99}', "schema 99"),
        ('{"conditions": [{}], "runs": [], "schema": 2}', "not as whale compare writes it"),
    ],
)
def test_another_file_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    path = tmp_path / "comparison.json"
    path.write_text(content)
    assert main(["report", str(path)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


def test_a_comparison_of_real_folders_is_read(tmp_path: Path) -> None:
    told = [Told(plugin_set="fst", final=0.5), Told(plugin_set="whale")]
    folders = [write_run(tmp_path / each.plugin_set, each) for each in told]
    data = compare(grouped([collect(folder) for folder in folders]), "whale compare …").as_json()
    text = Elements(comparison_text(written(tmp_path / "both", data), "html")).text
    assert "that of whale: 75.0 %, from 12.5 % at the start" in text
    assert "+25.0" in text
