"""Where the harness came from: the tree of what was tried, what each accepted change was and won,
and what was refused and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale_core.evidence.report.blocks import folded, note, number, table
from whale_core.evidence.report.diff import side_by_side
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.evidence.report.svg import interval_bar
from whale_core.evidence.report.words import percent, plural, point_interval, points
from whale_core.run.archive import ArchiveEntry
from whale_core.run.comparison import Comparison, compare

CHANGES = 30  # accepted changes shown with their diff, at most: the newest
TRIED = 400  # harnesses in the tree, at most: the first ones and all accepted
TEXT = 600
DEPTH = 60


def lineage(run: ReportedRun) -> Markup:
    """Return tree, accepted changes and refusals."""
    if not run.events("search_iteration"):
        return note("This run searched for no harness: the base harness stood throughout.")
    refused = [entry for entry in run.entries if entry.rejection is not None]
    scored = sum(bool(entry.scores) for entry in run.entries)
    return joined(
        note(
            f"{len(run.entries)} harnesses tried, {scored} scored, {len(refused)} refused before "
            "scoring. A change's effect is measured on the examples of the last phase that scored "
            "both under the same weights, paired by example."
            if len(run.entries) != 1
            else "Only the base harness was tried."
        ),
        _changes(run),
        folded("tree", f"The tree of all {len(run.entries)} harnesses", _tree(run)),
        _refused(refused),
    )


def accepted_line(run: ReportedRun) -> list[ArchiveEntry]:
    """Return the harnesses that stood at a phase's end and what they descend from, in order."""
    by_id = {entry.id: entry for entry in run.entries}
    wanted: set[str] = set()
    for entry in run.entries:
        each: ArchiveEntry | None = entry if _accepted(run, entry) else None
        while each is not None and each.id not in wanted:
            wanted.add(each.id)
            each = by_id.get(each.parent or "")
    return [entry for entry in run.entries if entry.id in wanted]


def _accepted(run: ReportedRun, entry: ArchiveEntry) -> Sequence[int]:
    return () if entry.rejection is not None else run.accepted.get(entry.harness.id, ())


def _changes(run: ReportedRun) -> Content:
    by_id = {entry.id: entry for entry in run.entries}
    line = [entry for entry in accepted_line(run) if entry.parent in by_id]
    if not line:
        return note("No candidate was accepted: the run kept the harness it began with.")
    shown = [_change(run, by_id[entry.parent or ""], entry) for entry in line[-CHANGES:]]
    base, final = run.entries[0], by_id.get(line[-1].id)
    whole: Content = None
    if final is not None and len(line) > 1:
        whole = folded(
            "base-to-final",
            f"All changes together: {base.id} to {final.id}",
            _effect(run, compare(base, final)),
            side_by_side(base.source, final.source),
        )
    left = len(line) - CHANGES
    return joined(
        tag("h3", "Accepted changes, and what each won"),
        note(f"The newest {CHANGES}; {left} earlier ones are in the archive.")
        if left > 0
        else None,
        *shown,
        whole,
    )


def _change(run: ReportedRun, old: ArchiveEntry, new: ArchiveEntry) -> Markup:
    found = compare(old, new)
    phases = _accepted(run, new)
    stood = f"in force after phase {', '.join(map(str, phases))}" if phases else "on the way"
    won: Content = None
    if found is not None:
        low, high = found.difference.low, found.difference.high
        kind = "won" if low > 0 else "lost" if high < 0 else None
        won = tag("span", f" {points(found.difference.mean)} points", class_=kind)
    summary = joined(
        tag("b", new.id), f" from {old.id} ({stood})", won, ": ",
        clipped(new.changes or new.axis or "no description", 160),
    )  # fmt: skip
    return folded(
        f"change-{_anchor(new.id)}",
        summary,
        tag("p", tag("b", "Hypothesis: "), clipped(new.hypothesis, TEXT))
        if new.hypothesis
        else None,
        tag("p", tag("b", "Change: "), clipped(new.changes, TEXT)) if new.changes else None,
        _effect(run, found),
        side_by_side(old.source, new.source),
    )


