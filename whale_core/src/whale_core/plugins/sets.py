"""Plugin sets: named YAML files that choose a plugin and its settings for each role."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from attrs import frozen


@frozen
class PluginSet:
    """A plugin set as a plugin registers it.

    Its YAML may begin with ``extends: NAME``: the set of that name, whoever registers it, with this
    one's settings over it; ``proposer: null`` empties a role. ``resource`` is a file inside a
    package, ``"package:sets/name.yaml"``, or an absolute path.
    ``requires`` is what to give pip so that all plugins it names are there, extras allowed
    (``"whale-core[default]"``).
    """

    name: str
    resource: str
    summary: str
    requires: tuple[str, ...] = ()

    def read(self) -> str:
        """Return the YAML text. Raise ``OSError`` or ``ModuleNotFoundError`` if it is not there."""
        if Path(self.resource).is_absolute():
            return Path(self.resource).read_text(encoding="utf-8")
        package, _, file = self.resource.partition(":")
        return files(package).joinpath(file).read_text(encoding="utf-8")
