"""What each search space admits, and a corpus of programs that try to get around prompt-only."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from metaharness_fakes import (
    H0,
    FakeContext,
    FakeDomain,
    ScriptedProposer,
    h,
    mutation,
    run,
    search,
)

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.roles import Candidate, Domain, Harness
from whale_metaharness.members import replace_members
from whale_metaharness.spaces import prompts_of, space_of

PROMPTS = space_of("prompt-only")
SYSTEM = 'SYSTEM_PROMPT = "You answer."'


def system(value: str) -> str:
    """Return the base harness with another statement in place of its system prompt's."""
    assert SYSTEM in H0
    return H0.replace(SYSTEM, value)


def first(statements: str) -> str:
    """Return the base harness with statements added at the top of its class."""
    return H0.replace('    """Asks once."""\n', f'    """Asks once."""\n\n{statements}')


ADMITTED = {
    "another text": system('SYSTEM_PROMPT = "Think."'),
    "no text": system('SYSTEM_PROMPT = ""'),
    "several literals in a row": system(
        'SYSTEM_PROMPT = (\n        "You "\n        "think."\n    )'
    ),
    "a raw literal": system(r'SYSTEM_PROMPT = r"\d answers"'),
    "a literal marked u": system('SYSTEM_PROMPT = u"Think."'),
    "three quotes": system('SYSTEM_PROMPT = """Think.\n\nThen answer."""'),
    "escapes": system(r'SYSTEM_PROMPT = "Think.\N{BULLET}\n\x41"'),
    "code as text": system('SYSTEM_PROMPT = "import os; os.system(1)"'),
    "both prompts": system('SYSTEM_PROMPT = "A"').replace("Question:\n", "Q:\n"),
    "comments": H0.replace("RETRIES = 0", "RETRIES = 0  # none"),
    "docstrings": H0.replace('"""Asks once."""', '"""Asks one time."""'),
    "layout": H0.replace("RETRIES = 0", "RETRIES = (\n        0\n    )"),
    "a type comment, which is a comment": system('SYSTEM_PROMPT = "A"  # type: int'),
    "a name in another normal form is the same name": system(
        '\uff33YSTEM_PROMPT = "Think."'  # full width
    ),
}

