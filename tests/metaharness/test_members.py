from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metaharness_fakes import CATALOGUE, H0, h

from whale_metaharness.members import MemberError, check_member, members, replace_members

edits = st.sampled_from(CATALOGUE)


def constants(source: str) -> dict[str, object]:
    """Evaluate a class made of the source's constants alone."""
    cls = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in cls.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def test_members_are_listed_with_their_exact_source() -> None:
    found = members(H0)
    assert list(found) == ["SYSTEM_PROMPT", "USER_PROMPT", "RETRIES", "ask", "parse", "run"]
    assert found["RETRIES"].text == "RETRIES = 0\n"
    assert found["USER_PROMPT"].text == (
        'USER_PROMPT = """Question:\n{question}\nAnswer:"""  # the slot is filled by replacement\n'
    )
    assert found["ask"].text.startswith("# Fills the slot.\ndef ask(self, task):\n    return self.")


@given(st.sampled_from(list(members(H0))))
def test_putting_a_member_back_changes_nothing(name: str) -> None:
    assert replace_members(H0, {name: members(H0)[name].text}) == H0


@settings(max_examples=60, deadline=None)
@given(st.lists(edits, min_size=1, max_size=4))
def test_edits_are_applied_idempotent_and_leave_the_rest_alone(chosen: list) -> None:
    source = H0
    for edit in chosen:
        before = members(source)
        edited = replace_members(source, edit.members)
        after = members(edited)
        assert replace_members(edited, edit.members) == edited
        for name, text in edit.members.items():
            assert after[name].text == text
        others = [name for name in before if name not in edit.members]
        assert [after[name].text for name in others] == [before[name].text for name in others]
        for comment in (
            '"""A base harness."""',
            "    # --- prompts ---\n\n",
            '    """Asks once."""',
        ):
            assert comment in edited
        source = edited
    compile(source, "h", "exec")


def test_strings_keep_their_content_when_indented() -> None:
    text = 'A = (\n    """one\ntwo\n    three""",\n    f"""x\n{1}\ny""",\n    "p\\\nq",\n)\n'
    source = replace_members(h(), {"A": text})
    alone: dict[str, object] = {}
    exec(text, alone)
    exec(textwrap.dedent("class BaseHarness: pass\n") + source.split("\n", 1)[1], inside := {})
    assert vars(inside["Harness"])["A"] == alone["A"]
    assert members(source)["A"].text == text


def test_new_constants_go_before_the_methods_and_new_methods_to_the_end() -> None:
    source = replace_members(H0, {"NEW": "NEW = 1\n", "extra": "def extra(self):\n    pass"})
    assert list(members(source)) == [
        *("SYSTEM_PROMPT", "USER_PROMPT", "RETRIES", "NEW", "ask", "parse", "run", "extra"),
    ]
    assert source.endswith("\n\n    def extra(self):\n        pass\n")


def test_a_class_without_constants_takes_one() -> None:
    source = "class Harness:\n  # why\n  @staticmethod\n  def f():\n    return 1"
    edited = replace_members(
        source, {"A": "A = 2\n", "f": "# why\n@classmethod\ndef f(cls): return cls.A"}
    )
    assert (
        edited == "class Harness:\n  A = 2\n  # why\n  @classmethod\n  def f(cls): return cls.A\n"
    )


def test_decorators_and_windows_line_ends() -> None:
    method = "    @property\r\n    def f(self):\r\n        return 1\r\n"
    source = "class Harness:\r\n    A = 1\r\n\r\n" + method
    assert members(source)["f"].text == "@property\r\ndef f(self):\r\n    return 1\r\n"
    assert replace_members(source, {"A": "A = 2\r\n"}) == source.replace("A = 1", "A = 2")


def test_form_feeds_and_line_separators_do_not_shift_lines() -> None:
    source = 'class Harness:\n    A = "\u2028 \x0c"\n    B = 1\n'
    assert members(source)["B"].text == "B = 1\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("A", "A = (", "member 'A' does not parse"),
        ("A", "B = 1", "one definition of that name at column 0, it has B"),
        ("A", "A = 1; B = 2", "it has A, B"),
        ("A", "A = 1\nA = 2", "it has A, A"),
        ("A", "", "it has none"),
        ("A", "    A = 1", "does not parse"),
    ],
)
def test_bad_edits_are_named(name: str, text: str, message: str) -> None:
    with pytest.raises(MemberError, match=message):
        check_member(name, text)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "no top-level class Harness"),
        ("class Harness: A = 1", "body on its own line"),
        ("class Harness:\n    A = 1; B = 2", "'A' of class Harness is not a plain member"),
        ("class Harness:\n    A = 1\n    A = 2", "'A' of class Harness is not a plain member"),
        ("class Harness:\n    A, B = 1, 2", "'A' of class Harness is not a plain member"),
        ("class Harness:\n    if True:\n        A = 1", "'A' of class Harness is not a plain"),
        ("class Harness(", "does not parse"),
    ],
)
def test_sources_that_cannot_take_an_edit_say_why(source: str, message: str) -> None:
    with pytest.raises(MemberError, match=message):
        replace_members(source, {"A": "A = 3\n"})
