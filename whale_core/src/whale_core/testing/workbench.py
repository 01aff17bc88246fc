"""Real rollouts outside a run: jail, executor and run folder around parts of one's choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import frozen

from whale_core.config.settings import CapSettings, SearchSettings
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.records import Example, NotScored, Sampling, Trajectory, Verdict
from whale_core.roles import Domain, Harness, NullModel, RolloutEngine, Verifier
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy, NullPolicy
from whale_core.run.caps import Caps
from whale_core.run.contexts import SearchPhaseContext, WeightPhaseContext
from whale_core.run.folder import RunFolder
from whale_core.run.harness_sample import harness_sample
from whale_core.run.ledger import Ledger
from whale_core.run.parts import choose_jail
from whale_core.run.rollouts import Rollouts
from whale_core.run.sampler import PromptSampler
from whale_core.run.sealed import SealedDomain
from whale_core.testing.engine import CharTokenizer, ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain

NO_FILTER = 1 << 20  # top-k of more tokens than a vocabulary has


class CoinVerifier:
    """Judges by the parity of the sampled token ids: about half of all rollouts pass, whatever a
    model can do. With ``loses``, one in sixteen is not scored."""

    version = "coin-1"

    def __init__(self, loses: bool = False) -> None:
        self._loses = loses

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        """Return 1 or 0, a function of the sampled tokens."""
        total = sum(int(call.token_ids.sum()) for call in trajectory.calls)
        if self._loses and total % 16 == 5:
            return NotScored("the coin was lost")
        return Verdict(float(total % 2))


def toy_domain() -> Domain:
    """Return the toy domain with its default settings."""
    return ToyDomain(DomainConfig(), Setup(seed=0))


def shuffling_engine() -> RolloutEngine:
    """Return an engine that replies with the first ten letters in random order."""
    return ScriptedEngine(lambda prompt, rng: "".join(rng.permutation(list("abcdefghij"))))


def as_harness(source: str, name: str = "harness") -> Harness:
    """Return a harness program with its content hash."""
    return Harness(content_hash(source), source, name)


@frozen
class Workbench:
    """Contexts and rollouts as a run gives them. Use ``workbench``."""

    domain: Domain
    engine: RolloutEngine
    rollouts: Rollouts
    jail_kind: str

    def weight_context(self, next_step: int = 1) -> WeightPhaseContext:
        """Return the context of a weight phase under the domain's base harness."""
        return WeightPhaseContext(
            engine=self.engine,
            harness=as_harness(self.domain.harnesses[self.domain.base_harness]),
            seed=0,
            next_step=next_step,
            sampler=PromptSampler(self.domain.split("weight"), 0),
            rollouts=self.rollouts,
        )

    def search_context(
        self, archive: Path, weights_id: str, phase: int, examples: int = 16
    ) -> SearchPhaseContext:
        """Return the context of a harness phase that starts from the domain's base harness."""
        self.rollouts.phase = self.rollouts.cycle = phase
        name = self.domain.base_harness
        return SearchPhaseContext(
            domain=SealedDomain(self.domain),
            harness=as_harness(self.domain.harnesses[name], name),
            weights_id=weights_id,
            cycle=phase,
            phase=phase,
            seed=0,
            folder=archive,
            sample=harness_sample(
                self.domain.split("harness"), SearchSettings(examples=examples), 0
            ),
            null_examples=self.domain.split("harness")[:examples],
            draws=1,
            jail_kind=self.jail_kind,
            rollouts=self.rollouts,
        )


@contextmanager
def workbench(domain: Domain, verifier: Verifier, engine: RolloutEngine) -> Iterator[Workbench]:
    """Open a workbench in a temporary folder, which is removed afterwards."""
    jail_kind, _ = choose_jail("auto", None)
    with TemporaryDirectory(prefix="whale-workbench-") as name:
        folder = RunFolder.create(Path(name) / "run")
        try:
            folder.commit("run_started")
            rollouts = Rollouts(
                executor=RolloutExecutor(domain, verifier, jail_kind),
                policy=EnginePolicy(engine, Sampling(top_k=NO_FILTER)),
                tokenizer=engine.tokenizer,
                folder=folder,
                ledger=Ledger(),
                observers=Plugins().hooks,
                seed=0,
                max_not_scored=0.9,
                caps=Caps(CapSettings(), folder.path),
            )
            yield Workbench(domain, engine, rollouts, jail_kind)
        finally:
            folder.close()


async def play(
    domain: Domain,
    verifier: Verifier,
    harness: Harness,
    null: NullModel,
    examples: Sequence[Example],
    tokenizer: Any = None,
) -> list[Trajectory]:
    """Return one real episode of each example, a null model in the policy's place."""
    jail_kind, _ = choose_jail("auto", None)
    jobs = [Job(e, harness, DrawKey(0, "null", 1, 1, e.id, 0)) for e in examples]
    executor = RolloutExecutor(domain, verifier, jail_kind)
    return await executor.run(jobs, NullPolicy(null, tokenizer or CharTokenizer()))
