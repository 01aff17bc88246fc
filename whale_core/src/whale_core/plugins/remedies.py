"""What helps against an error in a plugin's code, in a few words for the end of a message."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

from packaging.utils import canonicalize_name

from whale_core.plugins.requirements import applies, requirements_of


def remedy_for(distribution: str, error: BaseException) -> str:
    """Return what to do about ``error`` in the code of ``distribution``.

    A module that is missing is looked for in the distribution's own metadata: among the packages
    that one of its extras brings, then among those that it always needs.
    """
    otherwise = f"upgrade or uninstall {distribution}"
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return otherwise
    module = error.name.partition(".")[0]
    if _is_installed(module):
        return otherwise  # a part of an installed package is not where it was looked for
    for requirement in requirements_of(distribution):
        if not _provides(requirement.name, module):
            continue
        if applies(requirement):
            return f"pip install '{requirement.name}{requirement.specifier}'"
        for extra in _extras(distribution):
            if applies(requirement, extra):
                return f"pip install '{distribution}[{extra}]'"
    return f"install what provides '{error.name}', or uninstall {distribution}"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _provides(requirement: str, module: str) -> bool:
    """Say whether a distribution of this name brings this module, as far as names tell."""
    name, wanted = canonicalize_name(requirement), canonicalize_name(module)
    return name in (wanted, f"py{wanted}", f"python-{wanted}", f"{wanted}-python")


def _extras(distribution: str) -> list[str]:
    return metadata.metadata(distribution).get_all("Provides-Extra") or []
