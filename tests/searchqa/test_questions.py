"""Questions from files: columns, splits, benchmarks, and what is said of bad ones."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.run.parts import check_splits
from whale_searchqa import benchmarks
from whale_searchqa.config import Config
from whale_searchqa.domain import SearchQADomain
from whale_searchqa.questions import Question, bundled, load
from whale_searchqa.splits import Pool, apportioned, one_pool, share_out

GOOD = {"id": "1", "question": "Who?", "golden_answers": ["Otto"], "metadata": {"hops": 1}}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write rows as JSONL."""

    def lines(*rows: Any, name: str = "questions.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
        return path

    return lines


def asked(count: int, prefix: str = "Who is") -> list[dict[str, Any]]:
    return [
        {"id": str(n), "question": f"{prefix} number {n}?", "golden_answers": [f"name {n}"]}
        for n in range(count)
    ]


def test_columns_are_read(write: Write):
    row = {
        **GOOD,
        "golden_answers": [" Otto ", "Otto", "O."],
        "metadata": {"group": "g", "hops": 2},
    }
    [question] = load(write(row, "")).questions
    assert question == Question("Who?", ("Otto", "O."), "g", "", 2)
    [plain] = load(write({"question": " Who is it? ", "golden_answers": ["Otto"]})).questions
    assert (plain.text, plain.group, plain.hops) == ("Who is it?", "who is it", None)
    odd = {"question": "Who?", "golden_answers": ["x"], "metadata": ["a list"]}
    assert load(write(odd)).questions[0].hops is None


def test_a_question_asked_twice_is_kept_once(write: Write):
    again = {"question": "who is the  Otto", "golden_answers": ["z"]}
    found = load(write({"question": "Who is Otto?", "golden_answers": ["x"]}, again))
    assert [question.answers for question in found.questions] == [("x",)]


def test_contradicting_answers_of_a_question_are_told(write: Write):
    def row(question: str, *answers: str) -> dict[str, Any]:
        return {"question": question, "golden_answers": answers}

    same = write(row("Who?", "The Otto", "x"), row("who", "X", "Otto"))
    assert load(same).notes == ()
    path = write(row("Who?", "Otto"), row("Where?", "a"), row("who", "Karl"), row("who", "otto"))
    note = (
        f"{path}: 1 repeated question with another answer than before (line 3 after 1); the first "
        "answers count"
    )
    assert load(path).notes == (note,)
    path = write(row("Who is number 7?", "another"), *asked(80))
    domain = SearchQADomain(Config(questions=str(path), corpus=corpus(write)), Setup(seed=0))
    assert "1 repeated question with another answer" in domain.notes[0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question": "Who?"}, "line 2: no column golden_answers"),
        ({"golden_answers": ["x"]}, "line 2: no column question"),
        ({"id": 1}, "line 2: no column question, golden_answers"),
        ({"question": 7, "golden_answers": ["x"]}, "line 2: question is '7', not a text"),
        ({"question": " ", "golden_answers": ["x"]}, "line 2: question is"),
        ({"question": "Who?", "golden_answers": "x"}, "line 2: golden_answers is 'x'"),
        ({"question": "Who?", "golden_answers": []}, "line 2: golden_answers"),
        ({"question": "Who?", "golden_answers": ["x", " "]}, "line 2: golden_answers"),
        ({"question": "Who?", "golden_answers": [7]}, "line 2: golden_answers"),
        ({"question": "Who \ud800?", "golden_answers": ["x"]}, "holds half a surrogate"),
        ({"question": "Who?", "golden_answers": ["x", "\udfff"]}, "holds half a surrogate"),
        ("{not json", "line 2: not JSON"),
        ("[" * 200_000, "line 2: not JSON"),
        ("[1]", "line 2: not a JSON object"),
    ],
)
def test_a_bad_row_is_named(row: Any, said: str, write: Write):
    with pytest.raises(InputError) as caught:
        load(write(GOOD, row))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, write: Write):
    for path, said in (
        (tmp_path / "none.jsonl", "No such file"),
        (tmp_path, "a folder"),
        (write("", name="empty.jsonl"), "no questions"),
    ):
        with pytest.raises(InputError, match=said):
            load(path)
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b no gzip")
    with pytest.raises(InputError, match=r"bad\.gz"):
        load(tmp_path / "bad.gz")
    damaged = bytearray(gzip.compress(b"x" * 999))
    damaged[10] = 0xFF  # the kind of the first block: there is none such
    (tmp_path / "damaged.gz").write_bytes(damaged)
    with pytest.raises(InputError, match=r"damaged\.gz"):
        load(tmp_path / "damaged.gz")
    (tmp_path / "latin.jsonl").write_bytes(b'{"question": "\xe9"}')
    with pytest.raises(InputError, match="UTF-8"):
        load(tmp_path / "latin.jsonl")


# --- splits ---------------------------------------------------------------------------------------

SIZES = {"weight": 40, "harness": 20, "selection": 20, "test": 20}


def questions(count: int, groups: int) -> list[Question]:
    return [Question(f"q{n}", ("a",), f"g{n % groups}") for n in range(count)]


