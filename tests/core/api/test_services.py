"""Domains and verifiers that depend on services: asked first, charged, told apart, closed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from run_kit import lines_of

from whale_core.api import evaluate, register, resume, rollouts, run
from whale_core.cli.main import main
from whale_core.config import resolve
from whale_core.errors import CapReached, InputError, RunFolderError
from whale_core.plugins.manager import load_plugins
from whale_core.records import Example, NotScored, Spent, Trajectory, Verdict
from whale_core.run.preview import preview
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier

Settings = Mapping[str, Any]
CALL = Spent(calls=1, prompt_tokens=10, cached_tokens=4, sampled_tokens=2, usd=0.001)


class Services:
    """A domain and a verifier, registered as ``watched`` and ``judge``, and what befell them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.judged = 0
        self.malformed = 0
        self.there = True
        self.busy = True  # once, in a search
        self.priced = True
        self.data = True
        self.index = "index 1"
        services = self

        class Watched(ToyDomain):
            async def probe(self) -> Spent:
                services.seen.append("probe domain")
                self.service = services.index
                if not services.data:
                    raise InputError("domain.url=nowhere: nobody answers; start the retriever")
                return Spent()

            async def close(self) -> None:
                services.seen.append("close domain")

            def split(self, name: str) -> Any:
                letters = ("ab", "cd")
                examples = super().split(name)
                return [evolve(e, source=letters[i % 2]) for i, e in enumerate(examples)]

        class Judge(ToyVerifier):
            priced = property(lambda self: services.priced)
            notes = ("it is paid",)

            async def probe(self) -> Spent:
                services.seen.append("probe judge")
                if not services.there:
                    raise InputError("verifier.url=nowhere: nobody answers; start the judge")
                return CALL

            async def verify(self, example: Example, trajectory: Trajectory) -> Any:
                services.judged += 1
                if trajectory.key.purpose == "score" and services.busy:
                    services.busy = False
                    return NotScored("busy", CALL)
                verdict = await super().verify(example, trajectory)
                assert isinstance(verdict, Verdict)
                services.malformed += services.judged % 4 == 0
                spent = evolve(CALL, malformed=int(services.judged % 4 == 0))
                return evolve(verdict, parts={"agrees": 0.5, **verdict.parts}, spent=spent)

            async def close(self) -> None:
                services.seen.append("close judge")

        register("domain", "watched", Watched, DomainConfig)
        register("verifier", "judge", Judge)


@pytest.fixture
def services() -> Services:
    return Services()


CHOSEN = {"domain": "watched", "verifier": "judge"}


def test_a_run_charges_the_judge_and_tells_parts_and_sources(
    searching: Settings, services: Services
) -> None:
    settings = {**CHOSEN, "domain.weight": 8, "scheduler.iterations": 2}
    result = run(searching, settings, run_dir="run", progress=False)
    assert services.seen == ["probe domain", "probe judge", "close domain", "close judge"]

    by = result.ledger["by"]
    judged = {key: value for key, value in by.items() if key.startswith("judge/")}
    assert sum(each["calls"] for each in judged.values()) == services.judged + 1  # the probe
    assert sum(each["usd"] for each in judged.values()) == pytest.approx(
        0.001 * (services.judged + 1)
    )
    assert by["judge/probe"]["calls"] == 1 and by["judge/null"]["calls"] > 0
    again = sum(each.get("not_scored", 0) for each in by.values())
    assert again == 0  # the busy judge was asked a second time
    stored = [line for p in sorted(Path("run/rollouts").iterdir()) for line in lines_of(p)]
    assert sum(line["judging"]["calls"] for line in stored) == sum(
        each["calls"] for key, each in judged.items() if key.split("/")[1] not in ("probe", "null")
    )
    assert max(line["judging"]["calls"] for line in stored) == 2

    malformed = sum(each.get("malformed", 0) for each in judged.values())
    assert malformed == result.ledger["malformed"] == services.malformed > 0
    assert f"{malformed} of the judge's {services.judged + 1} replies (" in result.sentence
    assert read_manifest("run")["domain"]["service"] == "index 1"

    for pair in result.pairs.values():
        assert pair["parts"]["agrees"] == 0.5
        sources = pair["sources"]
        assert set(sources) == {"ab", "cd"}
        assert sum(each["examples"] for each in sources.values()) == pair["examples"]
        weighted = sum(each["examples"] * each["mean"] for each in sources.values())
        assert weighted / pair["examples"] == pytest.approx(pair["mean"])


