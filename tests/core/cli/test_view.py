"""The terminal view: a whole run's events, drawn plainly and as a panel."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from attrs import evolve
from rich.console import Console

from whale_core.cli.outputs import LiveOutput, PlainOutput, draw
from whale_core.cli.progress import Progress
from whale_core.cli.tables import print_result
from whale_core.cli.view import View
from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
from whale_core.plugins.manager import Plugins
from whale_core.roles import (
    CandidateReport,
    Harness,
    PhaseResult,
    Rejection,
    Score,
    SearchIteration,
    WeightStep,
)

WEIGHTS = PhaseInfo(1, 1, "weights", "1a2b3c4d5e6f", "77aa88bb99cc", planned=3)
HARNESS = PhaseInfo(2, 1, "harness", "1a2b3c4d5e6f", "00ff00ff00ff", planned=2)
EVIL = "\x1b[2J[red]ignore all\nprevious lines\u202e" + "x" * 500


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def iteration() -> SearchIteration:
    harness = Harness("9f8e7d6c5b4a", "source", EVIL)
    score = Score(harness.id, "w", 0.125, 64, 0, {}, 1.0, 100)
    candidates = (
        CandidateReport(harness, None, "parse", EVIL, EVIL, score=score),
        CandidateReport(harness, None, "parse", EVIL, EVIL, rejection=Rejection("parse", EVIL)),
    )
    return SearchIteration(1, candidates, 0.125, harness, EVIL, seconds=8)


def play(plugins: Plugins, clock: Clock) -> None:
    """Tell the events of a short run."""
    hooks = plugins.hooks
    run = RunInfo(
        "demo", Path("runs/demo"), {"seed": 3}, {"planned_rollouts": 600}, ("jail: process",)
    )
    hooks.on_run_started(run)
    hooks.before_phase(WEIGHTS)
    for done in (64, 128, 192):
        clock.now += 6
        hooks.on_rollouts("train", done, 192, done * 10)
    clock.now += 2
    hooks.on_weight_step(
        WEIGHTS, WeightStep(1, 24, 192, 190, 9, 0.05, 1, loss=1.25, seconds=20, rollout_seconds=18)
    )
    hooks.after_phase(WEIGHTS, PhaseResult("weights", 1, 1, (0.05,)))
    hooks.before_phase(HARNESS)
    clock.now += 60
    hooks.on_rollouts("score", 8, 128, 80)
    clock.now += 4
    hooks.on_rollouts("score", 128, 128, 1080)
    hooks.on_search_iteration(HARNESS, iteration())
    hooks.on_phase_error(HARNESS, OSError(EVIL))
    hooks.on_evaluation(
        Evaluation("theta_h", "test", "h", "w", 200, 4, 0.214, 0.18, 0.25, {"format": 0.9})
    )
    hooks.on_run_finished(run, {})


def watched(output: object, clock: Callable[[], float]) -> Plugins:
    plugins = Plugins()
    plugins.hooks.on_observer_error = raise_it
    plugins.observe(View(output, clock), "view")  # type: ignore[arg-type]
    return plugins


def raise_it(plugin: str, hook: str, error: Exception) -> None:
    raise error


def test_piped_output_is_plain_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    output = PlainOutput(Console(file=stream, width=60))
    play(watched(output, clock), clock)
    dirty = "[2J[red]ignore all previous lines " + "x" * 500
    name = dirty[:39] + "…"
    assert stream.getvalue().splitlines() == [
        "[0:00] run demo in runs/demo, seed 3",
        "[0:00] note: jail: process",
        "[0:00] cycle 1, phase 1: weights, 3 steps; harness 1a2b3c4d, weights 77aa88bb",
        "[0:12] train: 128 of 192 rollouts, 128 rollouts, 1 280 tokens (107/s), about 0:44 left",
        "[0:20] step 1 of 3: training reward 5.0 %, accepted 9 of 190, 1 update, loss 1.250, 0:20",
        "[0:20] phase 1 done after 1 step: 5.0 %",
        "[0:20] cycle 1, phase 2: harness, 2 iterations; harness 1a2b3c4d, weights 00ff00ff",
        "[1:20] score: 8 of 128 rollouts, 200 rollouts, 2 000 tokens, about 2:40 left",
        "[1:24] iteration 1 of 2: 1 scored, 1 refused, archive's best 12.5 %, accepted "
        f"{name} 9f8e7d6c: {dirty[:79]}…, 0:08",
        f"[1:24] phase 2 failed: OSError: {dirty[:150]}…",
        "[1:24] theta_h on test: 21.4 % (18.0 % to 25.0 %), 200 examples × 4",
        "[1:24] run finished: 320 rollouts, 3 000 sampled tokens",
    ]
    assert all(line.isprintable() for line in stream.getvalue().splitlines())


def test_a_harness_that_crashes_in_most_rollouts_is_shown_to() -> None:
    stream, clock = io.StringIO(), Clock()
    hooks = watched(PlainOutput(Console(file=stream)), clock).hooks
    often = {"tokens": 5, f"error: {EVIL}": 31, "error: others": 2}
    half = {"error: KeyError": 32}
    for reasons in (often, half):
        step = WeightStep(1, 8, 64, 64, 0, 0.0, 0, reasons=reasons)
        hooks.before_phase(WEIGHTS)
        hooks.on_weight_step(WEIGHTS, step)
    told = iteration()
    (bad, refused) = told.candidates
    score = evolve(bad.score, scored=60, not_scored=4, reasons=often)
    bad = evolve(bad, score=score, harness=evolve(bad.harness, name="h0007"))
    hooks.before_phase(HARNESS)
    hooks.on_search_iteration(HARNESS, evolve(told, candidates=(bad, refused)))
    _, first, _, second, _, third = stream.getvalue().splitlines()
    assert "; 33 of 64 rollouts crashed, most often: error: [2J[red]ignore all" in first
    assert "crashed" not in second
    assert "; h0007: 33 of 64 rollouts crashed, most often: error: " in third
    assert stream.getvalue().replace("\n", "").isprintable()


def test_progress_lines_are_rare() -> None:
    stream, clock = io.StringIO(), Clock()
    plugins = watched(PlainOutput(Console(file=stream)), clock)
    for done in range(1, 101):
        clock.now += 0.5
        plugins.hooks.on_rollouts("train", done, 200, done)
    assert len(stream.getvalue().splitlines()) == 5  # 50 s, one every ten


def test_batches_add_up() -> None:
    progress = Progress(Clock())
    for batch in range(3):
        for done in (4, 8):
            progress.advance("train", done, 8, done * 5)
            assert progress.rollouts == batch * 8 + done
    assert (progress.sampled_tokens, progress.batch) == (120, None)


def test_time_left_counts_what_an_earlier_process_did() -> None:
    clock = Clock()
    progress = Progress(clock, started=clock())
    assert progress.time_left is None
    progress.planned_rollouts, progress.done_before = 100, 40
    progress.advance("train", 20, 20, 1)
    clock.now += 10
    assert progress.time_left == 20.0  # 40 left at 2 a second


class Last:
    """Keeps what the live panel would draw."""

    def event(self, progress: Progress, line: str) -> None:
        self.progress = progress
        self.lines = [*getattr(self, "lines", []), line]

    def tick(self, progress: Progress) -> None:
        self.progress = progress


def test_the_panel_shows_where_the_run_stands() -> None:
    last, clock = Last(), Clock()
    plugins = watched(last, clock)
    play(plugins, clock)
    plugins.hooks.on_rollouts("test", 100, 800, 1000)
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(draw(last.progress, last.lines[-6:]))
    text = console.export_text()
    for shown in (
        "whale: demo",
        "cycle             1, phase 2: harness",
        "iterations done   1 of 2",
        "training reward   5.0 %  █",
        "archive's best    12.5 %",
        "batch             test, 100 of 800 rollouts",
        "420 rollouts, 4 000 tokens (500/s)",
        "about 0:36 left",
        "theta_h on test: 21.4 %",
    ):
        assert shown in text, text
    assert "\x1b" not in text and "[red]ignore" in text  # shown as text, not as markup
    assert all(len(line) <= 100 for line in text.splitlines())


def test_the_live_panel_leaves_its_last_events_behind() -> None:
    clock = Clock()
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    with LiveOutput(console) as output:
        play(watched(output, clock), clock)
    shown = stream.getvalue()
    assert "run finished: 320 rollouts" in shown
    assert "\x1b[?25h" in shown  # the cursor is visible again
    assert "\u202e" not in shown


RESULT = {
    "pairs": {
        "theta0_h0": {
            "mean": 0.0,
            "low": 0.0,
            "high": 0.0046,
            "examples": 200,
            "draws": 4,
            "split": "test",
        },
        "theta0_h": {"mean": 0.041, "low": 0.028, "high": 0.057},
        "theta_h": {"mean": 0.214, "low": 0.18, "high": 0.25},
    },
    "differences": [
        {"a": "theta_h", "b": "theta0_h", "mean": 0.173, "low": 0.12, "high": 0.218},
        {"a": "theta_h", "b": "theta0_h0", "mean": -0.01, "low": -0.03, "high": 0.01},
    ],
    "chance": {"uniform legal": 0.03, "uniform forcing": 0.16},
    "sentence": "The pair beats its start.\x1b[2J",
}


def test_the_result_is_aligned_tables() -> None:
    stream = io.StringIO()
    print_result(Console(file=stream, width=100), RESULT)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert [line for line in lines if line.strip(" ─")] == [
        "mean reward on test, 200 examples × 4 draws (95 % interval)",
        "                          base harness h0         final harness h",
        "  initial weights θ0   0.0 % (0.0 to 0.5)      4.1 % (2.8 to 5.7)",
        "  final weights θ                       –   21.4 % (18.0 to 25.0)",
        "paired differences, percentage points (95 % interval)",
        "                      difference         interval",
        "  (θ, h) - (θ0, h)         +17.3   +12.0 to +21.8",
        "  (θ, h) - (θ0, h0)         -1.0     -3.0 to +1.0",
        "for scale, on the same examples",
        "                      mean",
        "  uniform legal      3.0 %",
        "  uniform forcing   16.0 %",
        "The pair beats its start. [2J",
    ]


def test_a_pair_that_is_another_says_so() -> None:
    def pair(harness: str, weights: str) -> dict[str, object]:
        measured = {"mean": 0.25, "low": 0.2, "high": 0.3, "examples": 8, "draws": 2}
        return {**measured, "harness_id": harness, "weights_id": weights}

    def shown(h: str, theta: str) -> list[str]:
        pairs = {
            "theta0_h0": pair("h0", "w0"),
            "theta0_h": pair(h, "w0"),
            "theta_h0": pair("h0", theta),
            "theta_h": pair(h, theta),
        }
        compared = [("theta_h", "theta0_h0"), ("theta_h", "theta0_h"), ("theta_h", "theta_h0")]
        differences = [{"a": a, "b": b, "mean": 0.0, "low": -0.1, "high": 0.1} for a, b in compared]
        stream = io.StringIO()
        print_result(Console(file=stream, width=140), {"pairs": pairs, "differences": differences})
        return [" ".join(line.split()) for line in stream.getvalue().splitlines()]

    nothing_found = shown("h0", "w1")
    assert "initial weights θ0 25.0 % (20.0 to 30.0) same harness as (θ0, h0)" in nothing_found
    assert "final weights θ 25.0 % (20.0 to 30.0) same harness as (θ, h0)" in nothing_found
    assert "(θ, h) - (θ, h0) same harness –" in nothing_found
    assert "(θ, h) - (θ0, h) +0.0 -10.0 to +10.0" in nothing_found
    not_trained = shown("h1", "w0")
    assert "final weights θ same weights as (θ0, h0) same weights as (θ0, h)" in not_trained
    assert "(θ, h) - (θ0, h) same weights –" in not_trained
    neither = shown("h0", "w0")
    assert "(θ, h) - (θ0, h0) same weights and same harness –" in neither
    assert not any("same" in line for line in shown("h1", "w1"))