def test_whole_groups_whatever_the_order_and_the_other_sizes():
    some = questions(300, 60)
    pools, notes = one_pool(some, SIZES, "here")
    shared = share_out(pools, 1, "here")
    assert notes == shared.notes == ()
    assert {name: len(found) for name, found in shared.questions.items()} == SIZES
    groups = [{q.group for q in found} for found in shared.questions.values()]
    assert sum(map(len, groups)) == len(set().union(*groups))
    backwards = share_out(one_pool(some[::-1], SIZES, "here")[0], 1, "here")
    assert backwards.questions == shared.questions
    larger = share_out(one_pool(some, {**SIZES, "weight": 90}, "here")[0], 1, "here")
    assert larger.questions["test"] == shared.questions["test"]
    other = share_out(pools, 2, "here")
    assert other.questions["test"] != shared.questions["test"]


def test_too_few_questions_shrink_all_splits_and_say_so():
    pools, [note] = one_pool(questions(50, 50), SIZES, "here")
    shared = share_out(pools, 1, "here")
    assert note.startswith("here has too few usable questions") and "test 10 of 20" in note
    assert {name: len(found) for name, found in shared.questions.items()} == {
        "weight": 20,
        "harness": 10,
        "selection": 10,
        "test": 10,
    }
    with pytest.raises(InputError, match=r"here: too few usable questions: split 'test' would"):
        one_pool(questions(30, 30), SIZES, "here")
    with pytest.raises(InputError, match="split 'weight' would have 0"):
        share_out({name: [Pool(questions(30, 3), 8)] for name in SIZES}, 1, "here")


def test_apportioning_loses_nothing():
    assert apportioned(256, {"hotpotqa": 200, "nq": 56}) == {"hotpotqa": 200, "nq": 56}
    assert sum(apportioned(100, dict.fromkeys("abcdefg", 1)).values()) == 100
    assert apportioned(700, dict.fromkeys("abcdefg", 1)) == dict.fromkeys("abcdefg", 100)
    assert apportioned(1, {"a": 1, "b": 9}) == {"a": 0, "b": 1}


# --- domain ---------------------------------------------------------------------------------------


def corpus(write: Write) -> str:
    rows = [{"id": str(n), "contents": f'"Name {n}"\nname {n} is number {n}.'} for n in range(20)]
    return str(write(*rows, name="corpus.jsonl"))


def test_a_file_of_questions_with_its_corpus(write: Write):
    path = write(*asked(80))
    domain = SearchQADomain(Config(questions=str(path), corpus=corpus(write)), Setup(seed=0))
    assert "weight 44 of 960" in domain.notes[0]
    check_splits(domain)
    assert {len(domain.split(name)) for name in ("harness", "selection", "test")} == {11}


def probed(config: Config) -> None:
    domain = SearchQADomain(config, Setup(seed=0))

    async def work() -> None:
        try:
            await domain.probe()
        finally:
            await domain.close()

    asyncio.run(work())


def test_the_bundled_questions_are_not_put_to_passages_of_something_else(write: Write):
    other = corpus(write)
    with pytest.raises(InputError, match=r"domain.corpus=.* is set, but the questions are those"):
        probed(Config(corpus=other))
    with pytest.raises(InputError, match=r"of 32 it finds an answer to \d:"):
        probed(Config(tuning=True, corpus=str(bundled("world") / "corpus.jsonl.gz")))
    for hops in (0, 1, 2):
        probed(Config(hops=hops, corpus=str(bundled("world") / "corpus.jsonl.gz")))
    probed(Config(questions=str(write(*asked(80))), corpus=other))
    probed(Config())


def test_the_version_tells_the_corpus(write: Write, domain: SearchQADomain):
    config = Config(questions=str(write(*asked(80))), corpus=corpus(write))
    mine = SearchQADomain(config, Setup(seed=0)).version
    assert mine != domain.version == SearchQADomain(Config(), Setup(seed=9)).version


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Config(questions="q.jsonl"), "nothing to search"),
        (Config(benchmarks="hub"), "nothing to search"),
        (Config(questions="q.jsonl", tuning=True), "both set"),
        (Config(questions="q.jsonl", benchmarks="hub"), "both set"),
        (Config(benchmarks="hub", corpus="c.jsonl", hops=1), "domain.hops"),
        (Config(hops=3), "hops=3"),
        (Config(corpus="/none.jsonl"), "/none.jsonl"),
        (Config(test=0), "domain.test=0"),
    ],
)
def test_settings_that_do_not_go_together(config: Config, said: str):
    with pytest.raises(InputError) as caught:
        SearchQADomain(config, Setup(seed=0))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_an_empty_corpus_and_a_missing_column_of_it(write: Write):
    config = Config(questions=str(write(*asked(80))))
    for rows, said in ((("",), "empty"), (({"id": "1", "text": "x"},), "contents")):
        path = write(*rows, name="bad.jsonl")
        with pytest.raises(InputError, match=said):
            SearchQADomain(evolve(config, corpus=str(path)), Setup(seed=0))


