"""The jail: where harness code runs.

One jail per harness; in it a warm zygote that forks one process per episode. ``open_jail`` starts
a jail, ``Jail.episode`` an episode, ``Episode.receive`` waits for the harness's next event. Calls
and tokens are limited by whoever answers the events; bytes, CPU, memory and wall clock here.
"""

from __future__ import annotations

from whale_core.jail.episode import Episode
from whale_core.jail.events import ChatRequest, Ended, Event, Finished, ToolRequest
from whale_core.jail.jail import HarnessLoadError, Jail, open_jail
from whale_core.jail.kinds import PROCESS_JAIL_GAPS, JailKind, probe
from whale_core.jail.zygote import JailError

__all__ = [
    "PROCESS_JAIL_GAPS",
    "ChatRequest",
    "Ended",
    "Episode",
    "Event",
    "Finished",
    "HarnessLoadError",
    "Jail",
    "JailError",
    "JailKind",
    "ToolRequest",
    "open_jail",
    "probe",
]
