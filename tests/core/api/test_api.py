"""The Python API does what the command line does, with what a program defines itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen
from run_kit import journal_of, result_of, timeless

from whale_core import api
from whale_core.api import evaluate, register, resume, rollouts, run, search
from whale_core.cli.main import main
from whale_core.errors import CapReached, InputError, PluginError, RunFolderError
from whale_core.frames import frame
from whale_core.plugins import hookimpl
from whale_core.plugins.manager import load_plugins
from whale_core.records import Outcome
from whale_core.run.place import default_folder
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain

Settings = Mapping[str, Any]


def contents(folder: Path) -> list[Any]:
    return timeless([*journal_of(folder), {**result_of(folder), "plugin_set": ""}])


class TestRuns:
    def test_a_run_is_the_command_lines(self, searching: Settings, tmp_path: Path) -> None:
        result = run(searching, {"seed": 1}, run_dir=tmp_path / "a", progress=False, seed=7)
        plain = {**searching, "search": {"examples": 8}}
        del plain["search.examples"]
        (tmp_path / "base.yaml").write_text(yaml.safe_dump(plain))
        command = ["run", "--plugin-set", "harness-only", "--config", "base.yaml", "--seed", "7"]
        command += ["--run-dir", "b", "harness=first-listed-letter"]
        assert main(command) == 0
        stored = [yaml.safe_load((tmp_path / n / "config.yaml").read_text()) for n in "ab"]
        stored[0]["harness"] = "first-listed-letter"  # the set names one for chess
        assert {**stored[0], "plugin_set": ""} == {**stored[1], "plugin_set": ""}
        ours, theirs = contents(tmp_path / "a"), contents(tmp_path / "b")
        for line in (*ours, *theirs):
            line.pop("settings_hash", None)  # h0 is named or not
        assert ours == theirs
        assert result.data["seed"] == 7 and result.folder == tmp_path / "a"

    def test_a_running_loop_changes_nothing(self, searching: Settings, tmp_path: Path) -> None:
        async def cell() -> api.RunResult:
            return run(searching, run_dir=tmp_path / "inside", progress=False)

        inside = asyncio.run(cell())
        outside = run(searching, run_dir=tmp_path / "outside", progress=False)
        assert contents(inside.folder) == contents(outside.folder)

    def test_search_alone_gives_the_harness_and_the_archive(
        self, searching: Settings, tmp_path: Path
    ) -> None:
        base = {**searching, "scheduler": "fixed", "model_update": "rsft"}
        found = search(base, {"scheduler.iterations": 2}, run_dir="s", progress=False)
        stored = yaml.safe_load((tmp_path / "s" / "config.yaml").read_text())
        assert stored["scheduler"] == {"name": "harness-only", "iterations": 2}
        assert "model_update" not in stored
        assert [end.kind for end in found.phases] == ["start", "harness"]
        assert {each.harness for each in found.candidates} == set(found.archive)
        assert found.archive[found.harness.name].source == found.harness.source
        assert sum(each.accepted for each in found.candidates) >= 1
        assert found.checkpoint is None and found.steps == ()
        assert set(found.pairs) == {"theta0_h0", "theta0_h", "theta_h0", "theta_h"}
        assert found.ledger["rollouts"] > 0 and found.sentence

    def test_a_capped_run_goes_on_and_its_result_can_be_had_again(
        self, searching: Settings
    ) -> None:
        whole = run(searching, run_dir="whole", progress=False)
        with pytest.raises(CapReached, match=r"cap\.rollouts=10 is reached"):
            run(searching, {"cap": {"rollouts": 10}}, run_dir="capped", progress=False)
        with pytest.raises(InputError, match=r"seed: .* only cap"):
            resume("capped", {"seed": 3})
        done = resume("capped", {"cap.rollouts": 0}, progress=False)
        assert timeless(done.data) == timeless(whole.data)
        assert resume("capped", progress=False) == done
        with pytest.raises(InputError, match=r"seed: .* only cap"):
            resume("capped", {"seed": 3})  # also where there is nothing left to do

    def test_starts_from_a_name_a_file_a_text_or_a_harness(
        self, searching: Settings, tmp_path: Path
    ) -> None:
        source = rollouts(searching, examples=1, progress=False).harness.source
        changed = source.replace("MAX_TOKENS = 8", "MAX_TOKENS = 3")
        (tmp_path / "mine.py").write_text(changed)
        by_text = rollouts(searching, harness=changed, examples=1, progress=False).harness
        by_file = rollouts(searching, harness="mine.py", examples=1, progress=False).harness
        by_path = rollouts(searching, harness=tmp_path / "mine.py", examples=1, progress=False)
        by_object = rollouts(searching, harness=by_file, examples=1, progress=False).harness
        assert by_text.source == by_file.source == by_object.source == changed
        assert {by_text.id, by_file.id, by_path.harness.id, by_object.id} == {by_text.id}
        with pytest.raises(CapReached):
            run(searching, {"cap.rollouts": 1}, harness=by_text, run_dir="r", progress=False)
        done = resume("r", {"cap.rollouts": 0}, progress=False)
        assert done.phases[0].harness_id == by_text.id
        with pytest.raises(InputError, match="SyntaxError"):
            rollouts(searching, harness="def\n", examples=1, progress=False)

    def test_observers_are_told_and_the_view_prints(
        self, searching: Settings, capsys: pytest.CaptureFixture[str]
    ) -> None:
        class Watcher:
            def __init__(self) -> None:
                self.best: list[float] = []

            @hookimpl
            def whale_on_search_iteration(self, phase: Any, iteration: Any) -> None:
                self.best.append(iteration.best)

        watcher = Watcher()
        run(searching, run_dir="seen", observers=[watcher])
        assert len(watcher.best) == 2
        printed = capsys.readouterr().out
        assert "iteration 2 of 2" in printed and "run finished" in printed
        run(searching, run_dir="silent", progress=False)
        assert capsys.readouterr().out == ""

    def test_an_observer_with_an_unmarked_hook_is_refused(self, toy: Settings) -> None:
        class Unmarked:
            def whale_on_notice(self, text: str) -> None: ...

        with pytest.raises(TypeError, match="lacks the marker"):
            rollouts(toy, observers=[Unmarked()])

    def test_a_missing_scheduler_comes_with_its_command(
        self, searching: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plugins = load_plugins()
        plugins._by_role["scheduler"].clear()
        monkeypatch.setattr(api, "load_plugins", lambda: plugins)
        with pytest.raises(InputError) as error:
            search({**searching, "scheduler": "fixed"})
        assert "no scheduler is called 'harness-only'" in str(error.value)
        assert str(error.value).endswith("pip install whale-schedulers")

    def test_a_used_folder_is_refused_and_the_default_one_is_new(self, tmp_path: Path) -> None:
        first = default_folder("toy")
        first.mkdir(parents=True)
        assert default_folder("toy") != first
        (tmp_path / "used").mkdir()
        (tmp_path / "used" / "thesis.tex").touch()
        with pytest.raises(RunFolderError, match="not empty"):
            run("smoke", run_dir="used")
        with pytest.raises(RunFolderError, match="no run folder at nowhere"):
            resume("nowhere")


class TestEpisodes:
    def test_rollouts_are_the_executors(self, toy: Settings) -> None:
        episodes = rollouts(toy, split="harness", examples=3, draws=2, seed=5, progress=False)
        assert len(episodes) == len(list(episodes)) == 6
        assert [each.key.draw for each in episodes] == [0, 1] * 3
        assert {each.example_id for each in episodes} == set(episodes.examples)
        assert all(name.startswith("harness") for name in episodes.examples)
        assert all(each.key.seed == 5 and each.calls for each in episodes)
        assert episodes.score.scored == 6
        again = rollouts(toy, split="harness", examples=3, draws=2, seed=5, progress=False)
        texts = [[call.text for call in each.calls] for each in again]
        assert texts == [[call.text for call in each.calls] for each in episodes]

    def test_evaluate_is_what_a_run_measures(self, searching: Settings) -> None:
        started = run(searching, seed=3, run_dir="run", progress=False).phases[0]
        score = evaluate(searching, seed=3, progress=False)
        assert score.as_json() == started.selection
        wider = evaluate(searching, split="weight", examples=30, draws=2, progress=False)
        assert (wider.split, len(wider.means), wider.draws) == ("weight", 30, 2)
        assert wider.interval.low < wider.interval.mean < wider.interval.high

    @pytest.mark.parametrize("call", [rollouts, evaluate])
    def test_the_test_split_is_sealed(self, call: Any, toy: Settings, tmp_path: Path) -> None:
        with pytest.raises(InputError) as error:
            call(toy, split="test", progress=False)
        assert str(error.value) == (
            "the test split is sealed: only a run's final evaluation opens it"
        )
        with pytest.raises(InputError, match="did you mean 'weight'"):
            call(toy, split="weights", progress=False)
        assert not (tmp_path / "state").exists()

    def test_bad_sizes_and_settings_are_one_line_each(self, toy: Settings) -> None:
        with pytest.raises(InputError, match="examples=0: give at least 1"):
            rollouts(toy, examples=0)
        with pytest.raises(InputError) as error:
            rollouts(toy, {"domain.weigth": 3, "selection": {"draws": 0}})
        assert len(str(error.value).splitlines()) == 2
        with pytest.raises(InputError, match="engine: missing"):
            rollouts({"domain": "toy", "verifier": "toy"})

    def test_the_engine_is_closed_whatever_happens(self, toy: Settings) -> None:
        closed: list[str] = []

        class Engine(ScriptedEngine):
            async def close(self) -> None:
                closed.append("closed")

        register("engine", "own", lambda settings, setup: Engine(lambda prompt, rng: "a"))
        rollouts(toy, {"engine": "own"}, examples=1, progress=False)
        assert closed == ["closed"]
        with pytest.raises(InputError):
            rollouts(toy, {"engine": "own"}, harness="raise ValueError\n", progress=False)
        assert len(closed) == 2
        with pytest.raises(InputError, match="SyntaxError"):
            whole = {**toy, "engine": "own", "scheduler": "harness-only", "proposer": "mutation"}
            run({**whole, "harness_search": "meta-harness"}, harness="cannot load\n", run_dir="r")
        assert len(closed) == 3


class TestRegistered:
    def test_a_domain_of_this_program_runs_and_resumes_with_its_own_code_only(
        self, searching: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @frozen
        class Settings_(DomainConfig):
            shout: bool = False

        class Vowels(ToyDomain):
            name = "vowels"

            def __init__(self, config: Settings_, setup: Any) -> None:
                super().__init__(config, setup)
                self.notes = ("shouting",) if config.shout else ()

        register("domain", "vowels", Vowels, Settings_)
        mine = {"domain": {"name": "vowels", "shout": True, "weight": 8}, "cap.rollouts": 10}
        with pytest.raises(CapReached):
            run(searching, mine, run_dir="run", progress=False)
        manifest = json.loads(Path("run/manifest.json").read_text())
        assert manifest["plugins"]["domain"].startswith("this program code ")

        class Changed(Vowels):
            def environment(self, example: Any) -> Any:
                return super().environment(example)

        register("domain", "vowels", Changed, Settings_)
        with pytest.raises(RunFolderError, match=r"plugins differs .*'this program code"):
            resume("run", {"cap.rollouts": 0}, progress=False)
        monkeypatch.setattr("whale_core.plugins.here._REGISTERED", {})
        with pytest.raises(InputError, match="no domain is called 'vowels'"):
            resume("run", {"cap.rollouts": 0}, progress=False)

        register("engine", "guessing", lambda settings, setup: ScriptedEngine(lambda p, r: "a"))
        register("domain", "vowels", Vowels, Settings_)
        with pytest.raises(RunFolderError, match="plugins differs"):  # another engine
            resume("run", {"cap.rollouts": 0}, progress=False)

    def test_the_same_code_has_one_hash_in_every_process(self) -> None:
        code = (
            "from whale_core.plugins.here import code_hash\n"
            "class A:\n"
            "    LIMIT = 3\n"
            "    def go(self, x): return x in {'a', 'b', 'c', 'd'} and self.LIMIT\n"
            "print(code_hash(A), code_hash(lambda c, s: {'x', 'y'}))\n"
        )
        hashes = {
            subprocess.run(
                [sys.executable, "-c", "pass\n" * lines + code],
                env={"PYTHONHASHSEED": str(lines), "PATH": ""},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for lines in (0, 3)
        }
        assert len(hashes) == 1

    def test_bad_registrations_and_failing_factories_are_one_line(self, toy: Settings) -> None:
        with pytest.raises(InputError, match="did you mean 'domain'"):
            register("domains", "x", ToyDomain)
        with pytest.raises(InputError, match="must be a class or a function"):
            register("domain", "x", "toy")  # type: ignore[arg-type]

        def broken(settings: Any, setup: Any) -> Any:
            raise ZeroDivisionError("oh")

        register("domain", "broken", broken)
        with pytest.raises(PluginError, match=r"ZeroDivisionError: oh; mend it and register it"):
            rollouts(toy, {"domain": "broken"}, progress=False)
        register("domain", "toy", ToyDomain, DomainConfig)
        with pytest.raises(PluginError, match="is registered by whale-core"):
            rollouts(toy, progress=False)


class TestFrames:
    def test_every_table(self, searching: Settings) -> None:
        result = run(searching, run_dir="run", progress=False)
        pairs = result.to_frame()
        assert list(pairs["pair"]) == ["theta0_h0", "theta0_h", "theta_h0", "theta_h"]
        assert "metric.format" in pairs.columns
        assert list(result.to_frame("phases")["kind"]) == ["start", "harness"]
        tried = result.to_frame("candidates")
        assert list(tried["iteration"]) == [each.iteration for each in result.candidates]
        spent = result.to_frame("ledger")
        assert spent["rollouts"].sum() == result.ledger["rollouts"]
        assert len(result.to_frame("differences")) == len(result.differences)
        assert len(result.to_frame("steps")) == 0 and "reward" in result.to_frame("steps")
        with pytest.raises(InputError, match="did you mean 'pairs'"):
            result.to_frame("pair")
        episodes = rollouts(searching, examples=2, draws=2, progress=False).to_frame()
        assert len(episodes) == 4 and set(episodes["outcome"]) <= set(Outcome)

    def test_without_pandas_the_command_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(InputError) as error:
            frame([{"a": 1}], ["a"])
        assert str(error.value).endswith("pip install 'whale-core[frames]'")


def test_importing_is_light() -> None:
    code = "import sys, whale_core.api, whale_rsft.api; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "pandas", "scipy", "rich", "transformers"} & set(done.stdout.split())


@pytest.mark.parametrize("settings", [["seed=1"], "seed=1", 5])
def test_settings_that_are_no_mapping_are_told(settings: Any) -> None:
    with pytest.raises(InputError, match="settings are a mapping such as"):
        rollouts("smoke", settings, progress=False)


@pytest.mark.parametrize("base", [None, 5])
def test_a_base_that_is_neither_name_nor_mapping_is_told(base: Any) -> None:
    with pytest.raises(InputError, match="settings are a mapping such as"):
        rollouts(base, progress=False)


@pytest.mark.parametrize("count", ["3", 1.5, True])
def test_counts_are_whole_numbers(count: Any) -> None:
    for name in ("examples", "draws"):
        with pytest.raises(InputError, match=f"{name}=.*: expected a whole number"):
            rollouts("smoke", **{name: count}, progress=False)


@pytest.mark.parametrize("name", [5, "", "two words"])
def test_a_registration_that_would_break_later_calls_is_refused(name: Any) -> None:
    with pytest.raises(InputError, match=r"Registration\.name must be"):
        register("scheduler", name, lambda settings, setup: None)
    assert load_plugins().registrations("scheduler")
