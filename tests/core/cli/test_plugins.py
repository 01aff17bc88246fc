"""``whale plugins NAME``: a plugin's settings, a plugin set's text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whale_core.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["plugins", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def described(capsys: pytest.CaptureFixture[str], name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(printed(capsys, name, "--json"))
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["plugins", *arguments])
    (line,) = capsys.readouterr().err.splitlines()
    return code, line


def test_a_name_lists_the_settings_of_every_role_that_has_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    domain, verifier = described(capsys, "toy")
    assert (domain["role"], verifier["role"], verifier["settings"]) == ("domain", "verifier", [])
    assert domain["settings"][0] == {
        "key": "weight",
        "type": "integer",
        "default": "64",
        "doc": "Examples that weight steps take their prompts from.",
    }
    (only,) = described(capsys, "verifier:toy")
    assert only == verifier
    lines = printed(capsys, "toy").splitlines()
    assert lines[0].startswith("domain toy  (whale-core ")
    assert any(line.split()[:3] == ["domain.test", "integer", "64"] for line in lines)


def test_a_plugin_set_shows_its_text(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = described(capsys, "plugin_set:acme")
    assert found["text"] == (acme / "acme_cli.yaml").read_text()
    assert [each["role"] for each in described(capsys, "acme")].count("plugin_set") == 1
    (acme / "acme_cli.yaml").write_text("seed: 1  # \x1b[31mred\nrollout:\n  top_k: 3\n")
    assert "seed: 1 # [31mred\nrollout:\n  top_k: 3\n" in printed(capsys, "plugin_set:acme")


def test_a_setting_without_a_word_is_still_listed(
    acme: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = described(capsys, "domain:acme")
    assert found["settings"] == [{"key": "size", "type": "integer", "default": "3", "doc": ""}]
    assert found["doc"] == ""


def test_a_name_that_nothing_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, line = refused(capsys, "toi")
    assert (code, line) == (
        2,
        "whale: no plugin or plugin set is called 'toi', did you mean 'toy'?",
    )
    code, line = refused(capsys, "domian:toy")
    assert (code, line) == (2, "whale: no role is called 'domian', did you mean 'domain'?")
    assert refused(capsys, "domain:toi")[1].startswith("whale: no domain is called 'toi', did you")
    assert refused(capsys, "plugin_set:smok")[1].startswith("whale: no plugin set is called 'smok'")
    monkeypatch.setenv("WHALE_LOAD_ONLY", "whale-core")
    assert "WHALE_LOAD_ONLY leaves out whale-chess" in refused(capsys, "chess")[1]
