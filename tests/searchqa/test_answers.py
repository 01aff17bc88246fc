"""The frozen table of the exact-match rule, and three public rules beside ours."""

from __future__ import annotations

import asyncio
import re
import string
import unicodedata
from typing import NamedTuple

import pytest
from searchqa_kit import example, trajectory

from whale_core.plugins import Setup
from whale_core.records import Verdict
from whale_searchqa.answers import contained, exact_match, extract, normalise
from whale_searchqa.config import EmConfig
from whale_searchqa.em import EmVerifier


class Pair(NamedTuple):
    """An answer, its references, whether it is right, and which public rules say otherwise."""

    answer: str
    references: tuple[str, ...]
    right: bool
    differ: tuple[str, ...] = ()


PAIRS = [
    # spelling, case, punctuation, articles, blanks
    Pair("Paris", ("Paris",), True),
    Pair("paris", ("Paris",), True),
    Pair("PARIS", ("paris",), True),
    Pair("Paris.", ("Paris",), True),
    Pair(" Paris \n", ("Paris",), True),
    Pair('"Paris"', ("Paris",), True),
    Pair("**Paris**", ("Paris",), True),
    Pair("The Beatles", ("Beatles",), True),
    Pair("beatles", ("The Beatles",), True),
    Pair("a dog and an owl", ("dog and owl",), True),
    Pair("New  York\tCity", ("New York City",), True),
    Pair("St. Louis", ("St Louis",), True),
    Pair("U.S.A.", ("USA",), True),
    Pair("U. S. A.", ("USA",), False),
    Pair("rock'n'roll", ("rock n roll",), False),
    Pair("Jay-Z", ("JayZ",), True),
    Pair("Jay Z", ("Jay-Z",), False),
    Pair("twenty-one", ("twenty one",), False),
    Pair("1,000", ("1000",), True),
    Pair("3.5", ("35",), True),  # punctuation goes, the point of a number too
    Pair("-5", ("5",), True),
    Pair("$5", ("5",), True),
    Pair("50%", ("50",), True),
    Pair("C++", ("C",), True),
    Pair("A", ("A",), True),
    Pair("the", ("The",), True),
    Pair("the", ("a",), False, ("squad", "search-r1", "flashrag")),  # nothing is no answer
    Pair("", ("The",), False, ("squad", "search-r1", "flashrag")),
    Pair("?!", ("The",), False, ("squad", "search-r1", "flashrag")),
    Pair("?!", ("?!",), True),
    Pair("another", ("other",), False),  # articles are whole words
    Pair("Athens", ("the ns",), False),
    Pair("Theatre", ("atre",), False),
    # letters beyond ASCII
    Pair("Beyoncé", ("beyoncé",), True),
    Pair("Beyonce", ("Beyoncé",), False),
    Pair("É", ("é",), True),
    Pair("Caf\u0065\u0301", ("Caf\u00e9",), False, ("dpr",)),  # composed and not
    Pair("Straße", ("STRASSE",), False),
    Pair("東京", ("東京",), True),
    Pair("“Paris”", ("Paris",), False),  # only ASCII punctuation goes
    Pair("Lima\u00a0Peru", ("Lima Peru",), True),  # a no-break space is a blank
    Pair("1914–1918", ("1914-1918",), False),  # an en dash is not ASCII
    # several references
    Pair("Bill", ("William", "Bill"), True),
    Pair("Will", ("William", "Bill"), False),
    Pair("William, Bill", ("William", "Bill"), False),
    Pair("William Bill", ("William", "Bill"), False),
    Pair("Bill", ("", "Bill"), True),
    Pair("", ("", "Bill"), False, ("squad", "search-r1", "flashrag")),
    # more, less, other
    Pair("Paris, France", ("Paris",), False),
    Pair("Paris", ("Paris, France",), False),
    Pair("It is Paris", ("Paris",), False),
    Pair("Paris or London", ("Paris",), False),
    Pair("not Paris", ("Paris",), False),
    Pair("1914", ("1915",), False),
    Pair("in 1914", ("1914",), False),
    Pair("yes", ("no",), False),
    Pair("Yes.", ("yes",), True),
    Pair("7", ("seven",), False),
    Pair("Document 1 (Title: Paris) Paris is a city", ("Paris",), False),
]


