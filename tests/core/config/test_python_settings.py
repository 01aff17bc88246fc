"""Settings given in Python: the same configuration as the same settings in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from whale_core.config import read_config, resolve
from whale_core.errors import InputError
from whale_core.plugins.manager import Plugins


def test_nested_and_dotted_are_the_words(plugins: Plugins, tmp_path: Path) -> None:
    words = resolve(
        plugins,
        "full",
        (),
        ["domain=sums", "domain.size=3", "model_update.lr=1e-3", "engine.limits.stop=[a, b]"],
    )
    nested = {
        "domain": {"name": "sums", "size": 3},
        "model_update": {"lr": 1e-3},
        "engine": {"limits": {"stop": ["a", "b"]}},
    }
    dotted = {
        "domain.size": np.int64(3),
        "domain": "sums",
        "model_update.lr": np.float64(1e-3),
        "engine.limits.stop": ("a", "b"),
    }
    for settings in (nested, dotted):
        made = resolve(plugins, "full", (), settings)
        assert made == words
        stored = tmp_path / "config.yaml"
        stored.write_text(made.to_yaml())
        assert read_config(plugins, stored) == words


def test_a_mapping_takes_the_set_s_place_above_the_recommendation(plugins: Plugins) -> None:
    base = {"domain": "chess", "engine": "local", "scheduler": "weights-alone"}
    made = resolve(plugins, {**base, "model_update": "rsft"}, (), {"search.examples": 7})
    assert made.plugin_set == "settings"
    assert made.chosen["verifier"].name == "line"  # recommended
    assert made.core.search.examples == 7
    own = resolve(plugins, {**base, "model_update": "rsft", "verifier": "boxed"}, (), {})
    assert own.chosen["verifier"].name == "boxed"
    assert own.core.search.examples == 33


def test_only_required_roles_must_be_filled(plugins: Plugins) -> None:
    base = {"domain": "chess", "engine": "local"}
    assert set(resolve(plugins, base, (), {}, ["domain"]).chosen) == {
        "domain",
        "verifier",
        "engine",
    }
    with pytest.raises(InputError, match="scheduler: missing"):
        resolve(plugins, base, (), {})


def test_paths_count_from_the_current_folder(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for settings in ({"domain.puzzles": "a.csv"}, {"domain": {"puzzles": Path("a.csv")}}):
        config = resolve(plugins, "full", (), settings).chosen["domain"].config
        assert config.puzzles == tmp_path / "a.csv"
    base = {"domain": {"name": "chess", "puzzles": "a.csv"}, "engine": "local"}
    made = resolve(plugins, base, (), {}, ["domain"])
    assert made.chosen["domain"].config.puzzles == tmp_path / "a.csv"


def nest(depth: int) -> dict[str, object]:
    made: dict[str, object] = {}
    for _ in range(depth):
        made = {"a": made}
    return made


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"domain.size": object()}, "domain.size: a setting is text, a number"),
        ({"domain": {"puzzles": [{1, 2}]}}, "domain.puzzles[0]: a setting is text"),
        ({"a b": 1}, "cannot read the key 'a b'"),
        ({3: 1}, "cannot read the key 3"),
        ({"domain": {"sizes": 3}}, "domain.sizes: unknown key, did you mean 'size'?"),
        ({"domain": {"a.b": 3}}, "domain.a.b: unknown key"),
        ({"domain.size": "3"}, "domain.size: expected"),
        ({"domain.size": float("nan")}, "domain.size: expected"),
        ({"engine": nest(40)}, "nested more than 32 deep"),
        ({"domain.size": "${nowhere}"}, "there is no setting 'nowhere'"),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, object], said: str, plugins: Plugins) -> None:
    with pytest.raises(InputError) as error:
        resolve(plugins, "full", (), settings)
    assert said in str(error.value) and len(str(error.value).splitlines()) == 1


def test_only_caps_of_a_stored_run_may_change(plugins: Plugins, tmp_path: Path) -> None:
    stored = tmp_path / "config.yaml"
    stored.write_text(resolve(plugins, "full", (), {}).to_yaml())
    assert read_config(plugins, stored, {"cap": {"usd": 2}}).core.cap.usd == 2
    assert read_config(plugins, stored, ["cap.usd=2"]).core.cap.usd == 2
    for settings in ({"seed": 1}, ["seed=1"]):
        with pytest.raises(InputError, match="seed: a run is continued as it was"):
            read_config(plugins, stored, settings)
