"""The bundled problems, the splits, and the published data sets' columns on local files."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_math.config import Benchmark, Config
from whale_math.domain import MathDomain
from whale_math.problems import Problem, bundled, data_file
from whale_math.sources import load
from whale_math.splits import ORDER, share_out

ROOT = Path(__file__).parents[2]
SETUP = Setup(seed=0)
LEVELS = [f"level {number}" for number in range(1, 7)]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "whale_domains/math/tools/generate_problems.py"
    spec = importlib.util.spec_from_file_location("generate_problems", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# --- the generated problems -----------------------------------------------------------------------


def test_the_files_are_those_of_the_manifest():
    manifest = json.loads(data_file("manifest.json").read_text())
    assert set(manifest) == {"problems.jsonl.zst", "tuning.jsonl.zst"}
    assert len({entry["seed"] for entry in manifest.values()}) == 2
    for name, entry in manifest.items():
        data = data_file(name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"] and len(data) < 100_000
        levels = Counter(problem.source for problem in bundled(name.partition(".")[0], 1, 6))
        assert levels == dict.fromkeys(LEVELS, entry["each_level"])


def test_no_numbers_are_asked_for_twice():
    sample, tuning = ([p.group for p in bundled(name, 1, 6)] for name in ("problems", "tuning"))
    assert len(set(sample)) == len(sample) == 3000 and len(set(tuning)) == len(tuning) == 1200
    assert not set(sample) & set(tuning)
    texts = [problem.key for name in ("problems", "tuning") for problem in bundled(name, 1, 6)]
    assert len(set(texts)) == len(texts)


def worked_out(problem: Problem) -> int:
    """Work a problem out anew, from its words."""
    text, numbers = problem.text, [int(n) for n in re.findall(r"\d+", problem.text)]
    if "remainder" in text:
        power = "^" in text
        return (numbers[0] ** numbers[1] if power else numbers[0]) % numbers[-1]
    if "squares" in text:
        return sum(n * n for n in range(numbers[0], numbers[1] + 1))
    if "sum of all" in text:
        return sum(range(numbers[0], numbers[1] + 1))
    if symbols := re.search(r"[0-9][0-9 +*^-]*[0-9]", text):
        term = symbols[0].replace("^", "**")
        if re.search(r"[+*-]", term):
            return int(eval(term))
    if "in each" in text:
        return numbers[0] * numbers[1] + sum(numbers[2:])
    if "dollars" in text:
        return numbers[2] - numbers[0] * numbers[1]
    if re.search(r"buys|found", text):
        return numbers[0] + numbers[1] - numbers[2]
    if re.search(r"gives|lost|fewer", text):
        return numbers[0] - numbers[1]
    return numbers[0] + numbers[1]


@pytest.mark.parametrize("name", ["problems", "tuning"])
def test_every_answer_is_right(name: str):
    for problem in bundled(name, 1, 6):
        assert worked_out(problem) == int(problem.answer), problem.text


def test_the_generator_makes_the_bundled_rows_again(tool: ModuleType):
    manifest = json.loads(data_file("manifest.json").read_text())
    seed = manifest["problems.jsonl.zst"]["seed"]
    kept = {problem.text: problem for problem in bundled("problems", 1, 1)}
    for made, _ in zip(tool.problems(seed, 20, set()), range(20), strict=False):
        assert kept[made.text].answer == str(made.answer)
        assert kept[made.text].group == made.group


def test_excluded_groups_are_left_out(tool: ModuleType):
    first = next(tool.problems(5, 1, set()))
    other = next(tool.problems(5, 1, {first.group}))
    assert other.group != first.group


def test_the_default_splits(domain: MathDomain):
    assert domain.notes == ()
    sizes = {name: len(domain.split(name)) for name in ORDER}
    assert sizes == {"test": 200, "selection": 256, "harness": 256, "weight": 960}
    for name in ORDER:
        levels = Counter(example.source for example in domain.split(name))
        assert set(levels) == set(LEVELS) and min(levels.values()) >= len(domain.split(name)) // 12


def test_levels_are_chosen():
    domain = MathDomain(Config(source="tuning", lowest=3, highest=4, weight=64, **_small()), SETUP)
    for name in ORDER:
        assert {example.source for example in domain.split(name)} <= {"level 3", "level 4"}
    with pytest.raises(InputError, match=r"domain.lowest=4 is above domain.highest=2"):
        load(Config(lowest=4, highest=2))
    with pytest.raises(ValueError, match="lowest"):
        Config(lowest=7)


def _small() -> dict[str, int]:
    return {"harness": 16, "selection": 16, "test": 16}


def test_ids_tell_nothing_of_the_answer():
    one, other = Problem("What is 1 + 1?", "2", "g"), Problem("What is  1 + 1?", "3", "h")
    assert one.example().id == other.example().id and one.key == other.key


# --- splits ---------------------------------------------------------------------------------------


def make(count: int, per_group: int = 1) -> list[Problem]:
    return [Problem(f"problem {n}", str(n), f"g{n // per_group}") for n in range(count)]


SIZES = {"weight": 20, "harness": 10, "selection": 9, "test": 8}


def test_splits_are_disjoint_full_and_independent_of_row_order():
    rows = make(120, per_group=2)
    got = share_out(rows, SIZES, 1, "file")
    assert {name: len(found) for name, found in got.problems.items()} == {**SIZES, "selection": 8}
    groups = [{problem.group for problem in got.problems[name]} for name in ORDER]
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert share_out(rows[::-1], SIZES, 1, "file") == got
    assert share_out(rows, SIZES, 2, "file") != got
    larger = share_out(rows, {**SIZES, "weight": 60}, 1, "file")
    assert larger.problems["test"] == got.problems["test"]


def test_repeats_are_left_out_with_a_note_and_few_rows_shrink_all_splits():
    doubled = share_out([*make(60), *make(60)], SIZES, 1, "file")
    assert doubled.problems == share_out(make(60), SIZES, 1, "file").problems
    assert doubled.notes == ("file: 60 rows repeat a problem and were left out",)
    (note,) = share_out(make(100), {"weight": 160, **dict.fromkeys(_small(), 20)}, 1, "file").notes
    assert "weight 72 of 160" in note
    with pytest.raises(InputError, match=r"file: 20 different problems are too few.*8"):
        share_out(make(20), SIZES, 1, "file")


# --- files and published data sets ----------------------------------------------------------------

DAPO_TEXT = (
    "Solve the following math problem step by step. The last line of your response should be of "
    "the form Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
    "What is {n} + 1?\n\nFor\n\nsure.\n\nRemember to put your answer on its own line after "
    '"Answer:".'
)


def dapo(n: int) -> dict[str, Any]:
    return {
        "data_source": "math_dapo",
        "prompt": [{"role": "user", "content": DAPO_TEXT.format(n=n)}],
        "ability": "MATH",
        "reward_model": {"ground_truth": str(n + 1), "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": f"id-{n}"},
    }


def gsm8k(n: int) -> dict[str, Any]:
    answer = f"It is <<{n}+1000={n + 1000}>>{n + 1000}.\n#### {n + 1000:,}"
    return {"question": f"What is {n} and a thousand?", "answer": answer}


def math_500(n: int) -> dict[str, Any]:
    return {
        "problem": f"Write ${n}/2$ as a fraction.",
        "solution": rf"It is $\boxed{{\frac{{{n}}}{{2}}}}$.",
        "answer": rf"\frac{{{n}}}{{2}}",
        "subject": "Prealgebra",
        "level": 1,
        "unique_id": f"test/prealgebra/{n}.json",
    }


def aime_2024(n: int) -> dict[str, Any]:
    return {"ID": f"2024-I-{n}", "Problem": f"Find ${n}$.", "Solution": "…", "Answer": n}


def aime_2025(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "problem": f"Find ${n}$.",
        "answer": str(n),
        "solution": "…",
        "url": "https://example.org",
        "year": 2025,
    }


SETS = {
    "dapo": (dapo, ("What is 7 + 1?\n\nFor\n\nsure.", "8")),
    "gsm8k": (gsm8k, ("What is 7 and a thousand?", "1007")),
    "math500": (math_500, ("Write $7/2$ as a fraction.", r"\frac{7}{2}")),
    "aime2024": (aime_2024, ("Find $7$.", "7")),
    "aime2025": (aime_2025, ("Find $7$.", "7")),
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("source", SETS)
def test_published_columns_are_read_from_files(source: str, kind: str, tmp_path: Path):
    make_row, expected = SETS[source]
    path = write(tmp_path / f"rows.{kind}", [make_row(n) for n in range(9)])
    problems = load(Config(source=source, path=str(path))).problems
    assert (problems[7].text, problems[7].answer) == expected
    assert len({problem.group for problem in problems}) == 9


def test_a_number_that_a_table_made_a_float_is_the_number_again(tmp_path: Path):
    rows = [{**aime_2024(n), "Answer": float(n)} for n in range(9)]
    path = write(tmp_path / "rows.parquet", rows)
    assert load(Config(source="aime2024", path=str(path))).problems[7].answer == "7"
    for lost in (None, float("nan")):
        path = write(tmp_path / "lost.parquet", [*rows, {**rows[0], "Answer": lost}])
        with pytest.raises(InputError, match=r"row 10"):
            load(Config(source="aime2024", path=str(path)))


def test_the_repeats_of_dapo_are_left_out(tmp_path: Path):
    path = write(tmp_path / "dapo.parquet", [dapo(n % 40) for n in range(4000)])
    domain = MathDomain(Config(source="dapo", path=str(path), weight=16, **_eights()), SETUP)
    assert domain.notes == (f"{path}: 3,960 rows repeat a problem and were left out",)
    assert sum(len(domain.split(name)) for name in ORDER) == 40


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_repeats_are_dropped_row_by_row(kind: str, tmp_path: Path):
    """DAPO has a hundred times as many rows as problems: they must not be in memory together."""
    padded = {"extra_info": {"index": "x" * 2000}, "ability": "MATH" * 100}
    path = write(tmp_path / f"dapo.{kind}", [{**dapo(n % 40), **padded} for n in range(40)] * 150)
    tracemalloc.start()
    loaded = load(Config(source="dapo", path=str(path)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(loaded.problems) == 40 and loaded.notes == (
        f"{path}: 5,960 rows repeat a problem and were left out",
    )
    assert most < 8_000_000  # all rows take 25 MB


def test_contradicting_answers_of_a_problem_are_told(tmp_path: Path):
    rows = [{"question": f"What is {n}?", "answer": n} for n in (1, 2, 1, 3)]
    rows += [{"question": "what  is 2?", "answer": 20}, {"question": "What is 3?", "answer": 31}]
    path = write(tmp_path / "a.jsonl", rows)
    expected = (
        f"{path}: 3 rows repeat a problem and were left out",
        f"{path}: 2 repeated questions with another answer than before (line 5 after 2, 6 after "
        "4); the row counts that sorts first",
    )
    for order in (rows, rows[::-1]):
        loaded = load(Config(source="file", path=str(write(path, order))))
        answers = {problem.key: problem.answer for problem in loaded.problems}
        assert answers == {"what is 1?": "1", "what is 2?": "2", "what is 3?": "3"}
        assert order is not rows or loaded.notes == expected


def test_the_test_split_can_come_from_other_sets(tmp_path: Path):
    path = write(tmp_path / "pool.parquet", [dapo(n) for n in range(40)])
    first = write(tmp_path / "2024.jsonl", [aime_2024(n) for n in range(30)])
    second = write(tmp_path / "2025.parquet", [aime_2025(n + 30) for n in range(30)])
    shared = write(tmp_path / "500.jsonl", [math_500(n) for n in range(9)])
    sets = (
        Benchmark("aime2024", path=str(first)),
        Benchmark("aime2025", path=str(second)),
        Benchmark("math500", path=str(shared)),
    )
    sizes = {"weight": 16, "harness": 8, "selection": 8, "test": 100}
    domain = MathDomain(Config(source="dapo", path=str(path), test_from=sets[:2], **sizes), SETUP)
    told = Counter(example.source for example in domain.split("test"))
    assert told == {"aime2024": 30, "aime2025": 30}
    assert [len(domain.split(name)) for name in ("weight", "harness", "selection")] == [16, 8, 8]
    small = "domain.test_from has too few problems, so the split is smaller: test 60 of 100"
    assert small in domain.notes
    few = Config(source="dapo", path=str(path), test_from=sets[:1], **{**sizes, "test": 10})
    drawn = MathDomain(few, SETUP)
    assert len(drawn.split("test")) == 10 and drawn.notes == ()
    tiny = Benchmark("aime2024", path=str(write(tmp_path / "5.jsonl", [aime_2024(0)] * 9)))
    with pytest.raises(InputError, match=r"test_from: 1 different problems are too few.*8"):
        MathDomain(Config(source="dapo", path=str(path), test_from=(tiny,), **sizes), SETUP)
    own = Config(source="math500", path=str(shared), test_from=sets[2:], **sizes)
    with pytest.raises(InputError, match="0 different problems are too few"):
        MathDomain(own, SETUP)
    with pytest.raises(ValueError, match="source"):
        Benchmark("bundled")


def _eights() -> dict[str, int]:
    return {"harness": 8, "selection": 8, "test": 8}


def test_a_published_set_from_the_hub_needs_its_commit_and_says_what_it_used(
    monkeypatch: pytest.MonkeyPatch,
):
    import datasets

    asked: list[Any] = []

    def loaded(name: str, configuration: str | None, **settings: Any) -> Any:
        asked.append((name, configuration, settings))
        return datasets.Dataset.from_list([gsm8k(n) for n in range(5)])

    with pytest.raises(InputError, match=r"domain.revision: say which commit of openai/gsm8k"):
        load(Config(source="gsm8k"))
    monkeypatch.setattr(datasets, "load_dataset", loaded)
    found = load(Config(source="gsm8k", revision="abc"))
    assert asked == [("openai/gsm8k", "main", {"split": "train", "revision": "abc"})]
    assert len(found.problems) == 5 and "abc" in found.notes[0]

    def unreachable(*names: Any, **settings: Any) -> Any:
        raise ConnectionError("no route\nto it")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(InputError, match=r"openai/gsm8k at abc: cannot be loaded \(no route\)"):
        load(Config(source="gsm8k", revision="abc"))


def test_columns_of_ones_own(tmp_path: Path):
    rows = [{"q": f"What is {n}?", "a": n} for n in range(9)]
    path = write(tmp_path / "own.jsonl", rows)
    problems = load(Config(source="file", path=str(path), question="q", answer="a")).problems
    assert (problems[7].text, problems[7].answer) == ("What is 7?", "7")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", None, "no such file"),
        ("a.jsonl", "", "the file is empty"),
        ("a.jsonl", "\n\n", "the file is empty"),
        ("a.parquet", "", "not a readable Parquet file"),
        ("a.jsonl", '{"question": "a", "answer": "b"}\nnonsense\n', "line 2: not JSON"),
        ("a.jsonl", "[1]\n", "line 1: not a JSON object"),
        ("a.jsonl", '{"question": "a"}\n', "no column answer; there are: question; name them"),
        ("a.jsonl", '{"question": "a", "answer": ""}\n', "line 1 has no problem or no answer"),
        ("a.jsonl", '\n{"question": "a", "answer": []}', "line 2 is not of the expected form"),
        ("a.jsonl", '{"question": "a", "answer": "1"}\n{"question": "b"}', "line 2 has no answer;"),
        ("a.jsonl", b'{"question": "\xff"}\n', "line 1: not UTF-8 text"),
        ("a.jsonl", '{"question": "a", "answer": ' + "9" * 5000 + "}", "line 1: not JSON"),
        ("a.jsonl", b"\xef\xbb\xbf[1]\n", "line 1: not a JSON object"),
        ("a" * 5000, None, "no such file"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(
    name: str, text: str | bytes | None, said: str, tmp_path: Path
):
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(InputError) as caught:
        load(Config(source="file", path=str(path)))
    assert said in str(caught.value) and str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_home_folder_that_is_nobodys():
    with pytest.raises(InputError, match=r"path=~nobody-here/a.jsonl: no such file"):
        load(Config(source="file", path="~nobody-here/a.jsonl"))


def test_an_empty_parquet_file_and_missing_columns_of_a_published_set(tmp_path: Path):
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([("question", pyarrow.string()), ("answer", pyarrow.string())])
    parquet.write_table(schema.empty_table(), tmp_path / "empty.parquet")
    with pytest.raises(InputError, match="the file is empty"):
        load(Config(source="file", path=str(tmp_path / "empty.parquet")))
    path = write(tmp_path / "rows.jsonl", [gsm8k(1)])
    with pytest.raises(InputError, match=r"no column problem, solution, subject, level, unique_id"):
        load(Config(source="math500", path=str(path)))
    path = write(tmp_path / "rows.jsonl", [{"question": "a", "answer": "42"}])
    with pytest.raises(InputError, match=r"line 1 is not of the expected form .*####"):
        load(Config(source="gsm8k", path=str(path)))


def test_settings_that_contradict_each_other():
    with pytest.raises(InputError, match=r"domain\.source=file needs"):
        load(Config(source="file"))
    with pytest.raises(InputError, match="is not used with"):
        load(Config(path="a.jsonl"))


def test_real_gsm8k_rows(sample_data: Path):
    path = str(sample_data / "gsm8k_train_300.jsonl")
    domain = MathDomain(Config(source="gsm8k", path=path, weight=150, **_small()), SETUP)
    own = MathDomain(Config(source="file", path=path, weight=150, **_small()), SETUP)
    for name in ORDER:
        assert [e.id for e in own.split(name)] == [e.id for e in domain.split(name)]
        assert all(re.fullmatch(r"-?[\d.]+", e.content["answer"]) for e in domain.split(name))
    assert len(domain.split("weight")) == 150