EVASIONS = {
    "a tuple with a side effect": system('SYSTEM_PROMPT = (print("x"), "You answer.")[1]'),
    "a tuple": system('SYSTEM_PROMPT = "You", "answer."'),
    "a conditional expression": system('SYSTEM_PROMPT = "A" if __debug__ else "B"'),
    "an f-string": system('SYSTEM_PROMPT = f"{__name__}"'),
    "an f-string without a field": system('SYSTEM_PROMPT = f"You answer."'),
    "an f-string beside a literal": system('SYSTEM_PROMPT = "You " f"{1 + 1}"'),
    "concatenation": system('SYSTEM_PROMPT = "You " + "answer."'),
    "concatenation with a call": system('SYSTEM_PROMPT = "You " + str(id(object))'),
    "a method of a literal": system('SYSTEM_PROMPT = "YOU".lower()'),
    "percent formatting": system('SYSTEM_PROMPT = "%s" % __name__'),
    "a walrus": system('SYSTEM_PROMPT = (RETRIES := "You answer.")'),
    "a chained assignment": system('SYSTEM_PROMPT = RETRIES = "You answer."'),
    "unpacking": system('SYSTEM_PROMPT, RETRIES = "A", 3'),
    "a lambda": system('SYSTEM_PROMPT = (lambda: "A")()'),
    "a comprehension": system('SYSTEM_PROMPT = "".join(c for c in "abc")'),
    "bytes": system('SYSTEM_PROMPT = b"You answer."'),
    "a number": system("SYSTEM_PROMPT = 1"),
    "None": system("SYSTEM_PROMPT = None"),
    "a name": system("SYSTEM_PROMPT = __doc__"),
    "an annotation that is evaluated": system('SYSTEM_PROMPT: print("x") = "You answer."'),
    "an annotation of a type": system('SYSTEM_PROMPT: str = "You answer."'),
    "an annotation with no value": system('SYSTEM_PROMPT: "You answer."'),
    "augmented assignment": system('SYSTEM_PROMPT = "A"\n    SYSTEM_PROMPT += "B"'),
    "a duplicate": system('SYSTEM_PROMPT = "A"\n    SYSTEM_PROMPT = "B"'),
    "a second statement on the line": system('SYSTEM_PROMPT = "A"; RETRIES = 3'),
    "a new constant": first('    OTHER_PROMPT = "Think."\n'),
    "a constant gone": system("pass"),
    "a look-alike name": system('\u0405YSTEM_PROMPT = "You answer."'),  # Cyrillic
    "another constant": H0.replace("RETRIES = 0", "RETRIES = 1"),
    "a string that is no prompt": H0.replace(r'r"\d+"', r'r"\w+"'),
    "a slot filled otherwise": H0.replace('"{question}", task["question"]', '"{question}", ""'),
    "a method changed": H0.replace("return match.group()", "return match.group().strip()"),
    "a method added": first("    def extra(self):\n        pass\n"),
    "a decorator": H0.replace("    def ask", "    @staticmethod\n    def ask"),
    "a decorator of the class": H0.replace("class Harness", "@print\nclass Harness"),
    "a keyword of the class": H0.replace("(BaseHarness)", '(BaseHarness, prompt="You answer.")'),
    "a metaclass": H0.replace("(BaseHarness)", "(BaseHarness, metaclass=type)"),
    "another base": H0.replace("(BaseHarness)", "(BaseHarness, dict)"),
    "a default argument": H0.replace("ask(self, task)", "ask(self, task, seen=[])"),
    "an annotated argument": H0.replace("ask(self, task)", "ask(self, task: print(1))"),
    "__init_subclass__": first("    def __init_subclass__(cls):\n        cls.RETRIES = 9\n"),
    "__class_getitem__": first("    def __class_getitem__(cls, key):\n        return key\n"),
    "__getattribute__": first("    def __getattribute__(self, name):\n        return 1\n"),
    "a nested class": first('    class Inner:\n        SYSTEM_PROMPT = "A"\n'),
    "a second class Harness": H0 + '\n\nclass Harness(Harness):\n    SYSTEM_PROMPT = "A"\n',
    "a first class Harness": H0.replace(
        "class Harness", 'class Harness:\n    X = print("x")\n\n\nclass Harness', 1
    ),
    "an assignment after the class": H0 + '\n\nHarness.SYSTEM_PROMPT = "A"\n',
    "a call after the class": H0 + '\n\nsetattr(Harness, "RETRIES", 3)\n',
    "an import": H0.replace("import re\n", "import re, json\n"),
    "an import from the future": H0.replace("import re\n", "from __future__ import annotations\n"),
    "an expression in the class": first('    print("x")\n'),
    "a string that is no docstring": first('    RETRIES\n    "text"\n'),
    "a branch around a prompt": system('if True:\n        SYSTEM_PROMPT = "A"'),
    "a loop over prompts": system('for SYSTEM_PROMPT in ("A", "B"):\n        pass'),
    "a global statement": first("    global RETRIES\n"),
    "a deletion": system('SYSTEM_PROMPT = "A"\n    del RETRIES'),
    "a match statement": system('match "A":\n        case SYSTEM_PROMPT:\n            pass'),
    "a try statement": system('try:\n        SYSTEM_PROMPT = "A"\n    finally:\n        pass'),
    "a with statement": system('with open("x") as SYSTEM_PROMPT:\n        pass'),
    "a subscript": system('SYSTEM_PROMPT = "A"\n    vars()["RETRIES"] = 3'),
}


