"""The tools of an agentic proposer: read the workspace, write the outbox, try things out.

Paths are relative to the workspace folder. What the model sends is not trusted: names are checked
part by part, links are not followed, sizes are bounded, and every mistake is an answer that says
what is wrong. Tools are used one after the other, in the order in which they were called.
"""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.records import Json
from whale_core.roles import Rejection, Workspace
from whale_metaharness.proposers.conversation import ToolCall, ToolResult, ToolSpec
from whale_metaharness.proposers.transcript import Transcript

MOST_SHOWN = 24_000  # characters of one answer
MOST_ENTRIES = 400  # files listed
MOST_HITS = 60  # places found
AROUND = 160  # characters shown of a place, either side
MOST_WRITTEN = 1 << 18  # bytes of a file
MOST_SLOTS = 32
SLOT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
FILES = ("harness.py", "metadata.json")
REPORT = "report.md"
OUTBOX = "outbox"

_PATH: Mapping[str, Json] = {"type": "string", "description": "relative to the workspace folder"}
_TEXT: Mapping[str, Json] = {"type": "string"}
_COUNT: Mapping[str, Json] = {"type": "integer", "minimum": 0}
_FLAG: Mapping[str, Json] = {"type": "boolean"}
_NAMES: Mapping[str, Json] = {"type": "array", "items": {"type": "string"}}

TOOLS = (
    ToolSpec("list_files", "List the files below a folder, with their sizes.", {"path": _PATH}, ()),
    ToolSpec(
        "read_file",
        "Read a file, or its lines `first` to `last` (from 1). A long answer is cut and says how "
        "to go on; `skip` leaves out so many characters of the first line.",
        {"path": _PATH, "first": _COUNT, "last": _COUNT, "skip": _COUNT},
        ("path",),
    ),
    ToolSpec(
        "search",
        "Find a text (no pattern) in a file or in all files below a folder.",
        {"text": _TEXT, "path": _PATH, "ignore_case": _FLAG},
        ("text",),
    ),
    ToolSpec(
        "write_file",
        "Write a file of the outbox, in place of an older one: outbox/<name>/harness.py, "
        "outbox/<name>/metadata.json or outbox/report.md.",
        {"path": _PATH, "content": _TEXT},
        ("path", "content"),
    ),
    ToolSpec(
        "copy_file",
        "Copy any file of the workspace to a place in the outbox, to be edited there.",
        {"source": _PATH, "path": _PATH},
        ("source", "path"),
    ),
    ToolSpec(
        "edit_file",
        "Replace a text in a file of the outbox. `old` must occur exactly once, unless `all` is "
        "true.",
        {"path": _PATH, "old": _TEXT, "new": _TEXT, "all": _FLAG},
        ("path", "old", "new"),
    ),
    ToolSpec(
        "validate",
        "Send a candidate through all gates, as the search will; says which refuses it and why.",
        {"candidate": {"type": "string", "description": "its name: outbox/<name>/harness.py"}},
        ("candidate",),
    ),
    ToolSpec(
        "try",
        "Execute a candidate on the replies that were recorded for a shown example; says what it "
        "sends, what it is answered, and how it ends.",
        {
            "candidate": {"type": "string", "description": "its name: outbox/<name>/harness.py"},
            "example": {"type": "string", "description": "the id of a shown example"},
        },
        ("candidate", "example"),
    ),
    ToolSpec(
        "finish",
        "Hand in the candidates and end the session. If a gate refuses one, its reason comes back "
        "and there is a chance to mend it. `candidates` names which to hand in (default: all).",
        {"candidates": _NAMES},
        (),
    ),
)
FINISH = "finish"
SPECS = {tool.name: tool for tool in TOOLS}


class Misuse(ValueError):
    """What is wrong with a call, in words for the model."""


@frozen
class Check:
    """What the gates said of a source: ``problem`` is empty if all let it pass. ``refused`` is
    False if it could not be checked."""

    problem: str = ""
    refused: bool = False


