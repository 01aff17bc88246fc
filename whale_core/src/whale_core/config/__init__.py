"""Settings: layers merged, converted once into frozen attrs classes, all errors at once."""

from __future__ import annotations

from whale_core.config.resolve import Overrides, read_config, resolve
from whale_core.config.resolved import Chosen, Resolved
from whale_core.config.settings import CoreSettings

__all__ = ["Chosen", "CoreSettings", "Overrides", "Resolved", "read_config", "resolve"]