@pytest.mark.parametrize("name", ADMITTED)
def test_prompt_only_admits(name: str) -> None:
    assert ADMITTED[name] != H0
    compile(ADMITTED[name], "h", "exec")
    assert PROMPTS.refuse(ADMITTED[name], H0) is None


@pytest.mark.parametrize("name", EVASIONS)
def test_prompt_only_refuses(name: str) -> None:
    assert EVASIONS[name] != H0
    if "global" not in name:
        compile(EVASIONS[name], "h", "exec")  # a program: it is not refused as none
    reason = PROMPTS.refuse(EVASIONS[name], H0)
    assert reason is not None
    assert reason.startswith(
        "prompt-only: only the text of SYSTEM_PROMPT, USER_PROMPT may change; "
    )


def test_the_reason_says_what_differs_and_where() -> None:
    said = PROMPTS.refuse(EVASIONS["another constant"], H0)
    line = H0.splitlines().index("    RETRIES = 0") + 1
    assert said is not None and said.endswith(f"; line {line}: RETRIES differs in class Harness")
    said = PROMPTS.refuse(EVASIONS["a constant gone"], H0)
    assert said is not None and "a statement is new in class Harness" in said
    said = PROMPTS.refuse(EVASIONS["an import"], H0)
    assert said is not None and "a statement is new outside class Harness" in said


def test_a_program_that_reads_its_docstrings_may_not_change_them() -> None:
    reader = H0.replace("return self.USER_PROMPT", "return self.__doc__ + self.USER_PROMPT")
    assert PROMPTS.refuse(reader.replace("Asks once.", "Asks!"), reader) is not None
    assert PROMPTS.refuse(reader.replace("You answer.", "Think."), reader) is None


def test_which_constants_are_prompts() -> None:
    assert list(prompts_of(H0)) == ["SYSTEM_PROMPT", "USER_PROMPT"]
    source = h('ROLE = "tool"\nA_PROMPT = "a"\nB_PROMPT = f"b"\nC_PROMPT = 1\nPROMPTS = "c"')
    assert prompts_of(source) == {"A_PROMPT": "a"}


MEMBERS = space_of("members", ("parse", "RETRIES"))


@pytest.mark.parametrize(
    ("source", "admitted"),
    [
        (H0.replace("RETRIES = 0", "RETRIES = 2"), True),
        (H0.replace("return match.group()", "return match.group().strip()"), True),
        (H0.replace("    RETRIES = 0\n", ""), True),
        (system('SYSTEM_PROMPT = "A"'), False),
        (H0.replace("RETRIES = 0", "RETRIES = OTHER = 2"), False),
        (H0.replace("RETRIES = 0", "RETRIES = 0\n    RETRIES = 2"), False),
        (first("    def extra(self):\n        pass\n"), False),
    ],
)
def test_named_members_may_change_and_nothing_else(source: str, admitted: bool) -> None:
    assert (MEMBERS.refuse(source, H0) is None) == admitted


def test_members_are_named_where_the_space_reads_them() -> None:
    with pytest.raises(InputError, match="they are read where space is members"):
        search(ScriptedProposer([]), members=("parse",))
    with pytest.raises(InputError, match="there are none; name the members of class Harness"):
        search(ScriptedProposer([]), space="members")
    with pytest.raises(InputError, match="'a b' is no name"):
        search(ScriptedProposer([]), space="members", members=("a b",))


def test_a_misspelt_member_is_not_passed_over(tmp_path: Path) -> None:
    """None of the names is there: an error. One is not: it is said, since it may be added."""
    wrong = search(ScriptedProposer([]), space="members", members=("prase",))
    with pytest.raises(InputError, match=r"\['prase'\]: .* has none of them; it has RETRIES, SYS"):
        run(wrong, FakeContext(tmp_path / "a"), 1)
    half = search(ScriptedProposer([]), space="members", members=("prase", "RETRIES"))
    (first,) = run(half, FakeContext(tmp_path / "b"), 1)
    assert first.accepted_reason.endswith(
        "; of harness_search.members it has no prase: candidates may add what is called so"
    )
    whole = search(ScriptedProposer([]), space="members", members=("parse", "RETRIES"))
    (first,) = run(whole, FakeContext(tmp_path / "c"), 1)
    assert first.accepted_reason.endswith(" of 64")


