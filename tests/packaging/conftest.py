"""The repository's distributions, read from their pyproject files; wheels and venvs for them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import frozen
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from shared_kit import made_once

ROOT = Path(__file__).parents[2]


@frozen
class Distribution:
    """One pyproject file of the repository."""

    folder: Path
    project: Mapping[str, Any]  # its [project] table
    packages: tuple[str, ...]  # import packages of its wheel

    @property
    def name(self) -> str:
        return self.project["name"]

    @property
    def requirements(self) -> list[Requirement]:
        return [Requirement(text) for text in self.project["dependencies"]]

    @property
    def plugin_modules(self) -> list[str]:
        return list(self.project["entry-points"]["whale"].values())

    def sources(self, package: str) -> list[Path]:
        return sorted((self.folder / "src" / package).rglob("*.py"))


def read_distribution(path: Path) -> Distribution:
    table = tomllib.loads(path.read_text())
    packages = table["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return Distribution(path.parent, table["project"], tuple(Path(p).name for p in packages))


DISTRIBUTIONS = [
    read_distribution(path)
    for pattern in ("whale_*/pyproject.toml", "whale_domains/*/pyproject.toml", "plugins/*/*.toml")
    for path in sorted(ROOT.glob(pattern))
]

EXAMPLES = [read_distribution(path) for path in sorted(ROOT.glob("examples/*/pyproject.toml"))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "distribution" in metafunc.fixturenames:
        names = [one.name for one in DISTRIBUTIONS]
        metafunc.parametrize("distribution", DISTRIBUTIONS, ids=names, scope="session")
    if "example" in metafunc.fixturenames:
        names = [one.folder.name for one in EXAMPLES]
        metafunc.parametrize("example", EXAMPLES, ids=names, scope="session")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def installer() -> ModuleType:
    """``scripts/install.py`` as a module."""
    spec = importlib.util.spec_from_file_location("install", ROOT / "scripts" / "install.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def distributions() -> list[Distribution]:
    return DISTRIBUTIONS


@pytest.fixture(scope="session")
def examples() -> list[Distribution]:
    return EXAMPLES


@pytest.fixture(scope="session")
def clean_environment() -> dict[str, str]:
    """An environment in which nothing but what is installed can be imported."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_"))}
    return {**kept, "PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"}


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of every distribution and example by name, each built from its own sdist."""
    every = (*DISTRIBUTIONS, *EXAMPLES)

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder]
        for one in every:
            subprocess.run([*command, one.folder], check=True, capture_output=True)

    folder = made_once(tmp_path_factory, "wheels", build)
    return {one.name: next(folder.glob(f"{one.packages[0]}-*.whl")) for one in every}


@pytest.fixture(scope="session")
def install_alone(
    tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]
) -> Callable[[list[str]], Path]:
    """A function: names, or ``whale-core[default]``, to the Python of a new venv in which pip
    installed them from the folder of wheels alone; of everything else installed here it has only
    what they declare (linked, not downloaded)."""
    folder = next(iter(wheels.values())).parent

    def install(names: list[str]) -> Path:
        venv = tmp_path_factory.mktemp("venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        python = venv / "bin" / "python"
        others = declared_by_others(names)
        links = venv / "declared"
        link_installed(others, links)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        (venv / "lib" / version / "site-packages" / "declared.pth").write_text(f"{links}\n")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        subprocess.run([*pip, "--no-index", "--find-links", folder, *names], check=True)
        return python

    return install


def declared_by_others(names: list[str]) -> set[str]:
    """Return all distributions of others that ours, ``names``, need by declaration."""
    projects = {one.name: one for one in (*DISTRIBUTIONS, *EXAMPLES)}
    ours: set[str] = set()
    others: set[str] = set()
    pending = [Requirement(name) for name in names]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        extras = requirement.extras or {""}
        if not applies(requirement) or name in others or str(requirement) in ours:
            continue
        if name in projects:
            ours.add(str(requirement))
            one = projects[name]
            pending += one.requirements
            for extra in requirement.extras:
                pending += map(Requirement, one.project["optional-dependencies"][extra])
            continue
        others.add(name)
        for text in metadata.requires(name) or []:
            needed = Requirement(text)
            if any(applies(needed, extra) for extra in extras):
                pending.append(needed)
    return others


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def link_installed(names: set[str], folder: Path) -> None:
    """Fill ``folder`` with links to the installed files of the distributions ``names``."""
    folder.mkdir()
    site = Path(sysconfig.get_path("purelib"))
    for name in sorted(names):
        files = metadata.distribution(name).files or []
        for top in sorted({path.parts[0] for path in files} - {"..", "__pycache__"}):
            link = folder / top
            if not link.exists():
                link.symlink_to(site / top)
