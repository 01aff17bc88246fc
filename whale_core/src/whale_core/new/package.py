"""Writes a plugin package: templates with their placeholders replaced by plain replacement.

Paths and texts of the templates name ``@NAME@`` (plugin and distribution), ``@MODULE@`` (what is
imported), ``@CLASS@``, ``@ROLE@`` (as a configuration writes it) and ``@WINDOW@`` (the versions of
whale-core that fit).
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

import whale_core
from whale_core.errors import InputError
from whale_core.plugins.manager import load_plugins
from whale_core.plugins.suggest import did_you_mean

ROLES = ("domain", "verifier", "model-update", "harness-search", "scheduler", "engine", "proposer")
ALSO = {"domain": ("verifier",)}  # what a package registers besides, under the same name
VALID_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST_NAME = 30
SUFFIX = ".tmpl"


def write_package(role: str, name: str, folder: Path) -> list[Path]:
    """Write the package ``name`` of a plugin of ``role`` into the new folder ``folder``.

    Returns:
        The files written, relative to ``folder``.

    Raises:
        InputError: no such role, a name that cannot be used or is taken, or the folder exists.
    """
    if role not in ROLES:
        raise InputError(f"there is no role '{role}'{did_you_mean(role, ROLES)}")
    check_name(name)
    plugins = load_plugins()
    for each in (role, *ALSO.get(role, ())):
        if owners := plugins.owners(each.replace("-", "_"), name):
            there = " and ".join(map(str, owners))
            raise InputError(f"{each} '{name}' is there already, in {there}: give another name")
    if folder.exists():
        raise InputError(f"{folder} is there already: give another name, or another --dir")
    values = {
        "@NAME@": name,
        "@MODULE@": module_name(name),
        "@CLASS@": "".join(part.capitalize() for part in name.split("-")),
        "@ROLE@": role.replace("-", "_"),
        "@WINDOW@": _window(whale_core.__version__),
    }
    templates = files("whale_core").joinpath("new", "templates")
    texts = {**_read(templates / "common"), **_read(templates / role)}
    written = []
    for template, text in sorted(texts.items()):
        path = Path(_replaced(template, values))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(_replaced(text, values), encoding="utf-8")
        written.append(path)
    return written


def module_name(name: str) -> str:
    """Return the import name of the package ``name``."""
    return name.replace("-", "_")


def check_name(name: str) -> None:
    """Raise ``InputError`` for a name that a distribution, a module and a class cannot share."""
    if not VALID_NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise InputError(
            f"'{name[:60]}' cannot be a plugin's name: use small letters and digits, parts joined "
            f"by '-', at most {LONGEST_NAME} characters{_suggestion(name)}"
        )
    module = module_name(name)
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or find_spec(module):
        raise InputError(f"'{name}' cannot be a plugin's name: there is a module {module} already")
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return
    raise InputError(
        f"'{name}' cannot be a plugin's name: pip would put it in the place of the installed "
        f"package {installed.name} {installed.version}; give another name"
    )


def _suggestion(name: str) -> str:
    """Return ``", for example 'my-name'"`` with the valid name that is meant, if there is one."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    parts = re.findall(r"[a-z0-9]+", spaced.lower())
    meant = "-".join(parts).lstrip("0123456789-")[:LONGEST_NAME].rstrip("-")
    return f", for example '{meant}'" if VALID_NAME.fullmatch(meant) else ""


def _window(version: str) -> str:
    """Return the versions of whale-core that share this one's plugin interface."""
    major, minor = version.split(".")[:2]
    return f">={major}.{minor}.dev0,<{major}.{int(minor) + 1}"


def _read(folder: Traversable, prefix: str = "") -> dict[str, str]:
    """Return the templates below ``folder``: the path that each gives, and its text."""
    found: dict[str, str] = {}
    for item in folder.iterdir():
        if item.is_dir():
            found |= _read(item, f"{prefix}{item.name}/")
        elif item.name.endswith(SUFFIX):
            text = item.read_text(encoding="utf-8")
            found[prefix + item.name.removesuffix(SUFFIX)] = text
    return found


def _replaced(text: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text
