"""Settings: layers merged, converted once into frozen attrs classes, all errors at once."""

from __future__ import annotations

from whale_core.config.resolve import read_config, resolve
from whale_core.config.resolved import Chosen, Resolved
from whale_core.config.settings import CoreSettings

__all__ = ["Chosen", "CoreSettings", "Resolved", "read_config", "resolve"]
