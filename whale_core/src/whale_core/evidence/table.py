"""A comparison as one table of text: a row a condition; and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale_core.records import Json

COLUMNS = ("condition", "test", "each seed", "start", "rollouts", "tokens", "USD", "time", "phases")


def rows(comparison: Mapping[str, Json]) -> list[tuple[str, ...]]:
    """Return a row of ``COLUMNS`` for each condition of ``Comparison.as_json``, the best first;
    means in per cent of the test split, cost a run."""
    done = [each for each in comparison["conditions"] if each["mean"] is not None]
    rest = [each for each in comparison["conditions"] if each["mean"] is None]
    return [_row(each) for each in (*sorted(done, key=lambda c: -c["mean"]), *rest)]


def notes(comparison: Mapping[str, Json]) -> list[str]:
    """Return what stands below the table: runs without a result, budgets that were not kept, and a
    sentence for each pair of conditions."""
    told = []
    for condition in comparison["conditions"]:
        told += [
            f"{condition['name']}, seed {run['seed']}: {run['state']}"
            + (f" ({run['reason']})" if run["reason"] else "")
            for run in condition["unfinished"]
        ]
        if words := _budget_words(condition["budget"]):
            told.append(f"{condition['name']}: {words}")
        if condition["pass_at"]:
            told.append(f"{condition['name']}: {_pass_words(condition['pass_at'])}")
    told += [each["sentence"] for each in comparison["differences"]]
    return told + [words for each in comparison["rollouts_to_match"] if (words := _match(each))]


def markdown(comparison: Mapping[str, Json]) -> str:
    """Return table and notes as Markdown."""
    lines = [_line(COLUMNS), _line(["---"] * len(COLUMNS))]
    lines += [_line([cell.replace("|", "\\|") for cell in row]) for row in rows(comparison)]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes(comparison))]) + "\n"


def _row(condition: Mapping[str, Json]) -> tuple[str, ...]:
    spent = condition["spent"]
    phases = dict.fromkeys(words or "none" for words in condition["phases"].values())
    return (
        condition["name"],
        _score(condition),
        " ".join(f"{100 * mean:.1f}" for mean in condition["seeds"].values()),
        "" if condition["start"] is None else f"{100 * condition['start']:.1f}",
        _rollouts(condition),
        _number(spent["tokens"]),
        f"{spent['usd']:.2f}" if spent["usd"] else "",
        "" if spent["seconds"] is None else f"{spent['seconds']:.0f} s",
        "; ".join(phases),
    )


def _score(condition: Mapping[str, Json]) -> str:
    if condition["mean"] is None:
        return "no result"
    mean, interval = f"{100 * condition['mean']:.1f}", condition["across_seeds"]
    if interval is None:
        return mean
    return f"{mean} ({100 * interval['low']:.1f} to {100 * interval['high']:.1f})"


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


def _pass_words(pass_at: Mapping[str, float]) -> str:
    told = ", ".join(f"pass@{k} {100 * share:.1f} %" for k, share in pass_at.items())
    return f"{told} (the verifier as an oracle among the draws)"


def _match(each: Mapping[str, Json]) -> str:
    """Say what share of its rollouts took ``a`` where ``b`` was; empty if not fewer."""
    share = each["median_share"]
    if share is None or share >= 1:
        return ""
    return (
        f"{each['a']} reaches the best of {each['b']} on selection with {100 * share:.0f} % of its "
        f"rollouts (median; {each['reached']} of {len(each['by_seed'])} seeds reach it)"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{round(value):,}".replace(",", " ")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
