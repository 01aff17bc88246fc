"""Is a plugin made for this whale-core? Its distribution's own requirement says so."""

from __future__ import annotations

from importlib.metadata import Distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import whale_core
from whale_core.plugins.registered import Failure, Origin
from whale_core.plugins.requirements import applies


def incompatibility(origin: Origin, distribution: Distribution) -> Failure | None:
    """Return why ``distribution`` cannot work with the running whale-core, if it says so itself.

    Raises ``packaging.requirements.InvalidRequirement`` when its metadata cannot be read.
    """
    for text in distribution.requires or ():
        if not text.lower().startswith("whale"):
            continue  # parsing all of them would take longer than loading the plugin
        wanted = Requirement(text)
        if canonicalize_name(wanted.name) != "whale-core":
            continue
        if applies(wanted) and not wanted.specifier.contains(
            whale_core.__version__, prereleases=True
        ):
            needed = f"whale-core{wanted.specifier}"
            return Failure(
                origin,
                doing="comparing versions",
                cause=f"needs {needed}, and this is whale-core {whale_core.__version__}",
                remedy=f"upgrade {origin.distribution}, or pip install '{needed}'",
                state="incompatible",
            )
    return None
