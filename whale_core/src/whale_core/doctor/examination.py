"""Works off the checks in order: one that needs a failed one is skipped, none can crash."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence

from attrs import evolve, frozen

from whale_core.abilities import TakesMessages
from whale_core.doctor import installation, jail, machine, numbers, task, template, turns
from whale_core.doctor.finding import Finding, State, fail, ok, skipped
from whale_core.doctor.subject import Subject
from whale_core.errors import WhaleError
from whale_core.run.services import close_each

DEFECT = "a defect of that plugin or of whale-core: report it with this line"
CLOSING = "closing the parts"
OPENED = ("domain", "verifier", "engine")
ENDPOINT = "the endpoint's own affair: this engine sends it messages"


@frozen
class Check:
    """One check: its name, its function, the checks it builds on, and the remedy for an error it
    does not expect. ``inside`` marks what cannot be looked at behind an endpoint."""

    name: str
    run: Callable[[Subject], Finding | Awaitable[Finding]]
    needs: tuple[str, ...] = ()
    fix: str = DEFECT
    inside: bool = False


CHECKS = (
    Check("python", installation.check_python, fix="install whale-core with pip"),
    Check("distributions", installation.check_distributions, fix="install whale-core with pip"),
    Check("packages", installation.check_packages),
    Check("plugins", installation.check_plugins),
    Check(
        "plugin set", installation.check_plugin_set, fix="correct what is named; see whale plugins"
    ),
    Check("run folders", machine.check_run_folders, fix=machine.RUN_DIR_FIX),
    Check("cache folder", machine.check_cache, fix=machine.CACHE_FIX),
    Check("state folder", machine.check_state, fix=machine.STATE_FIX),
    Check("domain", task.check_domain, ("plugin set",), task.DOMAIN_FIX),
    Check("method", task.check_method, ("domain",), task.METHOD_FIX),
    Check("services", task.check_services, ("method",), task.SERVICES_FIX),
    Check("jail", jail.check_jail, ("plugin set",), jail.FIX),
    Check("jailed episode", jail.check_episode, ("jail",), jail.FIX),
    Check("engine", numbers.check_engine, ("domain",), numbers.ENGINE_FIX),
    Check("threads", machine.check_threads, fix=machine.TORCH_FIX),
    Check("arithmetic", machine.check_arithmetic, fix=machine.TORCH_FIX),
    Check("memory", machine.check_memory, ("engine",)),
    Check("chat template", template.check_exactness, ("engine",), template.FIX, True),
    Check("later turns", turns.check_turns, ("chat template",), template.FIX, True),
    Check("end token", template.check_end_token, ("engine",), template.FIX, True),
    Check("batch invariance", numbers.check_invariance, ("engine",), numbers.ENGINE_FIX, True),
    Check("log-probabilities", numbers.check_logprobs, ("engine",), numbers.ENGINE_FIX, True),
    Check("served weights", numbers.check_weights, ("engine",), numbers.ENGINE_FIX, True),
    Check(
        "rollouts",
        task.check_rollouts,
        ("method", "jailed episode", "chat template"),
        "mend the part that the message names",
    ),
)


def examine(
    subject: Subject, tell: Callable[[Finding], None], checks: Sequence[Check] = CHECKS
) -> list[Finding]:
    """Return one finding per check, in order; ``tell`` gets each as soon as it is there."""
    findings: list[Finding] = []
    missing: dict[str, str] = {}

    def add(finding: Finding) -> None:
        findings.append(finding)
        tell(finding)

    # Constructors may use a loop of their own, so only coroutines run inside this one.
    with asyncio.Runner() as runner:
        try:
            for check in checks:
                finding = _examine(check, subject, missing, runner)
                if finding.state is State.FAIL:
                    missing[check.name] = "failed"
                elif finding.state is State.SKIPPED:
                    missing[check.name] = "was skipped"
                add(finding)
        finally:
            opened = [subject.parts[role] for role in OPENED if role in subject.parts]
            try:
                runner.run(close_each(*opened))
            except Exception as error:
                add(evolve(fail(_line(error), DEFECT), name=CLOSING))
    return findings


def _examine(
    check: Check, subject: Subject, missing: dict[str, str], runner: asyncio.Runner
) -> Finding:
    for need in check.needs:
        if need in missing:
            return evolve(skipped(f"needs '{need}', which {missing[need]}"), name=check.name)
    if check.inside and isinstance(subject.parts.get("engine"), TakesMessages):
        return evolve(ok(ENDPOINT), name=check.name)
    started = time.monotonic()
    try:
        found = check.run(subject)
        if inspect.iscoroutine(found):
            found = runner.run(found)
        assert isinstance(found, Finding)
    except (Exception, SystemExit) as error:
        found = fail(_line(error), check.fix)
    return evolve(found, name=check.name, seconds=round(time.monotonic() - started, 3))


def _line(error: BaseException) -> str:
    """Return an error as one line; one that is meant for users needs no type."""
    text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    if isinstance(error, WhaleError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
