"""What changed in how the model answers: behaviour metrics on the selection examples, which are the
same after every phase, and what the weight phases had to learn from."""

from __future__ import annotations

from collections.abc import Sequence

from whale_core.evidence.report.blocks import Cell, note, number, table
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.evidence.report.svg import share_bar
from whale_core.evidence.report.words import count, percent
from whale_core.run.journal import Entry

SHOWN = 8  # metrics, and reasons, at most


def behaviour(run: ReportedRun) -> Markup:
    """Return metrics after each phase, and the weight phases' diet."""
    return joined(_metrics(run), _learning(run), _reasons(run))


def _metrics(run: ReportedRun) -> Content:
    names = list(dict.fromkeys(n for end in run.ends for n in end.selection.get("metrics", {})))
    if not names:
        return note("The domain measures no behaviour.")
    rows: list[Sequence[Content | Cell]] = []
    for end in run.ends:
        metrics = end.selection.get("metrics", {})
        cells = [_metric(metrics.get(name)) for name in names[:SHOWN]]
        harness = run.harness_label(end.harness_id)
        rows.append(
            (
                f"{end.phase}: {end.kind}",
                _metric(end.selection["mean"]),
                *cells,
                clipped(harness, 30),
            )
        )
    heads = [Cell("after phase"), Cell("reward")]
    heads += [Cell(clipped(name, 40)) for name in names[:SHOWN]]
    return joined(
        table([*heads, Cell("harness")], rows),
        note("Means on the selection examples, the same ones after every phase."),
    )


def _metric(value: float | None) -> Cell:
    if value is None:
        return number("–")
    if 0.0 <= value <= 1.0:
        return number(joined(share_bar(value), percent(value)), value)
    return number(f"{value:.3g}", value)


def _learning(run: ReportedRun) -> Content:
    rows = []
    for end in run.ends:
        steps = [step for step in run.events("weight_step") if step["phase"] == end.phase]
        if steps:
            rows.append(_diet(end.phase, steps))
    if not rows:
        return None
    heads = ("phase", "steps", "reward, first → last", "accepted", "starved steps", "updates",
             "trained tokens", "served values changed")  # fmt: skip
    return joined(
        tag("h3", "What weight phases learned from"),
        table(heads, rows),
        note(
            "Accepted: share of the scored rollouts with enough reward to be trained on. Starved: "
            "steps without an update. Served values changed: mean share per step of the weights "
            "whose rounded value moved."
        ),
    )


def _diet(phase: int, steps: Sequence[Entry]) -> tuple[Content | Cell, ...]:
    scored = sum(int(step["scored"]) for step in steps)
    accepted = sum(int(step["accepted"]) for step in steps)
    changed = [float(step.get("changed_share") or 0.0) for step in steps]
    return (
        number(str(phase)),
        number(str(len(steps))),
        number(f"{percent(steps[0]['reward'])} → {percent(steps[-1]['reward'])}"),
        number(f"{count(accepted)} of {count(scored)} ({percent(accepted / max(scored, 1))})"),
        number(str(sum(not step["updates"] for step in steps))),
        number(count(sum(int(step["updates"]) for step in steps))),
        number(count(sum(int(step.get("trained_tokens") or 0) for step in steps))),
        number(percent(sum(changed) / len(changed))),
    )


def _reasons(run: ReportedRun) -> Content:
    """Return why rollouts ended before a verdict, by phase."""
    found: dict[tuple[int, str], int] = {}
    for entry in run.events("weight_step", "search_iteration"):
        reports = [entry] if entry["event"] == "weight_step" else entry["candidates"]
        for report in reports:
            for reason, number_ in report.get("reasons", {}).items():
                key = (int(entry["phase"]), str(reason))
                found[key] = found.get(key, 0) + int(number_)
    if not found:
        return None
    most = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    rows = [(number(str(phase)), number(count(n), n), clipped(reason, 200))
            for (phase, reason), n in most[: 2 * SHOWN]]  # fmt: skip
    return joined(
        tag("h3", "Rollouts that ended before a verdict"),
        table(("phase", "rollouts", "why"), rows),
    )
