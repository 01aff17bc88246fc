"""What a user is told about wrong settings: all of it at once, each at its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale_core.config import resolve
from whale_core.errors import InputError
from whale_core.plugins.manager import Plugins


def problems(plugins: Plugins, *overrides: str, files: tuple[Path, ...] = ()) -> list[str]:
    with pytest.raises(InputError) as error:
        resolve(plugins, "full", files, overrides)
    assert error.value.exit_code == 2
    return str(error.value).splitlines()


def test_all_errors_come_at_once(plugins: Plugins) -> None:
    found = problems(
        plugins,
        "modelupdate.lr=1",
        "model_update.promts=3",
        "model_update.lr=-1",
        "model_update.group_size=many",
        "engine.limits.tokens=0",
        "rollout.top_p=2",
        "seed=1.5",
        "verifier=lime",
    )
    assert found == [
        "modelupdate: unknown key, did you mean 'model_update'?",
        "verifier: no verifier is called 'lime', did you mean 'line'?",
        "engine.limits.tokens: must be >= 1: 0",
        "model_update.promts: unknown key, did you mean 'prompts'?",
        "model_update.group_size: expected int, got str 'many'",
        "model_update.lr: must be > 0.0: -1.0",
        "seed: expected int, got float 1.5",
        "rollout.top_p: must be <= 1.0: 2.0",
    ]


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("model_update.shuffle=1", "model_update.shuffle: expected true or false, got int 1"),
        ("model_update.prompts=true", "model_update.prompts: expected int, got true"),
        ("model_update.prompts=1.0", "model_update.prompts: expected int, got float 1.0"),
        ("model_update.prompts=null", "model_update.prompts: expected int, got null"),
        ("engine.model=7", "engine.model: expected str, got int 7"),
        ("engine.threads=two", "engine.threads: expected int, got str 'two'"),
        ("engine.device=tpu", "engine.device: expected one of 'cpu', 'cuda', got str 'tpu'"),
        (
            "engine.dtype=int8",
            "engine.dtype: expected one of 'bfloat16', 'float32', got str 'int8'",
        ),
        ("engine.limits=9", "engine.limits: expected a mapping, got int 9"),
        ("engine.limits.stop=x", "engine.limits.stop: expected a list, got str 'x'"),
        ("engine.limits.stop=[x, 1]", "engine.limits.stop[1]: expected str, got int 1"),
        ("engine.extra={x: y}", "engine.extra.x: expected a finite number, got str 'y'"),
        ("engine.limits.qqq=1", "engine.limits.qqq: unknown key (valid: stop, tokens)"),
        ("verifier.strict=1", "verifier.strict: unknown key (there are none)"),
        (
            "domain=[chess]",
            "domain: expected a plugin's name or a mapping with 'name', got ['chess']",
        ),
        ("domain.name=3", "domain.name: expected a plugin's name, got 3"),
        ("rollout=3", "rollout: expected a mapping, got int 3"),
        (
            "model_update.prompts=2000",
            "model_update: prompts * group_size must be at most 10000",
        ),
        (
            "rollout.jail=docker",
            "rollout.jail: must be in ('auto', 'bubblewrap', 'process') (got 'docker')",
        ),
    ],
)
def test_one_error_is_one_line(plugins: Plugins, override: str, told: str) -> None:
    assert problems(plugins, override) == [told]


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("seed", "cannot read the setting 'seed': write key=value or key.sub=value"),
        ("=3", "cannot read the setting '=3': write key=value or key.sub=value"),
        ("a..b=3", "cannot read the setting 'a..b=3': write key=value or key.sub=value"),
        ("test=[1", "test: cannot read the value '[1': did not find expected ',' or ']'"),
    ],
)
def test_an_override_that_cannot_be_read(plugins: Plugins, override: str, told: str) -> None:
    assert problems(plugins, override) == [told]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seed: 1\ntest: {draws: 2}\nseed: 2\n", ", line 3: found duplicate key seed"),
        ("seed: 1\nrollout: [1\ntest: 2\n", ", line 3: did not find expected ',' or ']'"),
        ("- chess\n", ": expected a mapping of settings"),
    ],
)
def test_a_file_that_cannot_be_read_names_file_and_line(
    plugins: Plugins, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    assert problems(plugins, files=(file,)) == [f"configuration file {file}{told}"]


def test_a_missing_file_and_an_empty_one(plugins: Plugins, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    found = problems(plugins, files=(file,))
    assert found == [f"configuration file {file}: No such file or directory"]
    file.write_text("# nothing yet\n")
    assert resolve(plugins, "full", (file,), ()).core.seed == 0
