"""Does the task work? Data and splits, the other parts, and real rollouts through all of it."""

from __future__ import annotations

import time

from whale_core.abilities import Probes
from whale_core.doctor.finding import Finding, fail, ok, warn
from whale_core.doctor.subject import Subject
from whale_core.keys import DrawKey
from whale_core.records import Outcome
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.run.parts import base_harness, check_splits, policy_of
from whale_core.run.services import probe_service

SPLITS = ("weight", "harness", "selection", "test")
ROLLOUTS = 16
DOMAIN_FIX = "correct the domain.* setting that the message names"
SERVICES_FIX = "start the service, or correct the setting that the message names"
METHOD_FIX = "correct the setting or install the package that the message names"
OTHER_PARTS = ("verifier", "proposer", "model_update", "harness_search", "scheduler")


async def check_services(subject: Subject) -> Finding:
    """Ask the services that domain and verifier depend on."""
    roles = ("domain", "verifier")
    asked = [role for role in roles if isinstance(subject.parts[role], Probes)]
    for role in asked:
        await probe_service(subject.parts[role])
    return ok(f"{' and '.join(asked)} found what they depend on" if asked else "none are needed")


def check_domain(subject: Subject) -> Finding:
    """Load the data; see that no example and no source is in two splits."""
    domain = subject.build("domain")
    sizes = {name: len(domain.split(name)) for name in SPLITS}
    empty = [name for name, size in sizes.items() if not size]
    counts = ", ".join(f"{name} {size}" for name, size in sizes.items())
    if empty:
        return fail(f"{domain.name}: no examples in {', '.join(empty)} ({counts})", DOMAIN_FIX)
    check_splits(domain)
    return ok(f"{domain.name} {domain.version}: {counts} examples, disjoint by content and source")


def check_method(subject: Subject) -> Finding:
    """Build everything else but the engine, in a run's order; find the base harness."""
    built = [role for role in OTHER_PARTS if subject.build(role) is not None]
    if "model_update" in built:
        subject.parts["model_update"].steps_per_epoch(len(subject.domain.split("weight")))
    h0 = base_harness(subject.domain, subject.settings.core.harness)
    return ok(f"base harness {h0.name}; {', '.join(built)} built")


async def check_rollouts(subject: Subject) -> Finding:
    """Roll out the base harness with the served weights on a few training examples."""
    core = subject.settings.core
    h0 = base_harness(subject.domain, core.harness)
    jobs = [
        Job(example, h0, DrawKey(core.seed, "smoke", 0, 0, example.id, 0))
        for example in subject.domain.split("weight")[:ROLLOUTS]
    ]
    executor = RolloutExecutor(subject.domain, subject.parts["verifier"], subject.jail_kind)
    policy = policy_of(subject.engine, core.rollout)
    started = time.monotonic()
    done = await executor.run(jobs, policy)
    seconds = time.monotonic() - started
    broken = [each for each in done if each.outcome is Outcome.NOT_SCORED]
    if broken:
        return fail(
            f"{len(broken)} of {len(done)} rollouts could not be scored: {broken[0].reason}",
            "mend what the reason names: engine, environment, verifier or jail",
        )
    crashed = [each for each in done if (each.reason or "").startswith("error")]
    if crashed:
        return fail(
            f"{len(crashed)} of {len(done)} rollouts of harness {h0.name}: {crashed[0].reason}",
            "mend the harness, or choose another with harness=NAME",
        )
    rewards = [each.verdict.reward for each in done if each.verdict is not None]
    if any(not 0.0 <= reward <= 1.0 for reward in rewards):
        return fail(
            f"the verifier gave a reward outside 0 to 1: {rewards}",
            "mend the verifier, or choose another with verifier=NAME",
        )
    tokens = sum(each.sampled_tokens for each in done)
    found = (
        f"{len(done)} of harness {h0.name}: {len(done) / seconds:.1f} rollouts/s, "
        f"{tokens / seconds:.0f} tokens/s, {len(rewards)} judged, mean reward "
        f"{sum(each.reward for each in done) / len(done):.2f}"
    )
    if not rewards:
        reasons = ", ".join(sorted({str(each.reason) for each in done}))
        return warn(
            f"{found}; none got as far as the verifier ({reasons})",
            "choose a harness that the model can follow, with harness=NAME",
        )
    return ok(found)