@pytest.mark.skipif("WHALE_SAMPLE_DATA" not in os.environ, reason="WHALE_SAMPLE_DATA is not set")
def test_real_questions_and_passages():
    folder = Path(os.environ["WHALE_SAMPLE_DATA"])
    config = Config(
        questions=str(folder / "hotpotqa_100.jsonl"), corpus=str(folder / "wiki_corpus_1700.jsonl")
    )
    domain = SearchQADomain(config, Setup(seed=0))
    assert "weight 55 of 960" in domain.notes[0]
    check_splits(domain)


# --- benchmarks -----------------------------------------------------------------------------------

TRAINED = {"nq": 30, "hotpotqa": 90}


@pytest.fixture
def copy(write: Write, tmp_path: Path) -> Path:
    """A folder with FlashRAG's files and columns."""
    for name, part in benchmarks.TESTED.items():
        rows = [{**row, "metadata": {"source": name}} for row in asked(12, f"In {name}, who is")]
        write(*rows, name=f"{name}/{part}.jsonl")
    for name, count in TRAINED.items():
        write(*asked(count, f"For training on {name}, who is"), name=f"{name}/train.jsonl")
    return tmp_path


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what `datasets` converts out of the user's cache."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def config_of(copy: Path, write: Write, **settings: Any) -> Config:
    sizes: dict[str, Any] = {"weight": 24, "harness": 32, "selection": 32, "test": 70}
    return Config(benchmarks=str(copy), corpus=corpus(write), **{**sizes, **settings})


def test_a_question_of_two_benchmarks_is_asked_once(copy: Path, write: Write):
    rows = [{**row, "metadata": {}} for row in asked(12, "In nq, who is")]
    write(*rows, name=f"triviaqa/{benchmarks.TESTED['triviaqa']}.jsonl")
    domain = SearchQADomain(config_of(copy, write), Setup(seed=0))
    check_splits(domain)
    assert [one.source for one in domain.split("test")].count("triviaqa") == 2
    assert domain.notes


def test_the_seven_benchmarks_share_the_test_and_two_train(copy: Path, write: Write):
    domain = SearchQADomain(config_of(copy, write), Setup(seed=0))
    check_splits(domain)
    assert domain.notes == ()

    def sources(split: str) -> dict[str, int]:
        found = [one.source for one in domain.split(split)]
        return {name: found.count(name) for name in dict.fromkeys(found)}

    assert sources("test") == dict.fromkeys(benchmarks.TESTED, 10)
    assert sources("harness") == sources("selection") == {"hotpotqa": 25, "nq": 7}
    assert sources("weight") == {"hotpotqa": 18, "nq": 6}


def test_the_published_sizes_are_asked_for_and_what_is_missing_is_told(copy: Path, write: Write):
    sizes = dict.fromkeys(("weight", "harness", "selection", "test"), -1)
    with pytest.raises(InputError, match="split 'harness' would have"):
        SearchQADomain(config_of(copy, write, **sizes), Setup(seed=0))
    small = config_of(copy, write, test=-1)
    assert "test 84 of 700" in SearchQADomain(small, Setup(seed=0)).notes[0]


def test_a_training_question_that_is_tested_too_is_not_trained_on(copy: Path, write: Write):
    tested = json.loads((copy / "nq/test.jsonl").read_text().splitlines()[0])
    write(*asked(30, "For training on nq, who is"), tested, name="nq/train.jsonl")
    domain = SearchQADomain(config_of(copy, write, test=84, weight=60), Setup(seed=0))
    check_splits(domain)
    trained = {one.content["question"] for one in domain.split("weight")}
    assert tested["question"] not in trained


def test_a_missing_file_or_column_of_a_benchmark_is_named(copy: Path, write: Write):
    config = config_of(copy, write)
    write({"question": "x"}, name="popqa/test.jsonl")
    with pytest.raises(InputError, match=r"popqa/test\.jsonl: line 1: no column golden_answers"):
        SearchQADomain(config, Setup(seed=0))
    (copy / "popqa/test.jsonl").unlink()
    with pytest.raises(InputError, match=r"there is no popqa/test\.jsonl"):
        SearchQADomain(config, Setup(seed=0))
    write("{", name="nq/train.jsonl")
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        SearchQADomain(config, Setup(seed=0))
    assert "\n" not in str(caught.value)


def test_the_hub_is_asked_for_the_pinned_commit(monkeypatch: pytest.MonkeyPatch, write: Write):
    """No network here: what is asked for, not what comes back."""
    import datasets

    asked_for: list[tuple[Any, ...]] = []

    def load_dataset(path: str, **settings: Any) -> Any:
        asked_for.append((path, settings["data_files"], settings["revision"], settings["split"]))
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(InputError, match=r"hotpotqa/train\.jsonl: cannot be loaded"):
        SearchQADomain(Config(benchmarks="hub", corpus=corpus(write)), Setup(seed=0))
    revision = "5eb464920f16249636739594a12691f4ad4295f7"
    assert asked_for == [("RUC-NLPIR/FlashRAG_datasets", "hotpotqa/train.jsonl", revision, "train")]
