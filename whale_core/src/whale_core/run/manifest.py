"""The manifest: versions, machine facts and content hashes of all that defines a score."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from whale_core import __version__
from whale_core.abilities import NamesService
from whale_core.config import Resolved
from whale_core.errors import RunFolderError
from whale_core.plugins.requirements import applies, requirements_of
from whale_core.records import Json
from whale_core.roles import Domain
from whale_core.run.parts import Parts
from whale_core.run.sealed import split_hash

CORE = "whale-core"  # its version is told apart


def manifest_of(resolved: Resolved, parts: Parts) -> dict[str, Json]:
    """Return versions, machine facts and the content hashes of all that defines a score.

    To be called once services have been probed: what answered is in it.
    """
    return {
        "whale": __version__,
        "seed": resolved.core.seed,
        "settings_hash": resolved.settings_hash(),
        "engine": dict(parts.engine.facts()),
        "harness": parts.h0.id,
        "domain": {
            "name": parts.domain.name,
            "version": parts.domain.version,
            **_service(parts.unsealed),
        },
        "verifier": parts.verifier.version,
        "splits": {
            name: {
                "examples": len(parts.unsealed.split(name)),
                "hash": split_hash(parts.unsealed.split(name)),
            }
            for name in ("weight", "harness", "selection", "test")
        },
        "plugins": {
            role: f"{chosen.registered.distribution} {chosen.registered.version}"
            for role, chosen in resolved.chosen.items()
        },
        "jail": parts.jail_kind,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": _packages(resolved),
    }


def _service(domain: Domain) -> dict[str, Json]:
    named = domain.service if isinstance(domain, NamesService) else ""
    return {"service": named} if named else {}


def check_manifest(run_dir: Path, then: Mapping[str, Json], now: Mapping[str, Json]) -> None:
    """Refuse to mix numbers: what defines a score must be as it was when the run began."""
    for key in now:
        if then.get(key) != now[key]:
            before, after = _differing(then.get(key), now[key])
            raise RunFolderError(
                f"{run_dir}: {key} differs from when the run was started ({before} then, "
                f"{after} now): resume it where it began, or start a new run"
            )


def _differing(then: Json, now: Json) -> tuple[Json, Json]:
    """Return only the fields that differ, where both are mappings."""
    if not isinstance(then, Mapping) or not isinstance(now, Mapping):
        return then, now
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    return (
        {name: then[name] for name in names if name in then},
        {name: now[name] for name in names if name in now},
    )


def _packages(resolved: Resolved) -> dict[str, Json]:
    """Return the versions of what the chosen plugins stand on, and of the core's own arithmetic."""
    names = {"numpy", "scipy"}
    for distribution in {chosen.registered.distribution for chosen in resolved.chosen.values()}:
        if distribution != CORE:
            needed = filter(applies, requirements_of(distribution))
            names |= {canonicalize_name(each.name) for each in needed} - {CORE}
    return {name: version for name in sorted(names) if (version := _version(name))}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