def test_a_service_that_is_not_there_is_one_line_before_anything_is_made(
    searching: Settings, services: Services
) -> None:
    services.there = False
    with pytest.raises(InputError, match=r"nobody answers; start the judge$"):
        run(searching, CHOSEN, run_dir="run", progress=False)
    assert not Path("run").exists() and services.judged == 0
    assert services.seen[-2:] == ["close domain", "close judge"]
    with pytest.raises(InputError, match="nobody answers"):
        rollouts(searching, CHOSEN, examples=1, progress=False)
    assert services.judged == 0


def read_manifest(run_dir: str) -> Any:
    return json.loads(Path(run_dir, "manifest.json").read_text())


def test_a_run_is_not_continued_on_another_index_at_the_same_address(
    searching: Settings, services: Services
) -> None:
    with pytest.raises(CapReached):
        run(searching, {**CHOSEN, "cap.rollouts": 1}, run_dir="run", progress=False)
    made, services.index = services.judged, "index 2"
    with pytest.raises(RunFolderError) as caught:
        resume("run", {"cap.rollouts": 0}, progress=False)
    line = str(caught.value)
    assert "domain differs from when the run was started" in line and "\n" not in line
    assert "{'service': 'index 1'} then, {'service': 'index 2'} now" in line
    assert services.judged == made


def test_a_judge_counts_towards_the_cap_and_every_start_is_charged_its_probe(
    searching: Settings, services: Services
) -> None:
    with pytest.raises(CapReached, match=r"cap\.usd=0\.002"):
        run(searching, {**CHOSEN, "cap.usd": 0.002}, run_dir="run", progress=False)
    resume("run", {"cap.usd": 0}, progress=False)
    probes = [line for line in lines_of(Path("run/ledger.jsonl")) if line["purpose"] == "probe"]
    assert [line["role"] for line in probes] == ["judge", "judge"]


def test_a_judge_of_unknown_cost_is_refused_under_a_cap_in_usd(
    searching: Settings, services: Services
) -> None:
    services.priced = False
    with pytest.raises(InputError, match=r"cap\.usd=2 cannot be kept: verifier=judge"):
        run(searching, {**CHOSEN, "cap.usd": 2}, run_dir="run", progress=False)
    assert services.judged == 0


def test_a_plan_asks_the_domain_and_leaves_the_judge_alone(
    searching: Settings, services: Services
) -> None:
    plugins = load_plugins()
    resolved = resolve(plugins, searching, (), CHOSEN)
    found = preview(resolved, plugins, Path("runs"))
    assert services.seen == ["probe domain", "close domain", "close judge"]
    assert found.calibration is None and any("paid" in note for note in found.notes)
    services.data = False
    with pytest.raises(InputError, match="start the retriever"):
        preview(resolved, plugins, Path("runs"))


def test_one_episode_to_watch_asks_first_and_closes(
    services: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("replies.txt").write_text("a\n" * 4)
    command = [
        "harness",
        "try",
        "first-listed-letter",
        "--plugin-set",
        "smoke",
        "--replies",
        "replies.txt",
    ]
    command += [f"{key}={value}" for key, value in CHOSEN.items()]
    assert main(command) == 0, capsys.readouterr().err
    assert services.seen == ["probe domain", "probe judge", "close domain", "close judge"]
    services.there = False
    assert main(command) == 2
    assert "start the judge" in capsys.readouterr().err and services.judged == 1
    assert services.seen[-2:] == ["close domain", "close judge"]


def test_evaluate_closes_what_it_used(toy: Settings, services: Services) -> None:
    score = evaluate(toy, CHOSEN, examples=4, draws=1, progress=False)
    assert score.parts["agrees"] == 0.5 and set(score.sources) == {"ab", "cd"}
    assert services.seen == ["probe domain", "probe judge", "close domain", "close judge"]
