"""What a comparison found: sentences, the table of conditions, and every difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale_core.evidence.report.blocks import Cell, note, number, table
from whale_core.evidence.report.compared import Compared
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag, visible
from whale_core.evidence.report.svg import interval_bar, strip
from whale_core.evidence.report.words import (
    count,
    duration,
    interval,
    p_value,
    percent,
    plural,
    point_interval,
    points,
    short,
    usd,
)
from whale_core.evidence.table import lengths_words, seeds_words
from whale_core.evidence.words import LEVEL, runs_of
from whale_core.records import Json
from whale_core.stats import ENOUGH


def compared_head(found: Compared) -> Markup:
    """Return the title and the sentences."""
    return joined(
        tag("h1", visible(found.name)),
        tag("p", clipped(what_was_compared(found), 1_000), class_="lead"),
        tag("p", clipped(what_it_showed(found), 1_000), class_="lead"),
    )


def what_was_compared(found: Compared) -> str:
    """Return conditions, seeds, domain and budget in a sentence."""
    data, budget = found.data, found.data.get("budget")
    runs = len(found.runs)
    done = sum(run["state"] == "finished" for run in found.runs)
    matched = ""
    if budget is not None:
        matched = f", each with {count(budget['amount'])} {budget['unit']} to spend"
    all_done = "all finished" if done == runs else f"{done} finished"
    return (
        f"{plural(len(found.conditions), 'condition')} on the domain {data['domain']} under "
        f"{plural(len(data['seeds']), 'seed')}{matched}: {plural(runs, 'run')}, {all_done}."
    )


def what_it_showed(found: Compared) -> str:
    """Return the best condition, against its start and against the next, and its cost."""
    done = [each for each in found.conditions if each["mean"] is not None]
    if not done:
        return "No run has a result yet."
    best, spent = done[0], done[0]["spent"]
    start = "" if best["start"] is None else f", from {percent(best['start'])} at the start"
    if (gain := best["gain"]) is not None:
        reach = point_interval(gain["low"], gain["high"])
        start += f" ({points(gain['mean'])} points, {reach})"
    across = best["across_seeds"]
    sure = f" ({interval(across['low'], across['high'])} over seeds)" if across else ""
    sure += seeds_words(best)
    told = found.data["best_on_test"]
    chosen = f" ({told['label']})" if told["label"] else ""
    words = (
        f"The best mean over seeds on the sealed test{chosen} is that of {best['name']}: "
        f"{percent(best['mean'])}{sure}{start}, for {count(spent['rollouts'] or 0)} rollouts, "
        f"{short(spent['tokens'] or 0)} tokens"
    )
    if spent["usd"]:
        words += f", {usd(spent['usd'])} USD"
    words += f" and {duration(spent['seconds'] or 0)} a run."
    return words + "".join(f" {each}" for each in _against_others(found, str(best["name"])))


def _against_others(found: Compared, best: str) -> list[str]:
    """Return sentences on how the condition ``best`` stands to each other one."""
    beaten: list[str] = []
    ahead: list[str] = []
    open_: list[str] = []
    above: dict[int, list[str]] = {}  # by how many seeds, where they are too few to speak of more
    for each in found.data["differences"]:
        if best not in (each["a"], each["b"]) or each["mean"] is None:
            continue
        other = str(each["b"] if each["a"] == best else each["a"])
        if not is_sure(each):
            open_.append(other)
        elif each["a"] != best:
            ahead.append(other)
        elif len(each["seeds"]) < ENOUGH:
            above.setdefault(len(each["seeds"]), []).append(other)
        else:
            beaten.append(other)
    told = []
    if beaten:
        told.append(f"It beats {_list(beaten)} beyond chance (Holm-adjusted p < {LEVEL}).")
    told += [
        f"Of {runs_of(seeds)} its score above those of {_list(names)} (Holm-adjusted p < {LEVEL}); "
        f"of the conditions, fewer than {ENOUGH} seeds cannot tell."
        for seeds, names in above.items()
    ]
    if ahead:
        told.append(f"On the seeds that both finished, {_list(ahead)} scored surely above it.")
    if open_:
        told.append(f"From {_list(open_)} it cannot be told apart.")
    return told


def is_sure(difference: Mapping[str, Json]) -> bool:
    """Say whether a difference stands after the adjustment, with an interval above zero."""
    p, low = difference["p_holm"], difference["low"]
    return p is not None and p < LEVEL and low is not None and low > 0


def conditions(found: Compared) -> Markup:
    """Return the table of conditions with every seed."""
    done = [each for each in found.conditions if each["mean"] is not None]
    tops = [value for each in done for value in each["seeds"].values()]
    tops += [each["across_seeds"]["high"] for each in done if each["across_seeds"]]
    most = min(1.0, 1.1 * max([*tops, 0.05, *found.chance.values()]))
    rows = [_condition(found, each, most) for each in found.conditions]
    heads = ("condition", "test mean", "every seed", "", "start", "rollouts", "tokens", "USD",
             "time", "phases")  # fmt: skip
    levels = ", ".join(f"{name} {percent(value)}" for name, value in found.chance.items())
    return joined(
        table(heads, rows, sortable=True),
        note(
            "Mean reward of the reported pair on the sealed test. Small dots are seeds (each leads "
            "to its run below), the large one their mean; a bar is the 95 % t interval over seeds, "
            "from five seeds on. Cost is the mean of a run. "
            "Phases: W weight steps, H search iterations."
        ),
        note("For scale (dashed): ", clipped(levels, 300)) if levels else None,
        _lengths(found),
        _unfinished(found),
    )


def _lengths(found: Compared) -> Content:
    told = [(each["name"], lengths_words(each["phase_lengths"])) for each in found.conditions]
    return [note(clipped(f"{name}: {words}", 300)) for name, words in told if words]


def _condition(found: Compared, each: Mapping[str, Json], most: float) -> Sequence[Content | Cell]:
    name, spent, across = str(each["name"]), each["spent"], each["across_seeds"]
    colour = found.colour(name)
    seeds = [
        (
            tag("a", f"{100 * each['seeds'][str(run['seed'])]:.1f}", href=f"#{found.anchor(run)}"),
            " ",
        )
        for run in found.runs_of(name)
        if str(run["seed"]) in each["seeds"]
    ]
    values = list(each["seeds"].values())
    mean = each["mean"]
    ends = None if across is None else (across["low"], across["high"])
    below = (interval(*ends) if ends else "") + seeds_words(each)
    reach = tag("div", below.removeprefix(", "), class_="quiet") if below else None
    levels = list(found.chance.values())
    return (
        Cell(clipped(name, 60)),
        number(joined(tag("b", percent(mean)), reach), mean if mean is not None else -1.0),
        Cell(strip(values, mean, ends, most, levels, colour) if values else "–"),
        Cell(seeds, "w"),
        number(percent(each["start"])),
        number("–" if spent["rollouts"] is None else count(spent["rollouts"]), spent["rollouts"]),
        number("–" if spent["tokens"] is None else short(spent["tokens"]), spent["tokens"]),
        number(usd(spent["usd"] or 0.0), spent["usd"]),
        number("–" if spent["seconds"] is None else duration(spent["seconds"]), spent["seconds"]),
        Cell(clipped("; ".join(dict.fromkeys(w or "none" for w in each["phases"].values())), 200)),
    )  # fmt: skip


def _unfinished(found: Compared) -> Content:
    told = [
        f"{each['name']}, seed {run['seed']}: {run['state']}"
        + (f" ({run['reason']})" if run["reason"] else "")
        for each in found.conditions
        for run in each["unfinished"]
    ]
    told += [
        f"{each['name']}: not at the budget of {each['budget']['amount']:g} "
        f"{each['budget']['unit']}"
        for each in found.conditions
        if each["budget"] and False in (each["budget"]["matched"], each["budget"]["spent_matched"])
    ]
    if not told:
        return None
    return joined(
        tag("h3", "Not as planned"), tag("ul", [tag("li", clipped(words, 400)) for words in told])
    )


def differences(found: Compared) -> Markup:
    """Return every pair of conditions, the surest first."""
    pairs = [each for each in found.data["differences"] if each["mean"] is not None]
    rest = [note(clipped(e["sentence"], 300)) for e in found.data["differences"] if e not in pairs]
    if not pairs:
        return joined(note("No two conditions have results under a common seed."), rest)
    pairs.sort(
        key=lambda each: (each["p_holm"] if each["p_holm"] is not None else 1.0, -each["mean"])
    )
    ends = (abs(each[end]) for each in pairs for end in ("low", "high"))
    reach = max(0.05, *ends)
    rows = [_difference(each, reach) for each in pairs]
    return joined(
        table(("", "points", "95 % interval", "", "per seed", "p", "p (Holm)"), rows, sortable=True,
              faint=[index for index, each in enumerate(pairs) if not is_sure(each)]),
        note(
            "The first minus the second, on the same test examples under the same seeds. From "
            f"{ENOUGH} seeds on, interval and p are of a t test over seeds and examples together; "
            "with fewer they are over examples alone and speak of these seeds' runs, not of the "
            f"conditions. p: two-sided; p (Holm): adjusted for all {len(pairs)} comparisons. Rows "
            "in grey cannot be told from no difference."
        ),
        rest,
    )  # fmt: skip


def _difference(each: Mapping[str, Json], reach: float) -> Sequence[Content | Cell]:
    sure = is_sure(each)
    seeds = " ".join(points(value) for value in each["seeds"].values() if value is not None)
    return (
        Cell(joined(clipped(each["a"], 60), " − ", clipped(each["b"], 60))),
        number(points(each["mean"]), each["mean"]),
        number(point_interval(each["low"], each["high"])),
        Cell(
            interval_bar(each["mean"], each["low"], each["high"], -reach, reach,
                         colour="c-score" if sure else "c-7")
        ),
        Cell(seeds, "w"),
        number(p_value(each["p"]), each["p"]),
        number(p_value(each["p_holm"]), each["p_holm"]),
    )  # fmt: skip


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