def _effect(run: ReportedRun, found: Comparison | None) -> Content:
    if found is None:
        return note("No phase scored both under the same weights, so the effect is not known.")
    difference = found.difference
    reach = max(0.05, abs(difference.low), abs(difference.high))
    rows: list[tuple[Content, ...]] = [
        (
            "reward",
            percent(found.old.mean),
            percent(found.new.mean),
            f"{points(difference.mean)} points ({point_interval(difference.low, difference.high)})",
        )
    ]
    rows += [
        (clipped(name, 60), _value(a), _value(b), None) for name, (a, b) in found.metrics.items()
    ]
    if found.old.mean_calls != found.new.mean_calls:
        rows.append(
            ("model calls each", f"{found.old.mean_calls:.2f}", f"{found.new.mean_calls:.2f}", None)
        )
    return joined(
        interval_bar(difference.mean, difference.low, difference.high, -reach, reach),
        table(("", "before", "after", "difference, 95 % interval"), rows),
        note(
            f"{found.examples} examples × {found.draws} in phase {found.phase}, weights "
            f"{run.label(found.weights_id)}; {len(found.gained)} solved only after the change, "
            f"{len(found.lost)} only before it. These are the examples by which candidates are "
            "chosen: an accepted one's gain is measured too high on them."
        ),
    )


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _tree(run: ReportedRun) -> Markup:
    entries = list(run.entries[:TRIED])
    entries += [entry for entry in run.entries[TRIED:] if _accepted(run, entry)]
    children: dict[str | None, list[ArchiveEntry]] = {None: []}
    for entry in entries:  # a parent came before: whatever an archive says, this is a forest
        parent = entry.parent if entry.parent in children else None
        children[parent].append(entry)
        children[entry.id] = []
    nodes = [_node(run, entry, children, 0) for entry in children[None]]
    left = len(run.entries) - len(entries)
    return joined(
        tag("ul", *nodes, class_="tree"),
        note(f"{left} more are in the archive.") if left > 0 else None,
    )


def _node(
    run: ReportedRun,
    entry: ArchiveEntry,
    children: Mapping[str | None, Sequence[ArchiveEntry]],
    depth: int,
) -> Markup:
    words: list[Content] = [tag("span", entry.id, class_="name")]
    if entry.rejection is not None:
        words.append(f" refused by {entry.rejection.gate}")
    elif entry.selection_scores:
        score = entry.selection_scores[-1].score
        mean = percent(score.mean) if score.scored else "not scored"
        words.append(f" {mean} of {score.scored}, weights {run.label(score.weights_id)}")
    if phases := _accepted(run, entry):
        accepted = f"in force after phase {', '.join(map(str, phases))}"
        words += [" ", tag("span", accepted, class_="badge good")]
    if about := entry.changes or entry.axis:
        words += [" — ", clipped(about, 160)]
    if entry.position_leak:
        leak = ", ".join(f"{name} {percent(value)}" for name, value in entry.position_leak.items())
        words += [tag("span", " position leak: ", clipped(leak, 120), class_="quiet")]
    below = children[entry.id]
    inner: Content = None
    if below and depth < DEPTH:
        inner = tag("ul", [_node(run, child, children, depth + 1) for child in below])
    elif below:
        inner = note(f"{len(below)} made from it, and what was made from those")
    return tag("li", *words, inner, class_="refused" if entry.rejection is not None else None)


def _refused(refused: Sequence[ArchiveEntry]) -> Content:
    if not refused:
        return None
    rows = [
        (
            entry.id,
            number(str(entry.phase)),
            entry.parent or "–",
            clipped(entry.rejection.gate, 40),
            clipped(entry.rejection.reason, TEXT),
            clipped(entry.changes or entry.axis, 200),
        )
        for entry in refused[:TRIED]
        if entry.rejection is not None
    ]
    heads = ("harness", "phase", "from", "gate", "reason", "what it was")
    return folded("refused", f"{plural(len(refused), 'refused candidate')}", table(heads, rows))


def _anchor(name: str) -> str:
    return "".join(each for each in name.lower() if each.isascii() and each.isalnum())
