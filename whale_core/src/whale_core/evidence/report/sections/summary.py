"""What the run was and what it found, in two plain sentences and a few figures."""

from __future__ import annotations

from collections.abc import Mapping

from whale_core.config.resolve import NO_SET
from whale_core.evidence.report.blocks import note
from whale_core.evidence.report.costs import total
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag, visible
from whale_core.evidence.report.words import (
    count,
    duration,
    interval,
    ordinal,
    percent,
    plural,
    point_interval,
    points,
    same_pair,
    short,
    usd,
)
from whale_core.records import Json

LIVE = ("starting", "running", "unknown")


def head(run: ReportedRun) -> Markup:
    """Return the title with the run's state."""
    state = run.status.state
    kind = "good" if state == "finished" else "live" if state in LIVE else "bad"
    return joined(
        tag("h1", visible(run.name), " ", tag("span", state, class_=f"badge {kind}")),
        tag("p", what_it_was(run), class_="lead"),
        tag("p", what_it_found(run), class_="lead"),
    )


def summary(run: ReportedRun) -> Markup:
    """Return the figures that belong to the two sentences, and what else a reader must know."""
    whole = total(run.ledger)
    result = run.result
    figures: list[tuple[str, str]] = []
    if result is not None:
        gain = _gain(result)
        final = result["pairs"]["theta_h"]
        figures.append((percent(final["mean"]), "of the sealed test solved by the final pair"))
        if gain is not None:
            words = f"points over the pair it began with ({point_interval(*gain[1:])})"
            figures.append((points(gain[0]), words))
    figures += [
        (count(whole.rollouts), "rollouts, all purposes"),
        (short(whole.tokens), "tokens read and written by models"),
        (duration(_seconds(run)), "worked on"),
        (f"{usd(whole.usd)} USD", "charged by endpoints"),
    ]
    shown = tag(
        "ul", [tag("li", tag("strong", value), words) for value, words in figures], class_="figures"
    )
    return joined(shown, [note(each) for each in _remarks(run, whole.rollouts)])


def what_it_was(run: ReportedRun) -> str:
    """Return the first sentence: what was trained and searched, and in which turns."""
    steps, iterations = run.events("weight_step"), run.events("search_iteration")
    turns = [
        f"{plural(len(events), unit)} in {plural(len({each['phase'] for each in events}), 'phase')}"
        for events, unit in ((steps, "weight step"), (iterations, "search iteration"))
        if events
    ]
    named = run.setting("plugin_set", NO_SET)
    what = "This run" if named == NO_SET else f"The plugin set {named}"
    return (
        f"{what} {_done(run, bool(steps), bool(iterations))} on the domain {run.plugin('domain')} "
        f"(seed {run.manifest['seed']}){': ' if turns else ''}{' and '.join(turns)}."
    )


def _done(run: ReportedRun, trained: bool, searched: bool) -> str:
    model = str(run.manifest["engine"].get("model", "a model"))
    if trained and searched:
        return f"trained the weights of {model} and searched for a harness around it"
    if trained:
        return f"trained the weights of {model}, under the harness it began with,"
    if searched:
        return f"searched for a harness around {model}, its weights as they were,"
    if run.result is None and (run.plugin("model_update") or run.plugin("harness_search")):
        return f"has neither trained the weights of {model} nor searched for a harness yet,"
    return f"trained and searched nothing: it measured {model} under its first harness"


def what_it_found(run: ReportedRun) -> str:
    """Return the second sentence: by how much, how sure, at what cost; or where the run is."""
    whole = total(run.ledger)
    cost = f"{count(whole.rollouts)} rollouts, {short(whole.tokens)} tokens"
    if whole.usd:
        cost += f", {usd(whole.usd)} USD"
    cost += f" and {duration(_seconds(run))}"
    result = run.result
    if result is None:
        reached = run.ends[-1].selection if run.ends else None
        so_far = (
            f"so far its pair solves {percent(reached['mean'])} of the selection split "
            f"({interval(reached['low'], reached['high'])}), "
            f"{percent(run.ends[0].selection['mean'])} at the start"
            if reached is not None
            else "nothing has been measured yet"
        )
        return f"It has not ended, and the sealed test is closed: {so_far}, after {cost}."
    pairs, gain = result["pairs"], _gain(result)
    start, final = pairs["theta0_h0"], pairs["theta_h"]
    scores = f"{percent(final['mean'])} against {percent(start['mean'])} of the sealed test"
    if gain is None:
        return f"It reached {scores}; no example was scored on both sides. It took {cost}."
    mean, low, high = gain
    if same_pair(pairs, "theta_h", "theta0_h0"):
        found = f"The pair it began with was the best on selection, so nothing changed ({scores})"
    else:
        sure = (
            "an improvement beyond chance"
            if low > 0
            else "a loss beyond chance"
            if high < 0
            else "too close to zero to call"
        )
        found = (
            f"The pair it ended with solves {scores}: {points(mean)} points, 95 % interval "
            f"{point_interval(low, high)}, {sure}"
        )
    return f"{found}; it took {cost}."


def _gain(result: Mapping[str, Json]) -> tuple[float, float, float] | None:
    for each in result["differences"]:
        if (each["a"], each["b"]) == ("theta_h", "theta0_h0") and each["mean"] is not None:
            return each["mean"], each["low"], each["high"]
    return None


def _seconds(run: ReportedRun) -> float:
    return float(run.result["seconds"]) if run.result is not None else run.status.seconds


def _remarks(run: ReportedRun, rollouts: float) -> list[Content]:
    """Return what a reader must know besides, most of it only where it is the case."""
    result, remarks = run.result, list[Content]()
    if result is not None:
        openings = int(result.get("test_openings") or 1)
        words = (
            "for the first time" if openings == 1 else f"for the {ordinal(openings)} time by a run"
        )
        remarks.append(
            f"The pair was chosen on the selection split; then the test split was opened, on this "
            f"machine {words}. Intervals are 95 %, over examples."
        )
        remarks.append(joined("In its own words: ", clipped(str(result.get("sentence", "")), 2000)))
    if run.manifest.get("jail") != "bubblewrap":
        remarks.append(f"Harnesses ran in the jail {run.manifest.get('jail')}: weaker isolation.")
    missing = sum(float(line.get("not_scored", 0)) for line in run.ledger)
    if missing:
        remarks.append(
            f"{count(missing)} rollouts ({percent(missing / max(rollouts, 1))}) were not scored "
            "(infrastructure faults); they are in no mean."
        )
    if run.status.reason:
        remarks.append(clipped(f"{run.status.state}: {run.status.reason}", 500))
    remarks += [clipped(notice, 300) for notice in run.status.notices]
    return remarks
