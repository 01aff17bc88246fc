"""A few hundred harnesses of the three domains through all gates: reasons, and candidates a second.

    python benchmarks/gates.py                 # 120 of each domain, some minutes
    python benchmarks/gates.py --count 20 --domains chess

Catalogue edits alone and in pairs, crossovers (members of one base harness put into another),
oddities written by hand, and broken programs, each in a phase of the real search: real jail, real
episodes, a scripted engine in the model's place. Every refusal is printed by gate with one example
of its reason; a candidate that was meant to be sound and is refused, or one meant to be broken and
scored, makes the exit code 1. Null models run on 32 examples.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import define, evolve, field, frozen

from whale_core.config import resolve
from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.roles import Candidate, CandidateReport, Domain, Proposal, Verifier, Workspace
from whale_core.run.task import build_task
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.workbench import as_harness, workbench
from whale_metaharness.config import Config
from whale_metaharness.members import MemberError, members, replace_members
from whale_metaharness.normalise import normalised_hash
from whale_metaharness.search import MetaHarness

DOMAINS = ("chess", "math", "searchqa")
EXAMPLES, NULLS = 8, 32
NEEDS_TOOLS = {"math": "published", "searchqa": "published"}  # the scripted engine has none
BATCH = 12  # candidates of one iteration
REPLIES = "<answer>x</answer> \\boxed{1} <move>e2e4</move>"


@frozen
class Sent:
    """A program and the gates that may refuse it; ``""`` stands for none."""

    kind: str
    source: str
    gates: tuple[str, ...]


def edits(domain: Domain, count: int) -> Iterator[Sent]:
    """Yield catalogue edits, pairs of them and crossovers, in a seeded order, without doubles."""
    bases = [
        base for name, base in domain.harnesses.items() if name != NEEDS_TOOLS.get(domain.name)
    ]
    plans = [(base, (edit,)) for base in bases for edit in domain.catalogue]
    pairs = [(base, pair) for base in bases for pair in itertools.combinations(domain.catalogue, 2)]
    rng = generator("gates", domain.name)
    plans += [pairs[n] for n in rng.choice(len(pairs), min(len(pairs), count), replace=False)]  # type: ignore[misc]
    made: list[Sent] = []
    for base, chosen in plans:
        source = base
        try:
            for edit in chosen:
                source = replace_members(source, edit.members)
        except MemberError:
            continue
        made.append(Sent("edit" if len(chosen) == 1 else "two edits", source, ("", "duplicate")))
    for ours, theirs in itertools.permutations(bases, 2):
        for name, member in members(theirs).items():
            source = replace_members(ours, {name: member.text})
            # Members of two base harnesses need not fit each other: then it crashes.
            made.append(Sent("crossover", source, ("", "duplicate", "smoke", "load", "null")))
    order = rng.permutation(len(made))
    yield from (made[n] for n in order[:count])


def oddities(base: str) -> Iterator[Sent]:
    """Yield programs that nobody would expect, sound ones and broken ones."""
    name = "class Harness(BaseHarness):"
    loop = "    async def run("
    sound = {
        "a second class": base + "\n\nclass Other:\n    pass\n",
        "a helper function": base + "\n\ndef helper():\n    return 1\n",
        "a decorator that does nothing": base.replace(loop, f"    @(lambda f: f)\n{loop}", 1),
        "a lambda member": base.replace(name, f"{name}\n    extra = staticmethod(lambda: 1)", 1),
        "a property": base.replace(
            name, f"{name}\n    @property\n    def extra(self):\n        return 1\n", 1
        ),
        "a dataclass beside it": "import dataclasses\n" + base
        if "__future__" not in base
        else base.replace("import re\n", "import dataclasses\nimport re\n", 1),
        "unicode names": base + "\n\nprüfung = 'ß'\n",
        "form feeds": base.replace("\n\n\nclass", "\n\n\x0c\nclass", 1) + "\nFEED = 1\n",
        "windows line ends": base.replace("\n", "\r\n") + "\r\nENDS = 1\r\n",
        "a long comment": base + "\n# " + "word " * 2000 + "\nLONG = 1\n",
        "a deep expression": base + f"\n\nDEEP = {'(' * 60}1{')' * 60}\n",
        "Harness renamed and back": base + "\n\nKept = Harness\nHarness = Kept\n",
        "a type alias": base + "\n\nNumbers = list[int]\n",
        "a slow start": base + "\n\nTABLE = [n * n for n in range(20_000)]\n",
    }
    for kind, source in sound.items():
        yield Sent(f"odd: {kind}", source, ("", "duplicate"))
    broken = {
        "empty": ("", ("size",)),
        "blanks": ("\n \n", ("size",)),
        "too long": (base + "\n#" + "x" * 70_000, ("size",)),
        "half a surrogate": (base + "\nA = '\udc80'\n", ("size",)),
        "a null byte": (base + "\0", ("parse",)),
        "no Python": ("def (:\n" + base, ("parse",)),
        "cut off": (base[: len(base) // 2], ("parse", "interface", "load", "smoke")),
        "nested too deeply": (f"X = {'-' * 5000}1\n" + base, ("parse",)),
        "prose": ("Here is my harness: it asks twice.", ("parse",)),
        "in a fence": (f"```python\n{base}\n```\n", ("parse",)),
        "no class": ("x = 1\n", ("interface",)),
        "another base": (base.replace("(BaseHarness)", "(object)"), ("interface",)),
        "no run": (base.replace("async def run(", "async def walk("), ("interface",)),
        "a plain run": (base.replace("async def run(", "def run("), ("interface", "parse")),
        "other arguments": (base.replace("run(self, task", "run(self, job, task"), ("interface",)),
        "the same again": (base + "\n# again\n", ("duplicate",)),
        "it raises when it is loaded": (base + "\nraise RuntimeError('x')\n", ("load",)),
        "it imports what is not there": ("import torch\n" + base.replace(
            "from __future__ import annotations\n", ""), ("load",)),
        "it never ends": (base + "\nwhile True:\n    pass\n", ("load",)),
        "it exits": (base + "\nraise SystemExit(0)\n", ("load",)),
        "it takes all memory": (base + "\nX = bytearray(1 << 34)\n", ("load",)),
        "Harness is a number": (base + "\nHarness = 3\n", ("load",)),
        "it raises at once": (_with_run(base, "raise ValueError('x')"), ("smoke",)),
        "it returns a number": (_with_run(base, "return 3"), ("smoke",)),
        "it hangs": (_with_run(base, "while True: pass"), ("smoke",)),
        "it sends nothing": (_with_run(base, "return (await model.chat([])).text"), ("smoke",)),
        "it calls no tool there is": (_with_run(base, "await env.call('x')"), ("smoke",)),
        "it forks": (_with_run(base, "import os\n        os.fork()"), ("smoke",)),
        "it opens a socket": (
            _with_run(base, "import socket\n        socket.socket()"), ("smoke",)),
        "it reads a file": (_with_run(base, "open('/etc/shadow').read()"), ("smoke",)),
    }  # fmt: skip
    for kind, (source, gates) in broken.items():
        yield Sent(f"broken: {kind}", source, gates)


def _with_run(base: str, statement: str) -> str:
    """Return the harness with another beginning of ``run``."""
    at = base.index("async def run(")
    end = base.index(":\n", base.index("->", at)) + 2
    return f"{base[:end]}        {statement}\n{base[end:]}"


@define
class Batches:
    """A proposer that proposes what is sent, some at a time."""

    sent: Sequence[Sent]
    note: str = ""
    writes_code: bool = True
    at: int = field(default=0, init=False)

    async def propose(self, workspace: Workspace) -> Proposal:
        """Return the next ones."""
        batch = self.sent[self.at : self.at + workspace.count]
        self.at += len(batch)
        made = [Candidate(each.source, None, "gates", each.kind, each.kind) for each in batch]
        return Proposal(tuple(made))


async def through_gates(
    domain: Domain, verifier: Verifier, sent: Sequence[Sent], folder: Path
) -> tuple[list[CandidateReport], float]:
    """Return what the search reports of all that is sent, in order, and the seconds it took."""
    engine = ScriptedEngine(lambda prompt, rng: REPLIES[: int(rng.integers(1, len(REPLIES)))])
    base = as_harness(domain.harnesses["strong"], "strong")
    reports: list[CandidateReport] = []
    with workbench(domain, verifier, engine) as bench:
        context = bench.search_context(folder, await engine.weights_id(), 1, examples=EXAMPLES)
        nulls = domain.split("harness")[:NULLS]
        context = evolve(context, harness=base, null_examples=nulls)
        search = MetaHarness(Config(candidates=BATCH), Setup(0, domain, Batches(sent)))
        steps = search.iterations(context)
        await anext(steps)
        started = time.perf_counter()
        async for iteration in steps:
            reports += iteration.candidates
            if len(reports) >= len(sent):
                break
        seconds = time.perf_counter() - started
        await steps.aclose()
    return reports, seconds


def main() -> int:
    """Send them, print what came of them; return 1 if a gate was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=80, help="edits and crossovers of each domain")
    parser.add_argument("--domains", nargs="+", default=DOMAINS, choices=DOMAINS)
    arguments = parser.parse_args()
    plugins = load_plugins()
    wrong = 0
    for name in arguments.domains:
        resolved = resolve(plugins, "fst", [], [f"domain={name}", "domain.harness=64"])
        task = build_task(resolved, plugins)
        domain, verifier = task.domain, task.verifier
        sent = [*edits(domain, arguments.count), *oddities(domain.harnesses["strong"])]
        with TemporaryDirectory(prefix="whale-gates-") as folder:
            reports, seconds = asyncio.run(through_gates(domain, verifier, sent, Path(folder)))
        wrong += told(name, sent, reports, seconds)
    return 1 if wrong else 0


