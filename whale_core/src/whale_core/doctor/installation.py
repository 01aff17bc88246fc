"""Is what is installed whole? Python, distributions, packages, plugins, the plugin set."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import import_module, metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import whale_core
from whale_core.config import resolve
from whale_core.doctor.finding import Finding, fail, ok
from whale_core.doctor.subject import Subject
from whale_core.plugins import ENTRY_POINT_GROUP

CORE = "whale-core"
TOLD = ("numpy", "torch", "transformers")  # versions worth a place in the line


def check_python(subject: Subject) -> Finding:
    """Compare the running Python with what whale-core declares."""
    needed = SpecifierSet(metadata.metadata(CORE)["Requires-Python"] or "")
    version = platform.python_version()
    found = (
        f"{platform.python_implementation()} {version}, {platform.system()} {platform.machine()}"
    )
    if not needed.contains(version, prereleases=True):
        return fail(f"{found}; whale-core needs {needed}", f"use a Python {needed}")
    return ok(found)


def check_distributions(subject: Subject) -> Finding:
    """See that the core and all plugin distributions want each other's versions."""
    found = plugin_distributions()
    versions = {name: each.version for name, each in found.items()}
    problems = [
        f"{name} {versions[name]} needs {requirement}, installed is {versions[other]}"
        for name, each in found.items()
        for requirement, other in _requirements(each, extra="default")
        if other in versions and not _fits(requirement, versions[other])
    ]
    if versions[CORE] != whale_core.__version__:
        problems.append(
            f"the whale_core that is imported is {whale_core.__version__}, installed is "
            f"{versions[CORE]}"
        )
    if problems:
        return fail("; ".join(problems), f"pip install --upgrade {' '.join(sorted(versions))}")
    others = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return ok(others)


def check_packages(subject: Subject) -> Finding:
    """Import every package that the core and the plugins declare, each in its declared range."""
    modules = _modules()
    found = plugin_distributions()
    problems: list[str] = []
    wrong: dict[str, str] = {}
    versions: dict[str, str] = {}
    for owner, each in found.items():
        for requirement, name in _requirements(each):
            if name in found:
                continue
            problem = _problem(requirement, name, modules, versions)
            if problem and name not in wrong:
                wrong[name] = f"'{requirement.name}{requirement.specifier}'"
                problems.append(
                    f"{owner} needs {requirement.name}{requirement.specifier}: {problem}"
                )
    if problems:
        again = "--force-reinstall " if any(": import " in each for each in problems) else ""
        return fail("; ".join(problems), f"pip install {again}{' '.join(wrong.values())}")
    told = [f"{name} {versions[name]}" for name in TOLD if name in versions]
    return ok(f"{', '.join(told)}; all {len(versions)} declared packages in range and importable")


def check_plugins(subject: Subject) -> Finding:
    """Report plugins that could not be loaded and names that two distributions claim."""
    plugins = subject.plugins
    failures = [*plugins.failures, *plugins.unusable()]
    broken = [str(each).removesuffix(f"; {each.remedy}") for each in failures]
    fixes = [each.remedy for each in failures]
    for role, name, origin in plugins.conflicts():
        broken.append(f"{role} '{name}' is registered by {origin} and by another")
        fixes.append(f"uninstall all but one that register {role} '{name}'")
    if broken:
        return fail("; ".join(broken), "; ".join(dict.fromkeys(fixes)))
    left_out = "; ".join(plugins.left_out())
    told = f"{len(plugin_distributions())} distributions, none broken"
    return ok(f"{told}; {left_out}" if left_out else told)


def check_plugin_set(subject: Subject) -> Finding:
    """Resolve the configuration as a run would."""
    subject.resolved = resolve(
        subject.plugins, subject.plugin_set, subject.files, subject.overrides
    )
    roles = ", ".join(f"{role} {each.name}" for role, each in subject.resolved.chosen.items())
    return ok(f"{subject.plugin_set}: {roles}")


def plugin_distributions() -> dict[str, metadata.Distribution]:
    """Return whale-core and every distribution with a plugin, by normalised name."""
    found = {CORE: metadata.distribution(CORE)}
    for point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        if point.dist is not None and point.dist.metadata.get_all("Name"):
            found.setdefault(canonicalize_name(point.dist.name), point.dist)
    return found


def _requirements(
    distribution: metadata.Distribution, extra: str = ""
) -> list[tuple[Requirement, str]]:
    """Return what a distribution requires here, with normalised names."""
    requirements = [Requirement(text) for text in distribution.requires or ()]
    return [
        (each, canonicalize_name(each.name))
        for each in requirements
        if each.marker is None or each.marker.evaluate({"extra": extra})
    ]


def _fits(requirement: Requirement, version: str) -> bool:
    return requirement.specifier.contains(version, prereleases=True)


def _problem(
    requirement: Requirement,
    name: str,
    modules: Mapping[str, list[str]],
    versions: dict[str, str],
) -> str:
    """Return what is wrong with a required package, or nothing; its version is noted."""
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
    if not _fits(requirement, versions[name]):
        return f"installed is {versions[name]}"
    for module in modules.get(name, ()):
        try:
            import_module(module)
        except (Exception, SystemExit) as error:
            cause = " ".join(str(error).split())
            return f"import {module} fails ({type(error).__name__}: {cause})"
    return ""


def _modules() -> dict[str, list[str]]:
    """Return the importable names of each distribution: the one it is named after, or all."""
    names: dict[str, list[str]] = {}
    for module, owners in metadata.packages_distributions().items():
        if module.isidentifier() and not module.startswith("_"):
            for owner in set(owners):
                names.setdefault(canonicalize_name(owner), []).append(module)
    for distribution, modules in names.items():
        own = [each for each in modules if canonicalize_name(each) == distribution]
        names[distribution] = own or sorted(modules)
    return names