def squad(answer: str, references: tuple[str, ...]) -> bool:
    """The evaluation script of SQuAD 1.1, from its description."""

    def plain(text: str) -> str:
        kept = "".join(each for each in text.lower() if each not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())

    return max(plain(answer) == plain(reference) for reference in references)


def search_r1(answer: str, references: tuple[str, ...]) -> bool:
    """Search-R1's exact-match reward, from its description: the first reference that fits."""
    score = 0
    for reference in references:
        sides = []
        for text in (answer, reference):
            text = "".join("" if each in string.punctuation else each for each in text.lower())
            for article in ("a", "an", "the"):
                text = re.sub(rf"(?<!\w){article}(?!\w)", " ", text)
            sides.append(re.sub(r"\s+", " ", text).strip())
        if sides[0] == sides[1]:
            score = 1
            break
    return score == 1


def flashrag(answer: str, references: tuple[str, ...]) -> bool:
    """FlashRAG's exact match, from its description: over lists of words."""

    def words(text: str) -> list[str]:
        text = re.sub("[" + re.escape(string.punctuation) + "]", "", text.lower())
        return [word for word in re.sub(r"\b(?:the|an?)\b", " ", text).split() if word]

    return any(words(answer) == words(reference) for reference in references)


def dpr(answer: str, references: tuple[str, ...]) -> bool:
    """DPR's reader: as SQuAD's, over decomposed letters. Nothing equals nothing there too."""
    texts = [unicodedata.normalize("NFD", text) for text in references]
    return squad(unicodedata.normalize("NFD", answer), tuple(texts))


PUBLIC = {"squad": squad, "search-r1": search_r1, "flashrag": flashrag}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: repr(pair.answer)[:24])
def test_the_frozen_table_of_comparisons(pair: Pair):
    assert exact_match(pair.answer, pair.references) is pair.right
    for name, rule in PUBLIC.items():
        assert rule(pair.answer, pair.references) is (pair.right != (name in pair.differ)), name
    if normalise(pair.answer):  # a fourth rule, which differs for letters with accents only
        assert dpr(pair.answer, pair.references) is (pair.right != ("dpr" in pair.differ))


class Reply(NamedTuple):
    """What a reply commits to: None for nothing."""

    text: str
    answer: str | None


REPLIES = [
    Reply("<answer>Paris</answer>", "Paris"),
    Reply("<answer> Paris\n</answer>", "Paris"),
    Reply("It is <answer>Paris</answer>, I think.", "Paris"),
    Reply("Paris", None),
    Reply("", None),
    Reply("<answer></answer>", ""),
    Reply("<answer>Paris", None),  # not closed
    Reply("Paris</answer>", None),  # not opened
    Reply("</answer>Paris<answer>", None),
    Reply("<answer>Paris<answer>", None),
    Reply("<answer>London</answer> no: <answer>Paris</answer>", "Paris"),  # the last
    Reply("<answer>Paris</answer> or <answer>London</answer>", "London"),
    Reply("<answer>Paris</answer> <answer>London", "Paris"),  # the last that is closed
    Reply("<answer>London <answer>Paris</answer>", "Paris"),  # the innermost
    Reply("<answer>London <answer>Paris</answer></answer>", "Paris"),
    Reply("<answer>London <answer>Paris</answer> Rome</answer>", "Paris"),
    Reply("<answer>Paris</answer> </answer>", "Paris"),  # a stray closing tag
    Reply("Write <answer></answer>: <answer>Paris</answer>", "Paris"),
    Reply("<answer>Paris</answer> as <answer></answer> asks", ""),
    Reply("<ANSWER>Paris</ANSWER>", None),
    Reply("<answer >Paris</answer>", None),
    Reply("<answer>Paris</answer", None),
    Reply("< answer>Paris</answer>", None),
    Reply("\\boxed{Paris}", None),
    Reply("<answer>a < b</answer>", "a < b"),
    Reply("<answer><b>Paris</b></answer>", "<b>Paris</b>"),
    Reply("<answer>Paris\nLondon</answer>", "Paris\nLondon"),
    Reply("<think><answer>London</answer></think><answer>Paris</answer>", "Paris"),
    # thinking commits to nothing
    Reply("<think>is it <answer>Paris</answer>", None),
    Reply("<think>is it <answer>Paris</answer></think> I do not know.", None),
    Reply("is it <answer>Paris</answer></think>", None),  # the template opened the thinking
    Reply("is it <answer>Rome</answer></think><answer>Paris</answer>", "Paris"),
    Reply("<think><answer>Rome</think><answer>Paris</answer>", "Paris"),
    Reply("<think><answer>Rome</think>Paris</answer>", None),
    Reply("<answer>Paris</answer> <think>or", None),
    Reply("<answer>Paris</answer><think>or</think> well", None),
    Reply("<answer>Rome</answer><think>no</think> <answer>Paris</answer>", "Paris"),
    Reply("<thinking><answer>Paris</answer>", "Paris"),  # another tag
    Reply("<search>Paris</search>", None),
]


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: repr(reply.text)[:32])
def test_the_frozen_table_of_replies(reply: Reply):
    assert extract(reply.text) == reply.answer