class Toolbox:
    """The tools of one session."""

    def __init__(self, workspace: Workspace, transcript: Transcript) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._transcript = transcript
        self._tools: Mapping[str, Callable[[Mapping[str, Json]], Awaitable[str]]] = {
            "list_files": self._list,
            "read_file": self._read,
            "search": self._search,
            "write_file": self._write,
            "copy_file": self._copy,
            "edit_file": self._edit,
            "validate": self._validate,
            "try": self._try,
        }

    async def use(self, call: ToolCall) -> ToolResult:
        """Do what a call of any tool but ``finish`` wants, and answer it.

        Trouble of the run itself (a cap, the engine, the disk) is raised.
        """
        try:
            check_call(call)
            text = await self._tools[call.name](call.arguments)
        except Misuse as error:
            return ToolResult(call.id, f"error: {error}", error=True)
        return ToolResult(call.id, text)

    def slots(self) -> list[str]:
        """Return the names of the outbox's candidates, in order."""
        outbox = self._workspace.outbox
        return sorted(
            path.parent.name for path in outbox.glob("*/harness.py") if not path.is_symlink()
        )

    def remove(self, slot: str) -> None:
        """Take a candidate out of the outbox."""
        shutil.rmtree(self._workspace.outbox / slot)

    async def check(self, slot: str) -> Check:
        """Return what the gates say of a candidate; each source is sent through them once."""
        source = self._source(slot)
        key = content_hash(source)
        kept = self._transcript.found("check", source=key)
        if kept is None:
            try:
                found = await self._workspace.validate(source)
                check = _as_check(found)
            except InputError as error:
                check = Check(str(error))
            self._transcript.add("check", source=key, problem=check.problem, refused=check.refused)
            return check
        return Check(kept["problem"], kept["refused"])

    # --- reading ---------------------------------------------------------------------------------

    async def _list(self, arguments: Mapping[str, Json]) -> str:
        place = self._existing(arguments.get("path", "."))
        lines = [
            f"{path.relative_to(self._root).as_posix()}  {path.stat().st_size} bytes"
            for path in _files(place)
        ]
        more = len(lines) - MOST_ENTRIES
        if more > 0:
            lines[MOST_ENTRIES:] = [f"[{more} more: name a folder further down]"]
        return "\n".join(lines) or "no files"

    async def _read(self, arguments: Mapping[str, Json]) -> str:
        path = self._file(arguments["path"])
        lines = _lines(path)
        first = max(arguments.get("first", 1), 1)
        last = min(arguments.get("last", len(lines)), len(lines))
        if first > len(lines):
            return f"the file has {len(lines)} lines"
        skip = arguments.get("skip", 0)
        shown, room = [], MOST_SHOWN
        for number in range(first, last + 1):
            rest = lines[number - 1][skip:]
            piece = rest[:room]
            shown.append(f"{number:>5}  {piece}")
            room -= len(piece) + 7
            if len(piece) < len(rest):
                return "\n".join([*shown, _go_on(number, skip + len(piece), len(lines))])
            if room <= 0 and number < last:
                return "\n".join([*shown, _go_on(number + 1, 0, len(lines))])
            skip = 0
        return "\n".join(shown)

    async def _search(self, arguments: Mapping[str, Json]) -> str:
        wanted: str = arguments["text"]
        if not wanted:
            raise Misuse("text is empty")
        fold = str.lower if arguments.get("ignore_case") else str
        hits: list[str] = []
        for path in _files(self._existing(arguments.get("path", "."))):
            name = path.relative_to(self._root).as_posix()
            for number, line in enumerate(_lines(path), 1):
                at = fold(line).find(fold(wanted))
                if at < 0:
                    continue
                if len(hits) == MOST_HITS:
                    return "\n".join([*hits, f"[more than {MOST_HITS}: search further down]"])
                start, end = max(at - AROUND, 0), at + len(wanted) + AROUND
                hits.append(f"{name}:{number}: {line[start:end]}"[: 4 * AROUND])
        return "\n".join(hits) or "nothing found"

    # --- writing ---------------------------------------------------------------------------------

    async def _write(self, arguments: Mapping[str, Json]) -> str:
        return self._put(arguments["path"], arguments["content"])

    async def _copy(self, arguments: Mapping[str, Json]) -> str:
        return self._put(arguments["path"], _text(self._file(arguments["source"])))

    async def _edit(self, arguments: Mapping[str, Json]) -> str:
        path = self._target(arguments["path"])
        if not path.is_file():
            raise Misuse(f"there is no {arguments['path']}: write or copy it first")
        text, old = _text(path), arguments["old"]
        if not old:
            raise Misuse("old is empty")
        count = text.count(old)
        if count == 0:
            raise Misuse("old does not occur in the file; read it again")
        if count > 1 and not arguments.get("all"):
            raise Misuse(f"old occurs {count} times: give more of the text around it, or all: true")
        return self._put(arguments["path"], text.replace(old, arguments["new"]))

    def _put(self, name: str, content: str) -> str:
        path = self._target(name)
        data = content.encode("utf-8", "replace")
        if len(data) > MOST_WRITTEN:
            raise Misuse(f"{len(data)} bytes; a file may have {MOST_WRITTEN}")
        if not path.parent.exists() and self._full():
            raise Misuse(f"the outbox has {MOST_SLOTS} folders: no more")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return f"{path.relative_to(self._root).as_posix()}: {len(data)} bytes"

    def _full(self) -> bool:
        return len(list(self._workspace.outbox.iterdir())) >= MOST_SLOTS

    # --- trying out ------------------------------------------------------------------------------

    async def _validate(self, arguments: Mapping[str, Json]) -> str:
        check = await self.check(self._slot(arguments["candidate"]))
        if check.problem and not check.refused:
            raise Misuse(check.problem)
        return check.problem or "all gates let it pass"

    async def _try(self, arguments: Mapping[str, Json]) -> str:
        slot, example = self._slot(arguments["candidate"]), arguments["example"]
        source = self._source(slot)
        key = {"source": content_hash(source), "example": example}
        kept = self._transcript.found("try", **key)
        if kept is None:
            try:
                text, wrong = await self._workspace.rehearse(source, example), False
            except InputError as error:
                text, wrong = str(error), True
            self._transcript.add("try", **key, text=text, wrong=wrong)
        else:
            text, wrong = kept["text"], kept["wrong"]
        if wrong:
            raise Misuse(text)
        if len(text) > MOST_SHOWN:
            return f"{text[:MOST_SHOWN]}\n[cut: {len(text) - MOST_SHOWN} more characters]"
        return text

    # --- names -----------------------------------------------------------------------------------

    def _slot(self, name: str) -> str:
        """Return the slot that the model names, by its name or by a path into it."""
        parts = [part for part in name.split("/") if part not in ("", OUTBOX, *FILES)]
        if len(parts) != 1 or parts[0] not in self.slots():
            known = ", ".join(self.slots()) or "none"
            raise Misuse(f"there is no candidate {_short(name)}; the outbox has: {known}")
        return parts[0]

    def _source(self, slot: str) -> str:
        return _text(self._workspace.outbox / slot / FILES[0])

    def _existing(self, name: str) -> Path:
        """Return what a path names, without following links."""
        path = self._root
        for part in _parts(name):
            path /= part
            if path.is_symlink() or not path.exists():
                raise Misuse(f"there is no {_short(name)}")
        return path

    def _file(self, name: str) -> Path:
        path = self._existing(name)
        if not stat.S_ISREG(path.stat().st_mode):
            raise Misuse(f"{_short(name)} is no file; list_files shows what is there")
        return path

    def _target(self, name: str) -> Path:
        """Return the place of a file that may be written."""
        match _parts(name):
            case [folder, slot, file] if (
                folder == OUTBOX and SLOT.fullmatch(slot) and file in FILES
            ):
                path = self._workspace.outbox / slot / file
            case [folder, file] if (folder, file) == (OUTBOX, REPORT):
                path = self._workspace.outbox / file
            case _:
                raise Misuse(
                    f"{_short(name)} cannot be written: only outbox/<name>/harness.py, "
                    "outbox/<name>/metadata.json (<name>: letters, digits, - and _) and "
                    "outbox/report.md can"
                )
        if path.is_symlink() or path.parent.is_symlink() or path.is_dir():
            raise Misuse(f"{_short(name)} cannot be written")
        return path


