"""Every θ under every harness: what is measured, kept, compared, and never opened."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from worlds_kit import LetterEngine

from whale_core.cli.main import main
from whale_core.errors import InputError
from whale_core.evidence.grid import Cell, Column, Grid, Row
from whale_core.evidence.heatmap import page, svg, text_lines
from whale_core.evidence.matrix import Asked, measure_matrix
from whale_core.plugins.manager import load_plugins
from whale_core.run.reader import StoredRun


@pytest.mark.slow
def test_a_runs_matrix_is_measured_once(
    run_folder: Path, engines: list[LetterEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["matrix", str(run_folder), "--examples", "24", "--held-out", "1", "--json"]
    assert main([*command, "--out", "heat.svg"]) == 0
    told = json.loads(capsys.readouterr().out)
    run = StoredRun.open(run_folder)
    first, last = run.ends()[0], run.ends()[-1]
    assert {row["weights_id"] for row in told["rows"]} == set(run.kept_weights().values())
    kinds = {column["harness_id"]: column["kind"] for column in told["columns"]}
    assert kinds[first.harness_id] == "first" and kinds[last.harness_id] == "accepted"
    assert list(kinds.values()).count("held-out") == 1
    cells = {(c["weights_id"], c["harness_id"]): c["mean"] for c in told["cells"]}
    # Half hidden, half right at first; the search reads past the clutter, training makes it right.
    assert cells[first.weights_id, first.harness_id] < 0.45
    assert cells[last.weights_id, last.harness_id] > 0.8
    made = len(cells) * 24
    (engine,) = engines
    assert told["ledger"]["rollouts"] == made == engine.generated["calls"]
    for name in engine.generated:
        assert told["ledger"][name] == engine.generated[name]
    ET.fromstring(Path("heat.svg").read_text())

    again = measure_matrix([run], load_plugins(), Asked(examples=24, draws=2, held_out=1))
    assert again.kept == made and again.ledger["rollouts"] == made  # the second draws alone
    third = measure_matrix([run], load_plugins(), Asked(examples=24, held_out=1))
    assert third.ledger["rollouts"] == 0 and engines[-1].generated["calls"] == 0
    assert third.grid.as_json()["cells"] == told["cells"]
    other = measure_matrix([run], load_plugins(), Asked(examples=4, held_out=0, seed=1))
    assert other.kept == 0  # other draws


@pytest.mark.slow
def test_a_cell_that_was_cut_off_is_completed(
    run_folder: Path, engines: list[LetterEngine]
) -> None:
    run, asked = StoredRun.open(run_folder), Asked(examples=4, held_out=0)
    whole = measure_matrix([run], load_plugins(), asked)
    files = sorted(Path("cache/matrix").glob("*[0-9a-f].jsonl"))
    assert len(files) == len(whole.grid.cells)
    text = files[0].read_bytes()
    files[0].write_bytes(text[: text.rindex(b"{") + 9])  # the last line is torn
    again = measure_matrix([run], load_plugins(), asked)
    assert again.ledger["rollouts"] == 1 and again.grid == whole.grid
    assert measure_matrix([run], load_plugins(), asked).ledger["rollouts"] == 0


@pytest.mark.slow
def test_runs_of_another_task_are_refused(
    run_folder: Path, engines: list[LetterEngine], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("manifest.json", "config.yaml", "journal.jsonl", "h0.py"):
        (other / name).write_bytes((run_folder / name).read_bytes())
    for name in ("accepted", "harnesses", "weights"):
        (other / name).symlink_to(run_folder / name)
    text = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(text.replace("top_k: 20", "top_k: 7"))
    runs = [StoredRun.open(run_folder), StoredRun.open(other)]
    with pytest.raises(InputError, match=r"other: its decoding is {.top_k.: 7}"):
        measure_matrix(runs, load_plugins(), Asked(examples=2, held_out=0))
    for wrong in (Asked(examples=0), Asked(draws=0), Asked(held_out=-1)):
        with pytest.raises(InputError, match="give at least"):
            measure_matrix(runs, load_plugins(), wrong)
    assert main(["matrix", str(run_folder), "--out", "heat.png"]) == 2


EXAMPLES = [f"e{i}" for i in range(40)]


def grid_of(means: dict[tuple[str, str], float]) -> Grid:
    """Return a grid of one run: first weights t0, trained ones t1 (under a), harnesses a, b, c."""
    rows = (
        Row("θ0", "t0", "r", None, 0, "t0"),
        Row("<θ1>", "t1", "r", "step-000003", 3, "t0", "a", frozenset("a")),
    )
    columns = (
        Column("a & h0", "a", "first", first=("a",)),
        Column("b", "b", "accepted", frozenset({"t1"}), ("a",)),
        Column("c", "c", "held-out"),
    )
    cells = {}
    for pair, mean in means.items():
        hits = round(mean * len(EXAMPLES))
        cells[pair] = Cell({e: float(i < hits) for i, e in enumerate(EXAMPLES)})
    return Grid(rows, columns, cells, 1)


def test_co_overfitting_and_transfer() -> None:
    grid = grid_of(
        {
            ("t0", "a"): 0.2,
            ("t1", "a"): 0.8,
            ("t0", "b"): 0.3,
            ("t1", "b"): 0.5,
            ("t0", "c"): 0.1,
            ("t1", "c"): 0.1,
        }
    )
    (figure,) = grid.weights_transfer()
    assert figure.elsewhere == 1 and figure.home == "a & h0"
    assert figure.own.mean == pytest.approx(0.6)
    assert figure.others.mean == 0.0
    assert figure.excess.mean == pytest.approx(0.6) and figure.excess.low > 0
    assert figure.share == 0.0
    # b was found under t1: no part of either.
    assert figure.related == 1 and (figure.related_gain or pytest.fail()).mean == pytest.approx(0.2)
    (found,) = grid.harness_transfer()
    assert found.own.mean == pytest.approx(-0.3) and found.others.mean == pytest.approx(0.1)
    assert found.share is None  # no gain at home


def test_what_was_made_with_a_subject_is_not_elsewhere() -> None:
    """t1 found b, t2 was trained under b and t3 came of t2: only t0 tells of b elsewhere."""
    means = {("t0", "b"): 0.3, ("t1", "b"): 0.8, ("t2", "b"): 0.9, ("t3", "b"): 1.0}
    base = grid_of({**{(t, h): 0.2 for t in ("t0", "t1", "t2", "t3") for h in "abc"}, **means})
    later = [
        Row(f"θ{i}", f"t{i}", "r", f"step-{i}", i, "t0", "abc"[i - 1], frozenset("abc"[:i]))
        for i in (2, 3)
    ]
    grid = Grid((*base.rows, *later), base.columns, base.cells, 1)
    (found,) = grid.harness_transfer()
    assert found.home == "<θ1>" and found.own.mean == pytest.approx(0.6)
    assert (found.elsewhere, found.others.mean) == (1, pytest.approx(0.1))
    assert (found.related, (found.related_gain or pytest.fail()).mean) == (2, pytest.approx(0.75))
    assert any("weights trained under them (2)" in line for line in text_lines(grid))
    assert "+75.0" in page(grid)


def test_the_excess_interval_covers() -> None:
    """Of two true gains of 0.4 and 0.1 the interval of the difference holds 0.3."""
    rng = np.random.default_rng(0)
    covered, tries = 0, 60
    for _ in range(tries):
        p = {("t0", "a"): 0.2, ("t1", "a"): 0.6, ("t0", "b"): 0.3, ("t1", "b"): 0.4}
        p |= {("t0", "c"): 0.3, ("t1", "c"): 0.4}
        cells = {
            pair: Cell(dict(zip(EXAMPLES, (rng.random(40) < mean).astype(float), strict=True)))
            for pair, mean in p.items()
        }
        base = grid_of(dict.fromkeys(p, 0.0))
        (figure,) = Grid(base.rows, base.columns, cells, 1).weights_transfer()
        covered += figure.excess.low <= 0.3 <= figure.excess.high
    assert covered >= 0.9 * tries


def test_the_heat_map_escapes_and_is_well_formed() -> None:
    grid = grid_of({(t, h): 0.5 for t in ("t0", "t1") for h in "abc"})
    image = ET.fromstring(svg(grid))
    texts = [each.text for each in image.iter("{http://www.w3.org/2000/svg}text")]
    assert "<θ1>" in texts and "c1: a & h0 (first)" in texts
    assert "<θ1>" not in page(grid) and "&lt;θ1&gt;" in page(grid)
    assert "http://" not in page(grid).replace("http://www.w3.org/2000/svg", "")
    assert "Content-Security-Policy" in page(grid)
    hidden = evolve(grid, rows=[evolve(row, label="a\u202eb\x1b") for row in grid.rows])
    for made in (svg(hidden), page(hidden)):
        assert "\u202e" not in made and "\x1b" not in made and r"a\u202eb\x1b" in made
    lines = text_lines(grid)
    assert any("50.0*██" in line for line in lines)
