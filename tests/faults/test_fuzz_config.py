"""Configuration, damaged: an ``InputError`` of plain lines, whatever was written, and soon."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from whale_core.config import Resolved, resolve
from whale_core.config.yaml_text import line_of, load
from whale_core.errors import InputError, PluginError
from whale_core.plugins import hookimpl
from whale_core.plugins.manager import Plugins, load_plugins
from whale_core.plugins.registered import Origin
from whale_core.plugins.sets import PluginSet

LONGEST = 5.0  # seconds; most take milliseconds


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "mine.yaml"


def attempt(
    plugins: Plugins, files: Sequence[Path] = (), overrides: Sequence[str] = ()
) -> Resolved | list[str]:
    """Return the configuration, or the lines of the error."""
    started = time.monotonic()
    try:
        resolved = resolve(plugins, "smoke", files, overrides)
        resolved.to_yaml().encode()
        resolved.settings_hash()
    except InputError as error:
        lines = str(error).split("\n")
        assert all(line.strip() and len(line) < 2000 for line in lines)
        return lines
    finally:
        assert time.monotonic() - started < LONGEST
    return resolved


# --- files ----------------------------------------------------------------------------------------

KEYS = [
    "domain",
    "engine",
    "rollout",
    "seed",
    "harness",
    "search",
    "name",
    "examples",
    "model",
    "x",
]
scalar = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**4000), 10**4000)
    | st.floats()
    | st.text()
    | st.dates()
    | st.binary(max_size=8)
    | st.sampled_from(
        ["${seed}", "${seed", "${}", "${x.y}", "${oc.env:HOME}", "${oc.env:}", "${.x}", "???", "$"]
    )
)
key = st.sampled_from(KEYS) | st.text(max_size=5) | st.integers() | st.floats() | st.none()
tree = st.recursive(
    scalar,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(key, inner, max_size=4)
        | st.sets(st.integers(), max_size=2)
    ),
    max_leaves=12,
)


@given(st.dictionaries(key, tree, max_size=5) | tree)
def test_any_yaml_tree(plugins: Plugins, file: Path, value: Any) -> None:
    text = yaml.dump(value, allow_unicode=True)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = attempt(plugins, [file])
    if isinstance(found, list) and isinstance(value, dict) and value:
        assert any(str(file) in line for line in found), found


PIECES = "{ } [ ] : , - ? & * ! | > % @ ` \" ' # ~ \\ &a *a !! 0x_ 0b_ 1:99 2020-99-99 .nan -.inf"
PIECES += " --- ... seed domain name ${ a 1 1e5 \\ud800 <<:"
TAGS = "int float bool timestamp binary set omap python/object/apply:os.system"
pieces = st.sampled_from(
    [
        *PIECES.split(" "),
        *(f"!!{tag} " for tag in TAGS.split()),
        *("\n  ", ": ", "- ", "? ", "\n", "\t", " ", "\x00", "\x85", "\u2028", "\ufeff", "\ud800"),
    ]
)


@given(st.lists(pieces, max_size=30).map("".join))
@example("seed: 0x_\n")
@example("seed: !!int a\n")
@example("seed: !!timestamp a\n")
@example("seed: !!bool a\n")
@example("? [a]\n: 1\n")
@example("a: &a [*a]\n")
@example("<<: [1]\n")
@example("<<: {seed: 1}\nseed: 2\n")
def test_any_text(plugins: Plugins, file: Path, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = attempt(plugins, [file])
    if isinstance(found, list):
        assert any(str(file) in line for line in found), found
    attempt(plugins, (), [f"harness={text}", f"search.examples={text}"])


@given(st.binary(max_size=60))
def test_any_bytes(plugins: Plugins, file: Path, data: bytes) -> None:
    file.write_bytes(data)
    found = attempt(plugins, [file])
    if isinstance(found, list):
        assert any(str(file) in line for line in found), found


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    return "\n".join(lines)


def merged(levels: int) -> str:
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}")
    return "\n".join(lines)


def doubled(levels: int) -> str:
    lines = ["a0: lol"]
    lines += [f"a{level}: ${{a{level - 1}}}${{a{level - 1}}}" for level in range(1, levels)]
    return "\n".join(lines)


def copied(levels: int) -> str:
    lines = ["a0: {x: lol}"]
    for level in range(1, levels):
        lines.append(f"a{level}: {{x: '${{a{level - 1}}}', y: '${{a{level - 1}}}'}}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (laughs(30), "line 5: has more than 20000 values, aliases followed"),
        (merged(30), "line 5: has more than 20000 values"),
        (doubled(40), "a17: too large"),
        (copied(40), "a16: too large"),
        (doubled(9) + "\nseed: ${a9}", "a9"),
        ("[" * 100_000, "line 1: exceeded maximum nesting depth"),
        ("[" * 100, "line 1: nested more than 32 deep"),
        ("{a: " * 900, "line 1: nested more than 32 deep"),
        ("- " * 50_000, "line 1: nested more than 32 deep"),
        ("\n".join("  " * n + "a:" for n in range(400)), "line 33: nested more than 32 deep"),
        ("seed: &a [*a]", "line 1: the alias *a stands inside what it names"),
        ("seed: *b", "line 1: found undefined alias"),
        ("seed: 1\nseed: 2", "line 2: found duplicate key seed"),
        ("test:\n  draws: 1\n  draws: 2", "line 3: found duplicate key draws"),
        ("seed: 1\n\tx: 2", "line 2"),
        ("seed: 1\nharness: \x07", "line 2"),
        ("- 1\n- 2", "expected a mapping of settings"),
        ("just text", "expected a mapping of settings"),
        ("seed: 1\n---\nseed: 2", "expected a single document"),
        ("seed: ${seed}", "seed: refers to itself"),
        ("seed: ${test.draws}\ntest: {draws: '${seed}'}", "refers to itself"),
        ("search: '${search}'", "search: refers to itself"),
        ("search: {examples: '${search}'}", "search.examples: refers to itself"),
        ("seed: ${nowhere.at.all}", "seed: there is no setting 'nowhere.at.all' to refer to"),
        ("seed: ${oc.env:WHALE_NO_SUCH_NAME}", "seed: the environment has no variable 'WHALE_NO"),
        ("seed: ${oc.decode:abc}", "seed: cannot read the reference"),
        ("seed: ${${seed}}", "seed: cannot read the reference"),
        ("seed: ${", "seed: "),
        (
            "a0: 1\n" + "\n".join(f"a{n}: ${{a{n - 1}}}" for n in range(1, 3000)),
            "a32: more than 32 references after each other",
        ),
        ("seed: 0x" + "f" * 9000, "seed: expected int, got a whole number that is too large"),
        ("seed: " + "9" * 9000, "line 1: cannot be read as int"),
        ("seed: 9223372036854775808", "seed: expected int, got a whole number that is too large"),
        ("rollout: {temperature: 1" + "0" * 400 + "}", "rollout.temperature: expected a finite"),
        ("rollout: {temperature: .nan}", "rollout.temperature: expected a finite number"),
        ("rollout: {temperature: 1e999}", "rollout.temperature: expected a finite number"),
        ("seed: .inf", "seed: expected int, got float inf"),
        ("seed: 2020-01-01", "seed: expected int, got str '2020-01-01'"),
        ("seed: ???", "seed: "),
        ("1: 2", "1: unknown key"),
        ("null: 2", "line 1: a key must be text"),
        ("? {a: b}\n: 2", "line 1: "),
        ("0x" + "f" * 900 + ": 2", "unknown key"),
        ("seed: !!python/object/apply:os.system ['true']", "line 1: could not determine a cons"),
        ("engine: 7", "engine: expected a plugin's name"),
        ("engine: {name: [a]}", "engine.name: expected a plugin's name"),
        ("engine: {slots: [1]}", "engine.slots: expected int, got a list"),
        ("x" * 300_000 + ": 1", "longer than"),
        ("x: " + "y" * 2_000_000, "longer than"),
        ('harness: "\\ud800"', "line 1"),
    ],
    ids=range(49),
)
def test_what_must_not_be_built(plugins: Plugins, file: Path, text: str, said: str) -> None:
    file.write_text(text, encoding="utf-8")
    found = attempt(plugins, [file])
    assert isinstance(found, list)
    assert any(said in line and str(file) in line for line in found), found


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"seed: 1\nharness: \xff\n", "line 2: not UTF-8 text"),
        ("seed: 1".encode("utf-16"), "line 1: not UTF-8 text"),
        (b"seed: 1\n\0\0\0", "line 2: "),
    ],
)
def test_bytes_that_are_no_text(plugins: Plugins, file: Path, data: bytes, said: str) -> None:
    file.write_bytes(data)
    found = attempt(plugins, [file])
    assert isinstance(found, list) and said in found[0] and str(file) in found[0]


def test_a_byte_order_mark_and_nothing(plugins: Plugins, file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfseed: 3\r\n")
    found = attempt(plugins, [file])
    assert isinstance(found, Resolved) and found.core.seed == 3
    for empty in (b"", b"\xef\xbb\xbf", b"---\n", b"# only a remark\n", b"\n" * 50):
        file.write_bytes(empty)
        assert isinstance(attempt(plugins, [file]), Resolved)


def test_files_that_are_none(plugins: Plugins, tmp_path: Path) -> None:
    said = {
        tmp_path: "Is a directory",
        tmp_path / "gone.yaml": "No such file",
        Path("/dev/zero"): "longer than any configuration",  # and memory is not filled with it
        Path("/proc/self/mem"): "Input/output error",
        tmp_path / "nul\0": "null byte",
        tmp_path / ("x" * 300): "File name too long",
    }
    for path, reason in said.items():
        found = attempt(plugins, [path])
        assert isinstance(found, list) and reason in found[0] and str(path) in found[0]


def test_a_wrong_setting_is_shown_where_it_stands(
    plugins: Plugins, file: Path, tmp_path: Path
) -> None:
    file.write_text("seed: 1\nengine:\n  slots: none\n  slotz: 3\nverifier: toi\n")
    other = tmp_path / "other.yaml"
    other.write_text("\n\nseed: two\n")
    found = attempt(plugins, [file, other], ["test.draws=x"])
    assert found == [
        "verifier: no verifier is called 'toi', did you mean 'toy'?" + f" ({file}, line 5)",
        f"engine.slots: expected int, got str 'none' ({file}, line 3)",
        f"engine.slotz: unknown key, did you mean 'slots'? ({file}, line 4)",
        f"seed: expected int, got str 'two' ({other}, line 3)",
        "test.draws: expected int, got str 'x'",
    ]
    file.write_text("test:\n  draws: ${nowhere}\n")
    (line,) = attempt(plugins, [file])
    assert line.startswith("test.draws: ") and line.endswith(f"({file}, line 2)")


# --- settings on the command line -----------------------------------------------------------------


@given(st.lists(st.text(string.printable, max_size=30) | st.text(max_size=10), max_size=4))
def test_any_overrides(plugins: Plugins, items: list[str]) -> None:
    attempt(plugins, (), items)


@given(
    st.sampled_from(["seed", "engine.slots", "engine", "rollout.jail", "a.b.c", "harness"]), tree
)
def test_any_value(plugins: Plugins, name: str, value: Any) -> None:
    text = yaml.dump(value, default_flow_style=True).removesuffix("\n...\n").strip()
    attempt(plugins, (), [f"{name}={text}"])


def test_values_that_must_not_be_built(plugins: Plugins) -> None:
    for item in (
        "seed=" + "[" * 100_000,
        "a." * 5000 + "a=1",
        "seed=" + "9" * 9000,
        "seed=0x" + "f" * 9000,
        "seed=&a [*a]",
        "seed=\udcff",  # a byte of the command line that was no UTF-8
        "domain.puzzles=\udcff.csv",
        "seed=${seed}",
        "seed",
        "",
        "=",
    ):
        found = attempt(plugins, (), [item])
        assert isinstance(found, list) and len(found) == 1, found


# --- plugin sets ----------------------------------------------------------------------------------


def test_a_plugin_set_that_is_damaged_is_its_plugin_s_fault(tmp_path: Path) -> None:
    class Sets:
        @hookimpl
        def whale_register_plugin_sets(self) -> list[PluginSet]:
            return [PluginSet("broken", str(tmp_path / "broken.yaml"), "for a test")]

    plugins = load_plugins()
    plugins.add(Sets(), Origin("acme-sets", "1.0", "sets"))
    for data in (b"seed: [", b"\xff", b"- 1", laughs(20).encode(), b"[" * 5000):
        (tmp_path / "broken.yaml").write_bytes(data)
        with pytest.raises(PluginError, match=r"acme-sets 1\.0") as caught:
            resolve(plugins, "broken", (), ())
        assert "\n" not in str(caught.value)


def test_damaged_plugin_sets_of_ours(plugins: Plugins, file: Path) -> None:
    """The shipped sets as files, with characters changed, in a fixed order of 120 trials."""
    text = plugins.plugin_set("default")[0].read()
    draw = random.Random(7)
    for _ in range(120):
        at, size = draw.randrange(len(text)), draw.choice([0, 1, 1, 1, 5, 40])
        file.write_text(text[:at] + draw.choice("{}[]:,&* \n\t'\"x0") + text[at + size :])
        found = attempt(plugins, [file])
        if isinstance(found, list):
            assert any("line" in line and str(file) in line for line in found), found


# --- the reader alone -----------------------------------------------------------------------------

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(plain)
def test_what_was_written_is_read_back(value: Any) -> None:
    assert load(yaml.safe_dump(value)) == value


def test_lines_of_keys() -> None:
    text = "a:\n  b: [1,\n    {c: 2}]\n'd: e':\n  f: {g: 1}\n<<: [{h: 1},\n  {i: 2}]\n"
    paths = ("a", "a.b", "a.b[1]", "a.b[1].c", "d: e.f.g", "h", "i")
    assert [line_of(text, f"{path}: wrong") for path in paths] == [1, 2, 3, 3, 5, 6, 7]
    others = ("x", "a.x", "a.b[7]", "a.b.c", "", "d", "<<")
    assert [line_of(text, f"{path}: wrong") for path in others] == [None] * 7


def test_references_that_can_be_followed(
    plugins: Plugins, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHALE_TEST_NAME", "strong")
    file.write_text(
        "seed: ${test.draws}\n"
        "test: {draws: 7, examples: '${.draws}'}\n"
        "search: {examples: '${..seed}', draws: '${selection}'}\n"
        "selection: '${test}'\n"
        "harness: '${oc.env:WHALE_TEST_NAME}${oc.env:WHALE_NO_SUCH_NAME,er}'\n"
    )
    assert attempt(plugins, [file]) == [
        f"search.draws: expected int, got a mapping ({file}, line 3)"
    ]
    file.write_text(file.read_text().replace("${selection}", "${selection.draws}"))
    resolved = attempt(plugins, [file])
    assert isinstance(resolved, Resolved) and resolved.core.harness == "stronger"
    assert resolved.core.seed == resolved.core.test.examples == resolved.core.search.examples == 7
    assert resolved.core.selection.draws == resolved.core.search.draws == 7
