import json
from collections.abc import Callable
from pathlib import Path

import pytest
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.testing.contracts import check_domain, check_registrations, check_verifier

from whale_example_jsonl import plugin
from whale_example_jsonl.config import Config, VerifierConfig
from whale_example_jsonl.domain import JsonlDomain
from whale_example_jsonl.verifier import AnswerMatch

SETUP = Setup(seed=0)


def test_registrations() -> None:
    check_registrations(plugin)


def test_domain() -> None:
    verifier = AnswerMatch(VerifierConfig(), SETUP)
    check_domain(JsonlDomain, Config(), verifier, hidden=["answer"])


@pytest.mark.parametrize("rule", ["exact", "ignore-case", "number"])
def test_verifier(rule: str) -> None:
    domain = JsonlDomain(Config(), SETUP)
    settings = VerifierConfig(rule=rule)
    check_verifier(AnswerMatch, settings, domain, lambda example: example.content["answer"])


@pytest.mark.parametrize(
    ("rule", "given", "wanted", "equal"),
    [
        ("exact", " Paris\n", "Paris", True),
        ("exact", "paris", "Paris", False),
        ("ignore-case", "new  york", "New York", True),
        ("ignore-case", "newyork", "New York", False),
        ("number", "1,200.4", "1200", True),
        ("number", "1200.6", "1200", False),
        ("number", "about 1200", "1200", False),
        ("number", "nan", "nan", False),
    ],
)
def test_rules(rule: str, given: str, wanted: str, equal: bool) -> None:
    verifier = AnswerMatch(VerifierConfig(rule=rule, tolerance=0.5), SETUP)
    assert verifier.equal(given, wanted) is equal


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    def write(*rows: object) -> str:
        path = tmp_path / "rows.jsonl"
        texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(texts) + "\n")
        return str(path)

    return write


def test_groups_stay_together(file: Callable[..., str]) -> None:
    rows = [{"q": f"{n}?", "a": "yes", "who": n % 9} for n in range(90)]
    config = Config(path=file(*rows), question="q", answer="a", group="who")
    domain = JsonlDomain(config, SETUP)
    splits = ("weight", "harness", "selection", "test")
    groups = [{example.group for example in domain.split(name)} for name in splits]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 9
    assert sum(len(domain.split(name)) for name in splits) == 90


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "line 2: not JSON"),
        ([1], "line 2: not a JSON object"),
        ({"question": "?"}, "line 2: no column 'answer'"),
        ({"question": "?", "answer": None}, "line 2: 'answer' must be"),
    ],
)
def test_a_bad_line_is_named(file: Callable[..., str], row: object, said: str) -> None:
    path = file({"question": "a", "answer": "b"}, row)
    with pytest.raises(InputError, match=said):
        JsonlDomain(Config(path=path), SETUP)


def test_too_few_lines_and_no_file(file: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few"):
        JsonlDomain(Config(path=file({"question": "a", "answer": "b"})), SETUP)
    with pytest.raises(InputError, match="cannot be read"):
        JsonlDomain(Config(path=str(tmp_path / "none.jsonl")), SETUP)
