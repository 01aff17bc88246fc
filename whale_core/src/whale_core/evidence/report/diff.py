"""Two texts side by side: what changed, with a few unchanged lines around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag

CONTEXT = 3  # unchanged lines around a change
LINES = 600  # of a diff, at most
LONGEST = 1_000  # characters of a line, at most
WORDS_UNDER = 300  # characters of a line within which changed words are looked for


def side_by_side(old: str, new: str) -> Markup:
    """Return the changed lines of two sources in two columns; on a phone, one above the other."""
    before, after = old.split("\n"), new.split("\n")
    rows: list[Markup] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    last = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if skipped := group[0][1] - last:
            rows.append(_gap(skipped))
        for kind, a1, a2, b1, b2 in group:
            rows += _rows(kind, before[a1:a2], after[b1:b2])
        last = group[-1][2]
    if rows and last < len(before):
        rows.append(_gap(len(before) - last))
    if not rows:
        return tag("p", "The two are the same file.", class_="note")
    cut = len(rows) - LINES
    more = tag("div", f"{cut} more lines: whale harness diff shows all", class_="gap")
    return tag("div", *rows[:LINES], more if cut > 0 else None, class_="diff")


def _rows(kind: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Markup]:
    if kind == "equal":
        for line in before:
            text = tag("pre", clipped(line, LONGEST))
            yield tag("div", text, text, class_="line same")
        return
    for index in range(max(len(before), len(after))):
        old = before[index] if index < len(before) else None
        new = after[index] if index < len(after) else None
        left, right = _words(old, new)
        yield tag(
            "div",
            tag("pre", left, class_="none" if old is None else "old"),
            tag("pre", right, class_="none" if new is None else "new"),
            class_="line",
        )


def _words(old: str | None, new: str | None) -> tuple[Content, Content]:
    """Return two lines with what differs between them marked, where they are much alike."""
    if old is None or new is None or max(len(old), len(new)) > WORDS_UNDER:
        return _plain(old), _plain(new)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < 0.5:
        return _plain(old), _plain(new)
    left, right = list[Content](), list[Content]()
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        changed = kind != "equal"
        for side, piece in ((left, old[a1:a2]), (right, new[b1:b2])):
            if piece:
                text = clipped(piece, LONGEST)
                side.append(tag("b", text) if changed else text)
    return joined(*left), joined(*right)


def _plain(line: str | None) -> Content:
    return None if line is None else clipped(line, LONGEST)


def _gap(lines: int) -> Markup:
    return tag("div", f"⋯ {lines} unchanged {'line' if lines == 1 else 'lines'}", class_="gap")
