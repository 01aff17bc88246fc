"""Throw-away environments with plugins in every state, each installed by pip."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

HOOKS = "from whale_core.plugins import Registration, hookimpl\n"
COMMAND = "import sys; from whale_core.cli.main import main; sys.exit(main())"
SIBLINGS = (
    "chess",
    "math",
    "metaharness",
    "openai",
    "rsft",
    "schedulers",
    "searchqa",
    "trackers",
    "transformers",
    "vllm",
)


def registering(hook: str, name: str, factory: str, config: str) -> str:
    """Return the source of a plugin module with one registration hook."""
    return f"""{HOOKS}
@hookimpl
def {hook}():
    return [Registration("{name}", "{factory}", "{config}", "for a test")]
"""


@frozen
class Package:
    """A plugin package: its sources by file name, and what its metadata says."""

    name: str
    files: Mapping[str, str]
    version: str = "1.0"
    requires: Sequence[str] = ()
    extras: Mapping[str, Sequence[str]] = field(factory=dict)

    @property
    def module(self) -> str:
        """The import package."""
        return self.name.replace("-", "_")


def write_wheel(package: Package, folder: Path) -> Path:
    """Write the package as a wheel, with the record that pip checks."""
    info = f"{package.module}-{package.version}.dist-info"
    requires = [f"Requires-Dist: {each}\n" for each in package.requires]
    contents = {f"{package.module}/{name}": text for name, text in package.files.items()}
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.version}\n"
        + "".join(requires)
    )
    contents[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    contents[f"{info}/entry_points.txt"] = f"[whale]\nmain = {package.module}\n"
    lines = []
    for name, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{name},sha256={digest.decode()},{len(text.encode())}\n")
    contents[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"])
    wheel = folder / f"{package.module}-{package.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return wheel


def write_project(package: Package, folder: Path) -> Path:
    """Write the package as sources with a pyproject.toml, for pip to build."""
    project = folder / package.name
    extras = [f"{name} = {json.dumps(list(each))}\n" for name, each in package.extras.items()]
    sources = project / package.module
    sources.mkdir(parents=True)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        f'[project]\nname = "{package.name}"\nversion = "{package.version}"\n'
        f"dependencies = {json.dumps(list(package.requires))}\n"
        f"[project.optional-dependencies]\n{''.join(extras)}"
        f'[project.entry-points.whale]\nmain = "{package.module}"\n'
    )
    for name, text in package.files.items():
        (sources / name).write_text(text)
    return project


@frozen
class Environment:
    """A virtual environment with all that is installed here, and plugins of its own."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def whale(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run ``whale`` in it, in an empty folder, with these environment variables."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "WHALE_"))}
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        return subprocess.run(
            [self.python, "-c", COMMAND, *arguments],
            capture_output=True,
            text=True,
            cwd=work,
            env={**kept, "WHALE_STATE": str(work / "state"), **variables},
        )

    def rows(self, **variables: str) -> list[dict[str, Any]]:
        """Return what ``whale plugins --json`` prints."""
        done = self.whale("plugins", "--json", **variables)
        assert (done.returncode, done.stderr) == (0, "")
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows

    def error(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Return the exit code and the one line of a command that must fail."""
        done = self.whale(*arguments, **variables)
        lines = done.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("whale: "), done.stderr
        assert not (self.folder / "work" / "runs").exists()
        return done.returncode, lines[0].removeprefix("whale: ")


def make_environment(folder: Path, without: Sequence[str] = ()) -> Environment:
    """Make an environment that has what is installed here by links, some siblings left out."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    hidden = tuple(
        f"{before}whale_{name}{after}"
        for name in without
        for before, after in (("", "-"), ("_editable_impl_", "."))
    )
    packages = {"__pycache__", *(f"whale_{name}" for name in without)}
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name not in packages and not path.name.startswith(hidden):
            (site / path.name).symlink_to(path)
    return Environment(folder)


def install(environment: Environment, sources: Sequence[Path]) -> None:
    """Install wheels and project folders with pip, from nowhere else."""
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "--python", environment.python, "install"]
    subprocess.run([*command, *options, "--no-compile", *sources], check=True)
