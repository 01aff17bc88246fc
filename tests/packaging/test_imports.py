"""Who may import what, read from the sources.

``whale_core`` imports no plugin; plugins import the core, never each other; ``whale_harness`` is
standard library only, because it is all that a harness finds in the jail; and what a distribution
imports, it declares.
"""

from __future__ import annotations

import ast
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEAVY = ("anthropic", "chess", "openai", "torch", "transformers")


def imported(path: Path) -> set[str]:
    """Return the top-level names that a source file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def imported_by_package(distribution) -> dict[str, set[str]]:
    found = {}
    for package in distribution.packages:
        sources = distribution.sources(package)
        assert sources, f"{package} has no sources"
        found[package] = set().union(*map(imported, sources))
    return found


def test_reads_every_kind_of_import(tmp_path):
    source = tmp_path / "module.py"
    source.write_text(
        "import a.b\nfrom c.d import e\nfrom . import f\ndef g():\n    import h as i\n"
    )
    assert imported(source) == {"a", "c", "h"}


def test_packages_meet_only_in_the_core(distribution, distributions):
    siblings = {package for one in distributions for package in one.packages}
    allowed = {*distribution.packages, "whale_core", "whale_harness"}
    for package, names in imported_by_package(distribution).items():
        assert names & siblings <= allowed, package


def test_the_harness_sdk_is_standard_library_only(distributions):
    (core,) = [one for one in distributions if one.name == "whale-core"]
    names = imported_by_package(core)["whale_harness"]
    assert names - {"whale_harness"} <= sys.stdlib_module_names


def test_the_core_knows_no_model_and_no_task(distributions):
    (core,) = [one for one in distributions if one.name == "whale-core"]
    assert not imported_by_package(core)["whale_core"] & set(HEAVY)


def test_what_is_imported_is_declared(distribution, distributions):
    siblings = {package for one in distributions for package in one.packages}
    owners = metadata.packages_distributions()
    extras = distribution.project.get("optional-dependencies", {}).values()
    optional = [Requirement(text) for texts in extras for text in texts]
    declared = {canonicalize_name(one.name) for one in (*distribution.requirements, *optional)}
    for package, names in imported_by_package(distribution).items():
        for name in names - sys.stdlib_module_names - siblings:
            # What is of an extra with a lane of its own is not installed here.
            candidates = {canonicalize_name(owner) for owner in owners.get(name, [name])}
            assert candidates & declared, f"{package} imports {name}: declare one of {candidates}"


@pytest.mark.parametrize("package", ["whale_core", "whale_harness"])
def test_the_core_ships_both_of_its_packages(package, distributions):
    (core,) = [one for one in distributions if one.name == "whale-core"]
    assert package in core.packages