def test_there_are_enough_rows_and_no_two_alike():
    assert len(set(PAIRS)) + len(set(REPLIES)) == len(PAIRS) + len(REPLIES) >= 60


def verdict(replies: list[str], answer: str | None, references: tuple[str, ...]) -> Verdict:
    found = asyncio.run(
        EmVerifier(EmConfig(), Setup(seed=0)).verify(
            example(answers=references), trajectory(replies, answer)
        )
    )
    assert isinstance(found, Verdict)
    return found


RIGHT, WRONG = "<answer>Paris</answer>", "<answer>Rome</answer>"


@pytest.mark.parametrize(
    ("replies", "answer", "reward"),
    [
        ([RIGHT], RIGHT, 1.0),
        ([f"So: {RIGHT}."], RIGHT, 1.0),  # the span, or the whole reply
        ([f"So: {RIGHT}."], f"So: {RIGHT}.", 1.0),
        ([WRONG, RIGHT], RIGHT, 1.0),
        ([RIGHT, WRONG], RIGHT, 0.0),  # an earlier reply
        ([RIGHT, "I do not know"], RIGHT, 0.0),
        ([f"{RIGHT} {WRONG}"], RIGHT, 0.0),  # chosen by the harness, against the model's last word
        ([f"{WRONG} {RIGHT}"], RIGHT, 1.0),
        ([f"<answer>Rome {RIGHT}"], RIGHT, 1.0),
        (["<answer>Paris and Rome</answer>"], "Paris", 0.0),  # cut out of an answer
        (["Paris"], "Paris", 0.0),  # no tags in the reply
        (["Paris"], RIGHT, 0.0),  # tags that the program put around it
        (["<answer>Paris"], "<answer>Paris", 0.0),
        ([f"<think>{RIGHT}</think>{WRONG}"], RIGHT, 0.0),
        ([f"<think>{RIGHT}</think>"], RIGHT, 0.0),
        ([f"<think>{RIGHT}"], RIGHT, 0.0),
        ([f"<think>{WRONG}</think>{RIGHT}"], RIGHT, 1.0),
        ([RIGHT], None, 1.0),
        ([], None, 0.0),
        ([], RIGHT, 0.0),
        ([WRONG], WRONG, 0.0),
    ],
)
def test_only_the_last_reply_counts_and_the_harness_does_not_choose(
    replies: list[str], answer: str | None, reward: float
):
    assert verdict(replies, answer, ("Paris",)).reward == reward


def test_an_answer_with_more_words_is_wrong_but_told():
    found = verdict(["<answer>Paris, France</answer>"], None, ("Paris",))
    assert (found.reward, found.parts) == (0.0, {"contains": 1.0})
    assert verdict([RIGHT], None, ("The Paris",)).parts == {"contains": 1.0}
    assert verdict(["Paris"], None, ("Paris",)).parts == {"contains": 0.0}


def test_containing_is_by_whole_normalised_words():
    assert contained("Born in the U.S.A., in 1871.", ["USA"])
    assert contained("Born in 1871.", ["1900", "1871"])
    assert not contained("Born in 18711.", ["1871"])
    assert not contained("Born in 1871.", ["The", ""])