def check_call(call: ToolCall) -> None:
    """Raise ``Misuse`` if a call names no tool, or its arguments are not what the tool takes."""
    spec = SPECS.get(call.name)
    if spec is None:
        raise Misuse(f"there is no tool {_short(call.name)}; there are {', '.join(SPECS)}")
    if call.problem:
        raise Misuse(call.problem)
    for name in spec.required:
        if name not in call.arguments:
            raise Misuse(f"{call.name} needs {name}")
    for name, value in call.arguments.items():
        if name not in spec.parameters:
            takes = ", ".join(spec.parameters)
            raise Misuse(f"{call.name} has no argument {_short(name)}; it takes {takes}")
        kind = spec.parameters[name]["type"]
        if not _is_of(value, kind):
            raise Misuse(f"{call.name}: {name} must be of type {kind}")


def _is_of(value: Json, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return type(value) is int and 0 <= value < 1 << 31
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _as_check(found: Rejection | None) -> Check:
    if found is None:
        return Check()
    return Check(f"refused by the gate {found.gate}: {found.reason}", refused=True)


def _parts(name: str) -> list[str]:
    """Return the parts of a relative path. Raise ``Misuse`` if it leads out of the workspace."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    odd = "\0" in name or "\\" in name or any(len(part.encode()) > 255 for part in parts)
    if name.startswith("/") or ".." in parts or odd or len(parts) > 16:
        raise Misuse(f"{_short(name)} is no path below the workspace folder")
    return parts


def _files(place: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, or the file itself, in order; links are left out."""
    if place.is_symlink():
        return
    if place.is_dir():
        for path in sorted(place.iterdir()):
            yield from _files(path)
    elif place.is_file():
        yield place


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _lines(path: Path) -> list[str]:
    lines = _text(path).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _go_on(line: int, skip: int, lines: int) -> str:
    return f"[cut: go on with first={line}, skip={skip}; the file has {lines} lines]"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
