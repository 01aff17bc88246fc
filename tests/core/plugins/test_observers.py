"""Observers: each is told, in isolation, through the typed façade."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import pytest

from whale_core.plugins import hookimpl, hookspecs
from whale_core.plugins.events import Evaluation, PhaseInfo, RunInfo
from whale_core.plugins.manager import Observers, Plugins
from whale_core.roles import Conclusion, Harness, PhaseResult, SearchIteration, WeightStep

PHASE = PhaseInfo(number=1, cycle=1, kind="weights", harness_id="h", weights_id="w", planned=3)


class Recorder:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hookimpl
    def whale_before_phase(self, phase: PhaseInfo) -> None:
        self.seen.append(phase)

    @hookimpl
    def whale_on_rollouts(self, done: int, total: int) -> None:  # takes fewer arguments
        self.seen.append((done, total))


class Failing:
    @hookimpl
    def whale_before_phase(self, phase: PhaseInfo) -> None:
        raise OSError("tracker is down")


class Interrupting:
    @hookimpl
    def whale_before_phase(self, phase: PhaseInfo) -> None:
        raise KeyboardInterrupt


def test_a_failing_observer_is_reported_and_the_others_are_told() -> None:
    plugins, first, last = Plugins(), Recorder(), Recorder()
    plugins.observe(first, "first")
    plugins.observe(Failing(), "tracker")
    plugins.observe(last, "last")
    told: list[tuple[str, str, str]] = []
    plugins.hooks.on_observer_error = lambda *error: told.append(
        (error[0], error[1], str(error[2]))
    )
    plugins.hooks.before_phase(PHASE)
    plugins.hooks.on_rollouts("train", 1, 8, 100)
    assert first.seen == last.seen == [PHASE, (1, 8)]
    assert told == [("tracker", "whale_before_phase", "tracker is down")]


def test_without_a_handler_the_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    plugins = Plugins()
    plugins.observe(Failing(), "tracker")
    with caplog.at_level(logging.WARNING):
        plugins.hooks.before_phase(PHASE)
    assert "tracker" in caplog.text and "whale_before_phase" in caplog.text


def test_an_interruption_is_never_swallowed() -> None:
    plugins = Plugins()
    plugins.observe(Interrupting(), "tracker")
    with pytest.raises(KeyboardInterrupt):
        plugins.hooks.before_phase(PHASE)


def test_an_observer_with_a_misspelt_hook_is_refused() -> None:
    class Misspelt:
        @hookimpl
        def whale_before_phse(self, phase: PhaseInfo) -> None: ...

    with pytest.raises(TypeError, match="did you mean 'whale_before_phase'"):
        Plugins().observe(Misspelt(), "tracker")


def observer_specs() -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(function)
        for name, function in vars(hookspecs).items()
        if name.startswith("whale_") and not name.startswith("whale_register_")
    }


def test_the_facade_has_every_observer_hook_with_its_signature() -> None:
    for name, spec in observer_specs().items():
        method = inspect.signature(getattr(Observers, name.removeprefix("whale_")))
        parameters = list(method.parameters.values())[1:]
        assert [(p.name, p.annotation) for p in parameters] == [
            (p.name, p.annotation) for p in spec.parameters.values()
        ], name


def test_every_hook_arrives_with_its_arguments() -> None:
    plugins = Plugins()
    seen: list[str] = []

    class Everything:
        pass

    for name, spec in observer_specs().items():
        names = ", ".join(spec.parameters)
        space: dict[str, Any] = {"seen": seen}
        exec(f"def {name}(self, {names}): seen.append(('{name}', {names}))", space)
        setattr(Everything, name, hookimpl(space[name]))
    plugins.observe(Everything(), "everything")

    run = RunInfo("r", Path("r"), {})
    harness = Harness("h", "source")
    result = PhaseResult("weights", 1, 1, (0.5,))
    step = WeightStep(1, 1, 1, 1, 1, 0.5, 1)
    iteration = SearchIteration(1, (), 0.5, harness, "the only one")
    conclusion = Conclusion(harness, "confirmed")
    evaluation = Evaluation("theta_h", "test", "h", "w", 1, 1, 0.5, 0.4, 0.6)
    error = OSError("x")
    hooks = plugins.hooks
    hooks.on_run_started(run)
    hooks.before_phase(PHASE)
    hooks.on_rollouts("train", 1, 2, 3)
    hooks.on_weight_step(PHASE, step)
    hooks.on_search_iteration(PHASE, iteration)
    hooks.on_search_conclusion(PHASE, conclusion)
    hooks.after_phase(PHASE, result)
    hooks.on_phase_error(PHASE, error)
    hooks.on_evaluation(evaluation)
    hooks.on_run_finished(run, {"pairs": {}})
    assert seen == [
        ("whale_on_run_started", run),
        ("whale_before_phase", PHASE),
        ("whale_on_rollouts", "train", 1, 2, 3),
        ("whale_on_weight_step", PHASE, step),
        ("whale_on_search_iteration", PHASE, iteration),
        ("whale_on_search_conclusion", PHASE, conclusion),
        ("whale_after_phase", PHASE, result),
        ("whale_on_phase_error", PHASE, error),
        ("whale_on_evaluation", evaluation),
        ("whale_on_run_finished", run, {"pairs": {}}),
    ]


def test_observers_are_called_in_pluggy_s_order() -> None:
    told: list[str] = []

    def observer(name: str, **options: bool) -> object:
        def tell(self: object, text: str) -> None:
            told.append(name)

        return type(name, (), {"whale_on_notice": hookimpl(**options)(tell)})()

    plugins = Plugins()
    plugins.observe(observer("early"), "early")
    plugins.observe(observer("first", tryfirst=True), "first")
    plugins.observe(observer("last", trylast=True), "last")
    plugins.observe(observer("late"), "late")
    plugins.hooks.on_notice("stopping")
    assert told == ["first", "late", "early", "last"]
