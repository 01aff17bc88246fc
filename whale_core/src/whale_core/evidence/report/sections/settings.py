"""How to repeat the run: the command, settings, seed, versions, machine and content hashes."""

from __future__ import annotations

from collections.abc import Mapping

from whale_core.evidence.report.blocks import definitions, folded, note, table
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.evidence.report.words import count
from whale_core.records import Json

SETTINGS = 40_000  # characters


def settings(run: ReportedRun) -> Markup:
    """Return what defines the run's figures."""
    manifest = run.manifest
    engine: Mapping[str, Json] = manifest["engine"]
    facts: dict[str, Content] = {
        "plugin set": clipped(str(run.setting("plugin_set", "")), 100),
        "seed": str(manifest["seed"]),
        "settings hash": tag("code", str(manifest["settings_hash"])),
        "domain": _named(manifest["domain"]),
        "verifier": clipped(str(manifest["verifier"]), 100),
        "base harness": tag("code", str(manifest["harness"])),
        "jail": str(manifest["jail"]),
        "whale": str(manifest["whale"]),
        "Python": str(manifest["python"]),
        "machine": clipped(str(manifest["machine"]), 100),
        "engine": _named(engine),
    }
    splits = [
        (name, count(each["examples"]), tag("code", str(each["hash"])))
        for name, each in manifest["splits"].items()
    ]
    plugins = [(role, clipped(str(name), 80)) for role, name in manifest["plugins"].items()]
    packages = [(name, clipped(str(each), 80)) for name, each in manifest["packages"].items()]
    return joined(
        tag("p", "To repeat it, save the settings below as ", tag("code", "settings.yaml"), " and"),
        tag("pre", clipped(run.again("settings.yaml"), 400)),
        _base(run),
        note(
            "On one machine with equal versions and threads the figures come out equal; elsewhere "
            "within chance."
        ),
        definitions(facts),
        folded("all-settings", "All settings, defaults written out",
               tag("pre", clipped(run.settings_text, SETTINGS))),
        folded("splits", "Data splits and their content hashes",
               table(("split", "examples", "hash"), splits)),
        folded("versions", "Plugins and packages", table(("role", "distribution"), plugins),
               table(("package", "version"), packages)),
    )  # fmt: skip


def _base(run: ReportedRun) -> Content:
    named = str(run.setting("harness", "") or "")
    if not named.endswith(".py"):
        return None
    return note(
        "It began with a harness file of its own, ",
        tag("code", clipped(named, 200)),
        ": use the run folder's h0.py.",
    )


def _named(values: Mapping[str, Json]) -> Markup:
    return clipped(", ".join(f"{name}: {value}" for name, value in values.items()), 1_500)
