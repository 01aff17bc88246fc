"""Planning a run from its configuration: counts, and what they cost on this machine."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from attrs import asdict, frozen

from whale_core.abilities import PlansServing, PlansTraining, Probes, Serving, TakesMessages
from whale_core.config import Resolved
from whale_core.plugins.manager import Plugins
from whale_core.plugins.references import resolve
from whale_core.records import Json
from whale_core.run.calibration import Calibration, calibrate
from whale_core.run.estimate import Estimate, estimate, refuse_small_caps
from whale_core.run.footprint import Footprint, footprint, known_model, token_limit
from whale_core.run.outline import Outline, outlined
from whale_core.run.parts import Parts, build_parts, check_loads
from whale_core.run.plan import Plan, plan_run
from whale_core.run.services import close_each, probe_service


@frozen
class Preview:
    """A plan, and unless it was left out the calibration with the estimate made from it; or, of a
    run whose model and devices are not here, the ``footprint`` that arithmetic gives."""

    plugin_set: str
    seed: int
    settings_hash: str
    plan: Plan
    calibration: Calibration | None
    estimate: Estimate | None
    notes: tuple[str, ...]
    footprint: Footprint | None = None

    def as_json(self) -> dict[str, Json]:
        """Return the preview as plain JSON."""
        return {
            "plugin_set": self.plugin_set,
            "seed": self.seed,
            "settings_hash": self.settings_hash,
            "plan": self.plan.as_json(),
            "estimate": None if self.estimate is None else self.estimate.as_json(),
            "footprint": None if self.footprint is None else self.footprint.as_json(),
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "notes": list(self.notes),
        }


def preview(
    resolved: Resolved, plugins: Plugins, runs: Path, *, calibrated: bool = True
) -> Preview:
    """Plan the run that ``resolved`` names; calibrate in a temporary folder where runs are kept.

    Raises:
        InputError: a setting is wrong, or a cap is too small for one cycle.
        WhaleError: the run could not be started either.
    """
    engine = resolved.chosen["engine"].config
    if isinstance(engine, PlansServing) and (serving := engine.serving()) is not None:
        return _from_settings(resolved, plugins, serving)
    parts = build_parts(resolved, plugins)
    return asyncio.run(_preview(resolved, parts, runs, calibrated))


def _from_settings(resolved: Resolved, plugins: Plugins, serving: Serving) -> Preview:
    """Plan from the settings alone: neither data, model nor devices are asked for."""
    core = resolved.core
    plan = plan_run(outlined(resolved, plugins), core)
    refuse_small_caps(plan, core.cap, None)
    notes = [*plan.notes, "planned from the settings alone: no data was read, nothing measured"]
    domain, update = resolved.chosen["domain"], resolved.chosen.get("model_update")
    limit = token_limit(
        resolve(domain.registered, domain.registered.registration.factory), domain.config
    )
    model = known_model(serving.model)
    found = None
    if model is None:
        notes.append(f"nothing is known of the model {serving.model}: no memory, no time")
    else:
        each = limit or serving.context
        if limit is None:
            notes.append("the domain names no limit of sampled tokens: a whole context is taken")
        planned = plan.by_purpose()
        config = None if update is None else update.config
        found = footprint(
            model,
            serving,
            config.training() if isinstance(config, PlansTraining) else None,
            plan.rollouts.known * each,
            planned["train"].known * each,
        )
        notes += [f"assumed: {line}" for line in found.assumed]
    return Preview(
        plugin_set=resolved.plugin_set,
        seed=core.seed,
        settings_hash=resolved.settings_hash(),
        plan=plan,
        calibration=None,
        estimate=None,
        notes=tuple(notes),
        footprint=found,
    )


async def _preview(resolved: Resolved, parts: Parts, runs: Path, calibrated: bool) -> Preview:
    core = resolved.core
    notes = [*parts.notes]
    measured, costs = None, None
    try:
        await check_loads(parts)
        await probe_service(parts.unsealed)  # not the verifier: a judge's would cost
        plan = plan_run(Outline.of(parts), core)
        notes += plan.notes
        refuse_small_caps(plan, core.cap, None)
        place = next(each for each in (runs, *runs.absolute().parents) if each.is_dir())
        if isinstance(parts.engine, TakesMessages) or isinstance(parts.verifier, Probes):
            notes.append("an endpoint is paid for its answers, so none are asked for: counts only")
        elif calibrated:
            with tempfile.TemporaryDirectory(prefix=".whale-plan-", dir=place) as folder:
                measured = await calibrate(parts, core, plan.step, Path(folder))
            notes += measured.notes
            costs = estimate(plan, core, measured)
            refuse_small_caps(plan, core.cap, costs)
            free = shutil.disk_usage(place).free
            if free < costs.fullest_bytes.known:
                notes.append(f"{place} has {free / 2**30:.1f} GiB free: too little for this run")
    finally:
        await close_each(*parts.closing)
    return Preview(
        plugin_set=resolved.plugin_set,
        seed=core.seed,
        settings_hash=resolved.settings_hash(),
        plan=plan,
        calibration=measured,
        estimate=costs,
        notes=tuple(notes),
    )
