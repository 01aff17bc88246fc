"""A comparison as one table of text, a row a condition, and notes below it."""

from __future__ import annotations

from collections.abc import Mapping

from whale_core.evidence.report.words import count, duration, interval, percent, points, usd
from whale_core.records import Json

COLUMNS = (
    "condition",
    "test",
    "each seed",
    "start",
    "rollouts",
    "as the paper counts",
    "tokens",
    "USD",
    "time",
    "phases",
)


def rows(comparison: Mapping[str, Json]) -> list[tuple[str, ...]]:
    """Return a row of ``COLUMNS`` for each condition of ``Comparison.as_json``, the best first;
    cost is the mean of a run."""
    done = [each for each in comparison["conditions"] if each["mean"] is not None]
    rest = [each for each in comparison["conditions"] if each["mean"] is None]
    return [_row(each) for each in (*sorted(done, key=lambda c: -c["mean"]), *rest)]


def notes(comparison: Mapping[str, Json]) -> list[str]:
    """Return what stands below the table: runs without a result, budgets that were not kept, what
    selection owes to luck, and a sentence for each pair of conditions."""
    told = []
    for condition in comparison["conditions"]:
        told += [
            f"{condition['name']}, seed {run['seed']}: {run['state']}"
            + (f" ({run['reason']})" if run["reason"] else "")
            for run in condition["unfinished"]
        ]
        for words in (
            _budget_words(condition["budget"]),
            lengths_words(condition["phase_lengths"]),
            _pass_words(condition["pass_at"]),
            _optimism_words(condition),
        ):
            told += [f"{condition['name']}: {words}"] if words else []
    told += [each["sentence"] for each in comparison["differences"]]
    matching = comparison["rollouts_to_match"]
    told += [words for each in matching if (words := _match(each))]
    return told + refusals(matching)


def score_words(condition: Mapping[str, Json]) -> str:
    """Return a condition's mean with its interval, and of how many seeds it is if not of all."""
    if condition["mean"] is None:
        return "no result"
    words, across = percent(condition["mean"]), condition["across_seeds"]
    if across is not None:
        words += f" ({interval(across['low'], across['high'])})"
    return words + seeds_words(condition)


def seeds_words(condition: Mapping[str, Json]) -> str:
    """Return of how many seeds a mean is, where some have no result; else nothing."""
    done, missing = len(condition["seeds"]), len(condition["unfinished"])
    return f", {done} of {done + missing} seeds" if missing else ""


def lengths_words(lengths: Mapping[str, Json]) -> str:
    """Say how long phases were, where those of one kind were not all alike."""
    told = []
    for kind, unit in (("weights", "steps"), ("harness", "iterations")):
        found = lengths[kind]
        if found is not None and found["shortest"] != found["longest"]:
            told.append(
                f"{found['phases']} {kind} phases of {found['shortest']} to {found['longest']} "
                f"{unit}, median {found['median']:g}"
            )
    return "; ".join(told)


def refusals(matching: list[Mapping[str, Json]]) -> list[str]:
    """Return why rollouts to match are not given, once a condition."""
    whys = dict.fromkeys(each["refused"] for each in matching if each["refused"])
    return [f"rollouts to match: {why}" for why in whys]


def _row(condition: Mapping[str, Json]) -> tuple[str, ...]:
    spent = condition["spent"]
    phases = dict.fromkeys(words or "none" for words in condition["phases"].values())
    return (
        condition["name"],
        score_words(condition),
        " ".join(f"{100 * mean:.1f}" for mean in condition["seeds"].values()),
        percent(condition["start"]),
        _rollouts(condition),
        _number(condition["update_rollouts"]),
        _number(spent["tokens"]),
        usd(spent["usd"] or 0.0),
        "–" if spent["seconds"] is None else duration(spent["seconds"]),
        "; ".join(phases),
    )


def _rollouts(condition: Mapping[str, Json]) -> str:
    spent, budget = _number(condition["spent"]["rollouts"]), condition["budget"]
    if budget is None or budget["matched"] is None:
        return spent
    return f"{spent} ({'matched' if budget['matched'] else 'not matched'})"


def _budget_words(budget: Mapping[str, Json] | None) -> str:
    """Say how a condition missed the budget; empty where it did not."""
    if budget is None:
        return ""
    missed = []
    for name, matched in (("planned", budget["matched"]), ("spent", budget["spent_matched"])):
        if matched is False and budget[name] is not None:
            away = 100 * (budget[name] / budget["amount"] - 1)
            side = "above" if away > 0 else "below"
            missed.append(f"{name} {budget[name]:g}, {abs(away):.0f} % {side}")
    if not missed:
        return ""
    return f"not at the budget of {budget['amount']:g} {budget['unit']}: {'; '.join(missed)}"


def _pass_words(pass_at: Mapping[str, Json]) -> str:
    if not pass_at:
        return ""
    told = ", ".join(f"pass@{k} {pass_text(found)}" for k, found in pass_at.items())
    return f"{told} (the verifier as an oracle among the draws)"


def pass_text(found: Mapping[str, Json]) -> str:
    """Return a pass@k with its interval over seeds, where it has one."""
    if found["low"] is None:
        return percent(found["mean"])
    return f"{percent(found['mean'])} ({interval(found['low'], found['high'])})"


def _optimism_words(condition: Mapping[str, Json]) -> str:
    optimism, luck = condition["selection_optimism"], condition["luck_of_the_best"]
    if optimism is None or luck is None:  # nothing was chosen among
        return ""
    more = "less" if optimism < 0 else "more"
    words = f"gains {100 * abs(optimism):.1f} points {more} on selection than on test"
    return f"{words} (the luck of the best alone: up to {points(luck)})"


def _match(each: Mapping[str, Json]) -> str:
    """Say what share of its rollouts took ``a`` where ``b`` was; empty if not fewer."""
    share = each["median_share"]
    if share is None or share >= 1:
        return ""
    return (
        f"{each['a']} reaches the best of {each['b']} on selection with {100 * share:.0f} % of its "
        f"rollouts (median; {each['reached']} of {len(each['by_seed'])} seeds reach it; a best so "
        "far rises by noise too, the more often it is measured)"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else count(value)