def told(
    name: str, sent: Sequence[Sent], reports: Sequence[CandidateReport], seconds: float
) -> int:
    """Print what came of a domain's harnesses; return how many a gate was wrong about."""
    gates: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    wrong = []
    for each, report in zip(sent, reports, strict=True):
        gate = "" if report.rejection is None else report.rejection.gate
        gates[gate] += 1
        if report.rejection is not None:
            reasons.setdefault(gate, report.rejection.reason)
        if gate not in each.gates:
            said = "scored" if report.rejection is None else f"{gate}: {report.rejection.reason}"
            wrong.append(f"{each.kind}: {said}")
    programs = len({normalised(each.source) for each in sent})
    print(
        f"{name}: {len(sent)} harnesses ({programs} programs) in {seconds:.0f} s, "
        f"{len(sent) / seconds:.1f} a second with their scoring; {gates['']} scored"
    )
    for gate, number in gates.most_common():
        if gate:
            print(f"  {number:4d} refused by {gate}, such as: {reasons[gate][:90]}")
    for each in wrong:
        print(f"  WRONG  {each[:160]}")
    return len(wrong)


def normalised(source: str) -> str:
    """Return a program's identity, its text where it is none."""
    try:
        return normalised_hash(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source


if __name__ == "__main__":
    sys.exit(main())
