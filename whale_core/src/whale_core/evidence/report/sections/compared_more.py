"""What a comparison shows besides: curves, rollouts to match, cost, behaviour, how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale_core.evidence.report.blocks import Cell, definitions, folded, note, number, table
from whale_core.evidence.report.compared import Compared
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.evidence.report.svg import Level, Mark, Series, legend, line_chart
from whale_core.evidence.report.words import (
    count,
    duration,
    percent,
    point_interval,
    points,
    rate,
    short,
    usd,
)
from whale_core.evidence.table import pass_text, refusals
from whale_core.records import Json
from whale_core.stats import ENOUGH


def compared_curves(found: Compared) -> Markup:
    """Return the selection score over rollouts, a band a condition."""
    drawn = [each for each in found.conditions if each["curve"]]
    series = [
        Series(
            str(each["name"]),
            found.colour(each["name"]),
            [_mark(each["name"], point) for point in each["curve"]],
            "steps",
        )
        for each in drawn
    ]
    levels = [Level(f"chance: {name}"[:40], v) for name, v in list(found.chance.items())[:2]]
    keys = [("line", each.colour, each.name) for each in series]
    return joined(
        line_chart(series, "Best selection score so far, over rollouts", "rollouts", levels=levels),
        legend(keys),
        note(
            "Best selection score so far (too high by the luck of the best), mean over seeds; "
            "bands are 95 % t intervals from five seeds on, else the lowest and the highest seed. "
            "It is the best of noisy scores at the phases' ends: it rises by noise alone, and more "
            "so the more often a condition is measured. The x-axis counts all rollouts but the "
            "final pass."
        ),
        _matching(found),
        _optimism(drawn),
    )


def _mark(name: str, point: Mapping[str, Json]) -> Mark:
    words = f"{name}, {count(point['rollouts'])} rollouts: {percent(point['mean'])}"
    return Mark(point["rollouts"], point["mean"], point["low"], point["high"], words)


def _matching(found: Compared) -> Content:
    told = found.data["rollouts_to_match"]
    fewer = [e for e in told if e["median_share"] is not None and e["median_share"] < 1]
    rows: list[Sequence[Content | Cell]] = [
        (
            Cell(clipped(each["a"], 60)),
            Cell(clipped(each["b"], 60)),
            number(percent(each["median_share"]), each["median_share"]),
            number(f"{each['reached']} of {len(each['by_seed'])}", each["reached"]),
            Cell("; ".join(_match(match) for match in each["by_seed"].values()), "w"),
        )
        for each in sorted(fewer, key=lambda e: e["median_share"])
    ]
    why = [note(clipped(words, 300)) for words in refusals(told)]
    if not rows:
        return joined(*why) if why else None
    heads = ("condition", "reaches the best of", "with this share of its rollouts",
             "seeds that reach it", "each seed: its rollouts / the other's")  # fmt: skip
    return joined(
        tag("h3", "Rollouts to match"),
        table(heads, rows, sortable=True),
        note(
            "On selection curves, seed by seed; the share is the median, in which a seed that "
            "never reaches the other's best counts as more than any number. The kind of figure "
            "the paper gives. Only pairs whose first needs fewer are listed; single crossings of "
            "noisy curves: read them with the bands. A best so far rises by noise too, and "
            "more so the more often it is measured."
        ),
        *why,
    )  # fmt: skip


def _match(match: Mapping[str, Json]) -> str:
    reached = match["rollouts"]
    return f"{'never' if reached is None else count(reached)} / {count(match['other_rollouts'])}"


def _optimism(done: Sequence[Mapping[str, Json]]) -> Content:
    known = [each for each in done if each["selection_optimism"] is not None]
    if not known:
        return None
    rows: list[Sequence[Content | Cell]] = [
        (Cell(clipped(each["name"], 60)), number(points(each["selection_optimism"])),
         number(points(each["luck_of_the_best"])),
         number(percent(each["mean"])))
        for each in known
    ]  # fmt: skip
    return folded(
        "optimism",
        "Selection against test: what the best of several owes to luck",
        table(
            (
                "condition",
                "gain on selection less that on test, points",
                "luck of the best, points",
                "test",
            ),
            rows,
        ),
        note(
            "The gain is that over the pair that the run began with, which nobody chose: so that "
            "one split's being harder does not count. Luck of the best: by how much the best of "
            "the measured pairs would lead their mean were all equally good; too high where they "
            "are not."
        ),
    )


def compared_cost(found: Compared) -> Markup:
    """Return what a run of each condition cost, by role, and what it got for that."""
    rows: list[Sequence[Content | Cell]] = []
    for each in found.conditions:
        spent = each["spent"]
        if each["mean"] is None or each["gain"] is None:
            continue
        found_gain = each["gain"]
        gain = 100 * found_gain["mean"]
        rows.append(
            (
                Cell(clipped(each["name"], 60)),
                number(
                    joined(
                        points(gain / 100),
                        tag(
                            "div",
                            point_interval(found_gain["low"], found_gain["high"]),
                            class_="quiet",
                        ),
                    ),
                    gain,
                ),
                number(count(spent["rollouts"]), spent["rollouts"]),
                number("–" if each["update_rollouts"] is None else count(each["update_rollouts"])),
                number(short(spent["tokens"]), spent["tokens"]),
                number(usd(spent["usd"]), spent["usd"]),
                number(duration(spent["seconds"]), spent["seconds"]),
                _per(gain, spent["rollouts"] / 1_000),
                _per(gain, spent["tokens"] / 1_000_000),
                _per(gain, spent["usd"]),
            )
        )
    heads = ("condition", "points over start", "rollouts", "as the paper counts", "tokens", "USD",
             "time", "points per 1\u202f000 rollouts", "per million tokens", "per USD")  # fmt: skip
    return joined(
        table(heads, rows, sortable=True) if rows else note("No condition has a result yet."),
        note(
            "Means of a run; proposer, judge and final pass included. The paper counts prompts × "
            "group size for a weight step, examples × candidates for a search iteration, no more. "
            "Points over start are test mean less that of the pair it began with, on the examples "
            f"that all its runs scored; the 95 % interval is about the condition from {ENOUGH} "
            "seeds on, else about these runs. USD are what endpoints charge; the machine's own "
            "time is not priced."
        ),
        _roles(found),
    )


def _per(gain: float, amount: float) -> Cell:
    if amount <= 0:
        return number("–")
    return number(rate(gain / amount), gain / amount)


def _roles(found: Compared) -> Content:
    rows: list[Sequence[Content | Cell]] = []
    for each in found.conditions:
        sums: dict[str, dict[str, float]] = {}
        for run in found.runs_of(each["name"]):
            for name, spent in run["by"].items():
                into = sums.setdefault(name, {})
                for key, value in spent.items():
                    into[key] = into.get(key, 0.0) + float(value)
        for name, spent in sorted(sums.items()):
            cells = (
                spent.get(key, 0.0)
                for key in ("rollouts", "calls", "prompt_tokens", "cached_tokens", "sampled_tokens")
            )
            rows.append(
                (
                    Cell(clipped(each["name"], 60)),
                    Cell(clipped(name.replace("/", ": "), 60)),
                    *(number(count(value) if value else "–", value) for value in cells),
                    number(usd(spent.get("usd", 0.0)), spent.get("usd", 0.0)),
                )
            )  # fmt: skip
    heads = ("condition", "role: purpose", "rollouts", "calls", "tokens in", "cached",
             "tokens out", "USD")  # fmt: skip
    return folded(
        "roles", "By role and purpose, all runs together", table(heads, rows, sortable=True)
    )


def compared_behaviour(found: Compared) -> Markup:
    """Return behaviour metrics and pass@k of the reported pairs on the test split."""
    names = list(
        dict.fromkeys(
            [*(f"pass@{k}" for each in found.conditions for k in each["pass_at"])]
            + [name for each in found.conditions for name in each["metrics"]]
        )
    )
    if not names:
        return note("The domain measures no behaviour.")
    rows: list[Sequence[Content | Cell]] = []
    for each in found.conditions:
        passed = {f"pass@{k}": found for k, found in each["pass_at"].items()}
        known = {**{n: v["mean"] for n, v in passed.items()}, **each["metrics"]}
        words = {n: f"{v:.3g}" for n, v in each["metrics"].items() if v is not None}
        words |= {n: pass_text(found) for n, found in passed.items()}
        cells = [number(words.get(n, "–"), known.get(n)) for n in names]
        rows.append((Cell(clipped(each["name"], 60)), *cells))
    return joined(
        table([Cell("condition"), *(Cell(clipped(n, 40)) for n in names)], rows, sortable=True),
        note(
            "Means of the reported pairs on the sealed test, over seeds; of pass@k, the share of "
            "examples that at least one of k draws solves, with a t interval over seeds from five "
            "on."
        ),
    )


def compared_settings(found: Compared) -> Markup:
    """Return the command, the common settings, and what identifies the conditions."""
    data, runs = found.data, found.runs
    machines = list(dict.fromkeys(_machine(run) for run in runs if run.get("machine")))
    tests = sorted({str(run["test_split"]) for run in runs if run.get("test_split")})
    openings = [run["test_openings"] for run in runs if run.get("test_openings")]
    facts: dict[str, Content] = {
        "seeds": ", ".join(map(str, data["seeds"])),
        "settings of all runs": tag("code", clipped(" ".join(data["settings"]) or "none", 2_000)),
        "machine": clipped("; ".join(machines) or "–", 2_000),
        "test split": clipped(", ".join(tests) or "–", 200),
    }
    if openings:
        facts["test split opened"] = (
            f"once by each run: openings {min(openings)} to {max(openings)} on its machine"
        )
    hashes: list[Sequence[Content | Cell]] = [
        (
            Cell(clipped(each["name"], 60)),
            Cell(tag("code", clipped(str(each["settings_hash"]), 40))),
        )
        for each in found.conditions
    ]
    return joined(
        tag("pre", clipped(str(data["command"]) or "–", 4_000)),
        definitions(facts),
        table(("condition", "settings hash"), hashes),
    )


def _machine(run: Mapping[str, Json]) -> str:
    machine = run["machine"]
    engine = machine.get("engine", {})
    return (
        f"{machine.get('machine', '')}, Python {machine.get('python', '')}, whale "
        f"{machine.get('whale', '')}, {engine.get('model', '')} on {engine.get('device', '')} "
        f"({engine.get('dtype', '')})"
    )
