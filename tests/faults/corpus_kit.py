"""Reads the corpus of attempts and runs it through the real executor on the toy domain.

An attempt is a harness file in ``jail_corpus``, named ``<class>__<attempt>.py``. Its docstring says
what it tries, then in lines of its own

- ``ends``: how it must end, a regular expression for the episode's reason, or ``nothing``: it runs
  to its end and answers ``nothing``. One that succeeds answers ``SUCCEEDED …``.
- ``process``: what else the weaker jail does: ``succeeds (gap)`` or ``may succeed (gap)``, with a
  key of ``PROCESS_JAIL_GAPS``.
- ``group``: ``cpu`` or ``stall`` for attempts that take a limit's seconds to end, ``needs`` for
  those that are written for one machine, ``gate: null`` for those that a null model finds out.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from attrs import evolve, frozen

import whale_core
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.records import Sampling, Trajectory
from whale_core.roles import Harness, Limits
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig

FOLDER = Path(__file__).parent / "jail_corpus"
SETUP = Setup(0)
QUICK = Limits(model_calls=4, sampled_tokens=64, env_calls=40, cpu_seconds=2.0, memory_mb=128)
LIMITS = {
    "quick": QUICK,
    "cpu": evolve(QUICK, cpu_seconds=1.0),  # stall far later: they share this machine's cores
    "stall": evolve(QUICK, wall_seconds=2.0),
}


@frozen
class Attempt:
    """One file of the corpus."""

    name: str
    source: str
    ends: str
    process: str
    group: str
    needs: str
    gate: str

    @property
    def kind(self) -> str:
        """The class of the attempt."""
        return self.name.split("__")[0].replace("_", " ")

    @property
    def episodes(self) -> int:
        """How many episodes to play: several where they could tell each other something."""
        return 3 if self.kind in ("smuggling", "frames and gc") else 1

    @property
    def gap(self) -> str | None:
        """The gap of the weaker jail that lets it succeed there."""
        named = re.fullmatch(r"(?:may succeed|succeeds) \((\w+)\)", self.process)
        return named[1] if named else None

    def harness(self, secret: Path) -> Harness:
        """Return the harness, told where ``secret`` and the installed package are."""
        package = str(Path(whale_core.__file__).parent)
        source = self.source.replace("@SECRET@", str(secret)).replace("@PACKAGE@", package)
        source = source.replace("@MARK@", f"{secret}.mark")
        return Harness(content_hash(source), source, self.name)


def attempts() -> list[Attempt]:
    """Return the whole corpus, by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*.py"))]


def _read(path: Path) -> Attempt:
    source = path.read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(ends|process|group|needs|gate): (.+)$", source, re.MULTILINE))
    assert source.startswith(f'"""{path.stem.split("__")[0].replace("_", " ")}: '), path
    return Attempt(
        path.stem,
        source,
        fields["ends"],
        fields.get("process", ""),
        fields.get("group", "quick"),
        fields.get("needs", ""),
        fields.get("gate", ""),
    )


def vowel(prompt: str, rng: np.random.Generator) -> str:
    """Say the first listed vowel; say ``zzz`` where no letters are listed."""
    letters = prompt.split("Letters: ")[-1][:6] if "Letters: " in prompt else "zzz"
    return next((letter for letter in letters if letter in "aeiou"), "zzz")


def toy(limits: Limits) -> ToyDomain:
    """Return the toy domain under other limits."""
    domain = ToyDomain(DomainConfig(), SETUP)
    domain.limits = limits
    return domain


def base(domain: ToyDomain) -> Harness:
    """Return the toy domain's well-behaved harness."""
    source = domain.harnesses[domain.base_harness]
    return Harness(content_hash(source), source, "base")


def executor(limits: Limits, kind: str) -> RolloutExecutor:
    """Return an executor of the toy domain under other limits."""
    return RolloutExecutor(toy(limits), ToyVerifier(VerifierConfig(), SETUP), kind)


def play(runner: RolloutExecutor, harnesses: Mapping[Harness, int]) -> dict[str, list[Trajectory]]:
    """Run so many episodes of every harness in one batch, mixed; return them by harness name.

    The order is fixed and mixes the harnesses, so that every block holds well-behaved episodes.
    """
    examples = toy(QUICK).split("weight")
    jobs = [
        Job(example, harness, DrawKey(0, "score", 1, 1, example.id, 0))
        for harness, count in harnesses.items()
        for example in examples[:count]
    ]
    jobs.sort(key=lambda job: zlib.crc32(f"{job.harness.name} {job.example.id}".encode()))
    policy = EnginePolicy(ScriptedEngine(vowel), Sampling())
    made: dict[str, list[Trajectory]] = {harness.name: [] for harness in harnesses}
    names = {harness.id: harness.name for harness in harnesses}
    for trajectory in asyncio.run(runner.run(jobs, policy)):
        name = names[trajectory.harness_id]
        made[name].append(evolve(trajectory, seconds=0.0))
    return made


def left_over() -> list[int]:
    """Return the descendants of this process that are still there, after a moment's grace."""
    deadline = time.monotonic() + 5
    while (found := descendants(os.getpid())) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def is_warm_server(process: int) -> bool:
    """Say whether it is the server that other tests of this process start programs from."""
    try:
        return b"warm_server.py" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def descendants(parent: int) -> list[int]:
    children = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        children += [int(child) for child in (task / "children").read_text().split()]
    children = [child for child in children if not is_warm_server(child)]
    return children + [deeper for child in children for deeper in descendants(child)]