@pytest.mark.parametrize("space", ["full", "prompt-only", "members"])
def test_harnesses_that_do_not_parse_are_no_traceback(space: str, tmp_path: Path) -> None:
    settings = {"space": space, "members": ("parse",) if space == "members" else ()}
    domain = FakeDomain(harnesses={"base": H0, "broken": "class ("})
    (first,) = run(
        search(ScriptedProposer([]), domain, **settings), FakeContext(tmp_path, domain=domain), 1
    )
    assert first.accepted.source == H0
    broken = Harness(content_hash("class ("), "class (", "broken")
    with pytest.raises(InputError, match="refused by the gate 'parse': line 1"):
        context = FakeContext(tmp_path / "b", domain=domain, harness=broken)
        run(search(ScriptedProposer([]), domain, **settings), context, 1)


def test_a_search_of_prompts_needs_a_harness_with_prompts(tmp_path: Path) -> None:
    source = h("RETRIES = 1")
    context = FakeContext(tmp_path, harness=Harness(content_hash(source), source, "bare"))
    with pytest.raises(InputError, match=r"no constant \*_PROMPT that is a plain string"):
        run(search(ScriptedProposer([]), space="prompt-only"), context, 1)


@pytest.mark.parametrize("space", ["prompt-only", "members"])
def test_the_catalogue_proposer_keeps_to_the_space(space: str, tmp_path: Path) -> None:
    settings = {"members": ("parse", "RETRIES")} if space == "members" else {}
    found = run(search(mutation(), space=space, **settings), FakeContext(tmp_path), 5)
    candidates = [candidate for iteration in found[1:] for candidate in iteration.candidates]
    assert candidates and not any(candidate.rejection for candidate in candidates)
    changed = {candidate.axis for candidate in candidates} - {"crossover"}
    assert changed <= ({"prompt"} if space == "prompt-only" else {"parser", "retries"} | changed)
    admits = space_of(space, ("parse", "RETRIES"))
    assert all(admits.refuse(each.harness.source, H0) is None for each in candidates)


def test_a_candidate_outside_the_space_is_refused_by_the_search(tmp_path: Path) -> None:
    proposer = ScriptedProposer([[Candidate(EVASIONS["an f-string"], "h0000")]])
    _, second = run(search(proposer, space="prompt-only"), FakeContext(tmp_path), 2)
    rejection = second.candidates[0].rejection
    assert rejection is not None and rejection.gate == "space"


@cache
def domain(name: str) -> Domain:
    """Build one of the three domains with its default settings."""
    made: Domain
    if name == "chess":
        from whale_chess.config import Config as ChessConfig
        from whale_chess.domain import ChessDomain

        made = ChessDomain(ChessConfig(), Setup(0))
    elif name == "math":
        from whale_math.config import Config as MathConfig
        from whale_math.domain import MathDomain

        made = MathDomain(MathConfig(), Setup(0))
    else:
        from whale_searchqa.config import Config as QAConfig
        from whale_searchqa.domain import SearchQADomain

        made = SearchQADomain(QAConfig(), Setup(0))
    return made


@pytest.mark.parametrize("name", ["chess", "math", "searchqa"])
def test_each_domain_has_four_edits_of_prompts_alone(name: str) -> None:
    made = domain(name)
    for source in (made.harnesses[made.base_harness], made.harnesses["strong"]):
        edits = [e for e in made.catalogue if set(e.members) <= {"SYSTEM_PROMPT", "USER_PROMPT"}]
        edited = [replace_members(source, edit.members) for edit in edits]
        assert sum(PROMPTS.refuse(each, source) is None for each in edited) >= 4
