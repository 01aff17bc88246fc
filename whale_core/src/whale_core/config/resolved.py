"""A resolved configuration: what a run is made from, and what is stored with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml  # type: ignore[import-untyped]
from attrs import fields, frozen

from whale_core.config.later import drop_unused
from whale_core.config.settings import CapSettings, CoreSettings
from whale_core.keys import json_hash
from whale_core.plugins.registered import Registered

WITHOUT_EFFECT = (
    "seed",
    *(f"cap.{each.name}" for each in fields(CapSettings)),
    "checkpoint_steps",
    "rollout.reply_seconds",
    "trackers",
)


@frozen
class Chosen:
    """The plugin that fills a role, with its settings (an instance of its configuration class)."""

    role: str
    name: str
    registered: Registered
    config: Any


@frozen
class Resolved:
    """A complete, checked configuration.

    ``chosen`` has every role that is filled; domain, verifier, engine and scheduler always are.
    ``tree`` is the same as plain values, every default written out.
    """

    chosen: Mapping[str, Chosen]
    core: CoreSettings
    tree: dict[str, Any]
    plugin_set: str

    def settings_hash(self, exclude: Sequence[str] = WITHOUT_EFFECT) -> str:
        """Return a hash of all settings but the ones named: those that no result depends on.

        Nor are those in it that came later and have their default (``whale_core.config.later``).
        """
        tree = deepcopy(self.tree)
        drop_unused(tree, self.core)
        for role, chosen in self.chosen.items():
            drop_unused(tree[role], chosen.config)
        for path in exclude:
            *parents, last = path.split(".")
            node = tree
            for parent in parents:
                node = node[parent]
            del node[last]
        return json_hash(tree)

    def to_yaml(self) -> str:
        """Return the text of a run's ``config.yaml``; ``read_config`` reads it back."""
        stored = {"plugin_set": self.plugin_set, **self.tree}
        return str(yaml.safe_dump(stored, sort_keys=False, allow_unicode=True))
