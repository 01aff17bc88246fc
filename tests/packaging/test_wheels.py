"""What a user gets: the wheels, alone, from outside the checkout."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.packaging

WALK = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    assert package.__file__, name
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith((".__main__", *OF_EXTRAS)):
            importlib.import_module(module.name)
"""
# What needs an extra that has an environment of its own.
OF_EXTRAS = (".openrlhf.actor", ".openrlhf.adapter", ".openrlhf.group")


def contents(wheel) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_wheel_holds_its_packages_and_nothing_else(distribution, wheels):
    names = contents(wheels[distribution.name])
    info = f"{distribution.packages[0]}-{distribution.project['version']}.dist-info"
    assert {name.split("/")[0] for name in names} == {*distribution.packages, info}
    assert f"{info}/licenses/LICENSE" in names


def test_a_wheel_holds_every_file_of_its_sources(distribution, wheels):
    source = distribution.folder / "src"
    there = {
        path.relative_to(source).as_posix()
        for package in distribution.packages
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there <= contents(wheels[distribution.name])
    assert {f"{package}/py.typed" for package in distribution.packages} <= there


@pytest.mark.parametrize(
    ("name", "folder", "suffix"),
    [
        ("whale-core", "whale_core/plugin_sets/", ".yaml"),
        ("whale-chess", "whale_chess/data/", ".zst"),
        ("whale-metaharness", "whale_metaharness/briefs/", ".md"),
        ("whale-chess", "whale_chess/harnesses/", ".py"),
    ],
)
def test_a_wheel_holds_its_data(name, folder, suffix, wheels):
    names = contents(wheels[name])
    assert [one for one in names if one.startswith(folder) and one.endswith(suffix)]


NEEDS_TORCH = {"whale-rsft", "whale-transformers"}


@pytest.fixture
def rows_of(clean_environment, tmp_path):
    """A function: the Python of a venv to what ``whale plugins`` shows there."""

    def rows(python: Path) -> list[dict[str, str]]:
        shown = subprocess.run(
            [python.parent / "whale", "plugins", "--json"],
            cwd=tmp_path,
            env=clean_environment,
            capture_output=True,
            text=True,
        )
        assert shown.returncode == 0, shown.stderr
        return json.loads(shown.stdout)

    return rows


def test_a_wheel_works_alone_with_what_it_declares(
    distribution, install_alone, clean_environment, rows_of, tmp_path
):
    python = install_alone([distribution.name])
    command = [python, "-c", f"OF_EXTRAS = {OF_EXTRAS}\n{WALK}", *distribution.packages]
    result = subprocess.run(
        command, cwd=tmp_path, env=clean_environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    shown = {(row["distribution"], row["state"]) for row in rows_of(python)}
    assert shown == {("whale-core", "ok"), (distribution.name, "ok")}
    torch = subprocess.run([python, "-c", "import torch"], env=clean_environment)
    assert (torch.returncode == 0) == (distribution.name in NEEDS_TORCH)


def test_the_extra_default_brings_what_the_set_default_needs(distributions, install_alone, rows_of):
    (core,) = [one for one in distributions if one.name == "whale-core"]
    extra = core.project["optional-dependencies"]["default"]
    rows = rows_of(install_alone(["whale-core[default]"]))
    assert {row["state"] for row in rows} == {"ok"}
    assert {row["distribution"] for row in rows} == {
        "whale-core",
        *(Requirement(text).name for text in extra),
    }


def test_all_wheels_together_show_their_plugins(distributions, install_alone, rows_of):
    rows = rows_of(install_alone([one.name for one in distributions]))
    assert {row["state"] for row in rows} == {"ok"}, rows
    shown = {(row["distribution"], row["version"]) for row in rows}
    assert shown == {(one.name, one.project["version"]) for one in distributions}
