"""Settings that came later than the results already published under a settings hash.

``field(default=…, metadata=LATER)`` marks one: while it has its default it is not hashed, so that
the same settings keep their hash, and a run of an older version can be continued. Its default must
do what was done before there was the setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

LATER: Mapping[str, bool] = {"whale_later": True}


def drop_unused(tree: dict[str, Any], config: Any) -> None:
    """Remove from ``tree``, the plain values of ``config``, each later setting at its default."""
    for each in attrs.fields(type(config)):
        value = getattr(config, each.name)
        if each.metadata.get("whale_later") and value == each.default:
            tree.pop(each.alias, None)
        elif attrs.has(type(value)):
            drop_unused(tree[each.alias], value)
