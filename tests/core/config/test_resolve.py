"""Layers, the shorthand for roles, roles left out, and what is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale_core.config import Resolved, read_config, resolve
from whale_core.errors import InputError, PluginError
from whale_core.plugins.manager import Plugins


def made(plugins: Plugins, *overrides: str, files: tuple[Path, ...] = ()) -> Resolved:
    return resolve(plugins, "full", files, overrides)


def test_layers_lie_in_order(plugins: Plugins, tmp_path: Path) -> None:
    # set < recommended < file < second file < override, seen on one key after the other
    set_only = made(plugins)
    assert set_only.chosen["model_update"].config.lr == 3e-5  # set over default
    assert set_only.chosen["domain"].config.size == 50
    assert set_only.chosen["model_update"].config.prompts == 5  # recommended over set
    assert set_only.core.search.examples == 33  # recommended over default
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("model_update: {prompts: 6, group_size: 6}\nsearch: {examples: 6}\n")
    second.write_text("model_update: {group_size: 7}\n")
    filed = made(plugins, files=(first, second))
    config = filed.chosen["model_update"].config
    assert (config.prompts, config.group_size, filed.core.search.examples) == (6, 7, 6)
    over = made(plugins, "model_update.prompts=8", "seed=3", files=(first, second))
    assert (over.chosen["model_update"].config.prompts, over.core.seed) == (8, 3)


def test_the_shorthand_names_a_plugin_and_drops_the_old_one_s_settings(plugins: Plugins) -> None:
    assert made(plugins, "domain=chess").chosen["domain"].config.size == 50  # the same: kept
    sums = made(plugins, "domain=sums")
    assert sums.chosen["domain"].name == "sums"
    assert sums.chosen["domain"].config.size == 7  # its own recommendation, not chess's 50
    assert sums.chosen["verifier"].name == "boxed"  # so is the verifier
    assert sums.core.search.examples == 12  # chess's recommendation is gone
    grpo = made(plugins, "model_update=grpo")
    assert grpo.tree["model_update"] == {"name": "grpo", "beta": 0.1}


def test_a_set_s_word_on_the_chosen_domain_stands_above_the_recommendation(
    plugins: Plugins,
) -> None:
    sums = made(plugins, "domain=sums")
    assert (sums.core.search.examples, sums.tree["harness_search"]["candidates"]) == (12, 9)
    assert "in_domain" not in sums.tree
    over = made(plugins, "domain=sums", "search.examples=3", "harness_search.candidates=2")
    assert (over.core.search.examples, over.tree["harness_search"]["candidates"]) == (3, 2)
    assert made(plugins).tree["harness_search"]["candidates"] != 9  # the set's own domain: nothing


def test_settings_beside_the_shorthand_count_in_any_order(plugins: Plugins) -> None:
    for overrides in (("domain.size=3", "domain=sums"), ("domain=sums", "domain.size=3")):
        assert made(plugins, *overrides).chosen["domain"].config.size == 3


def test_a_file_may_use_the_shorthand_too(plugins: Plugins, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("domain: sums\n")
    assert made(plugins, files=(file,)).chosen["domain"].name == "sums"
    assert made(plugins, "domain=chess", files=(file,)).chosen["domain"].name == "chess"


def test_a_domain_recommends_settings_but_not_the_method(plugins: Plugins) -> None:
    # for another update than the one it names, and for a search that is not there: nothing
    assert made(plugins, "model_update=grpo").tree["model_update"] == {"name": "grpo", "beta": 0.1}
    assert made(plugins).chosen["harness_search"].config.candidates == 4  # named by any plugin
    assert "harness_search" not in resolve(plugins, "half", (), ()).chosen


def test_roles_that_a_schedule_does_not_need_may_be_left_out(plugins: Plugins) -> None:
    half = resolve(plugins, "half", (), ())
    assert sorted(half.chosen) == ["domain", "engine", "model_update", "scheduler", "verifier"]
    without = made(plugins, "scheduler=weights-alone", "harness_search=null", "proposer=null")
    assert "harness_search" not in without.chosen and "proposer" not in without.tree


def test_roles_that_are_needed_are_asked_for(plugins: Plugins) -> None:
    with pytest.raises(InputError) as error:
        made(plugins, "model_update=null", "proposer=null", "engine=null")
    assert str(error.value).splitlines() == [
        "engine: missing, name a plugin for it",
        "proposer: missing, harness_search 'search' needs one",
        "model_update: missing, scheduler 'both' needs one",
    ]


def test_override_values_are_typed_as_in_yaml(plugins: Plugins) -> None:
    engine = made(
        plugins,
        "engine.limits.stop=[a, b]",
        "engine.dtype=float32",
        "engine.threads=2",
        "engine.extra={x: 1}",
        "domain.puzzles=/data/my puzzles=1.csv",
        "model_update.lr=1e-5",
        "model_update.shuffle=false",
    )
    config = engine.chosen["engine"].config
    assert config.limits.stop == ("a", "b") and config.threads == 2 and config.extra == {"x": 1.0}
    assert config.dtype.value == "float32"
    assert engine.chosen["domain"].config.puzzles == Path("/data/my puzzles=1.csv")
    assert engine.chosen["model_update"].config.lr == 1e-5
    assert engine.chosen["model_update"].config.shuffle is False


def test_a_setting_may_refer_to_another(plugins: Plugins) -> None:
    resolved = made(plugins, "selection.examples=12", "test.examples=${selection.examples}")
    assert resolved.core.test.examples == 12
    with pytest.raises(InputError, match=r"^test\.examples: .*selektion"):
        made(plugins, "test.examples=${selektion.examples}")


def test_the_tree_has_every_default_and_the_stored_file_reads_back(
    plugins: Plugins, tmp_path: Path
) -> None:
    resolved = made(plugins, "seed=4", "engine.limits.stop=[x]", "harness=mine.py")
    assert resolved.tree["rollout"]["top_k"] == 20
    assert resolved.tree["domain"] == {"name": "chess", "puzzles": "bundled.csv", "size": 50}
    stored = tmp_path / "config.yaml"
    stored.write_text(resolved.to_yaml())
    assert read_config(plugins, stored) == resolved
    # it is a configuration file for a new run of the same set, too
    again = resolve(plugins, "full", (stored,), ("seed=5",))
    assert again.core.seed == 5
    assert again.settings_hash() == resolved.settings_hash()
    with pytest.raises(InputError, match="made for plugin set 'full', not 'half'"):
        resolve(plugins, "half", (stored,), ())


def test_the_settings_hash_leaves_out_what_is_named_and_nothing_else(plugins: Plugins) -> None:
    base = made(plugins)
    assert made(plugins, "seed=9").settings_hash() == base.settings_hash()
    assert made(plugins, "seed=9").settings_hash(exclude=()) != base.settings_hash(exclude=())
    assert made(plugins, "model_update.lr=1e-3").settings_hash() != base.settings_hash()
    capped = made(plugins, "cap.rollouts=9")
    assert capped.settings_hash() == base.settings_hash()
    assert capped.settings_hash(exclude=()) != base.settings_hash(exclude=())
    assert made(plugins, "rollout.reply_seconds=9").settings_hash() == base.settings_hash()
    assert len(base.settings_hash()) == 16


def test_a_later_setting_is_hashed_only_where_it_is_used(plugins: Plugins, tmp_path: Path) -> None:
    base = made(plugins)
    assert base.tree["search"]["redraw"] is False  # shown and stored like any other
    assert made(plugins, "search.redraw=false").settings_hash() == base.settings_hash()
    changed = [made(plugins, setting) for setting in ("search.redraw=true", "search.shown=3")]
    hashes = {base.settings_hash(), *(each.settings_hash() for each in changed)}
    assert len(hashes) == 3
    # The stored file of a run that an older version began has no such key.
    stored = tmp_path / "config.yaml"
    lines = base.to_yaml().splitlines(keepends=True)
    stored.write_text("".join(line for line in lines if "redraw:" not in line))
    assert read_config(plugins, stored).settings_hash() == base.settings_hash()


def test_no_more_examples_are_shown_than_scored(plugins: Plugins) -> None:
    with pytest.raises(InputError, match=r"search\.shown: must be <= search\.examples \(8\): 9"):
        made(plugins, "search.examples=8", "search.shown=9")


def test_a_plugin_set_that_cannot_be_read_names_its_plugin(plugins: Plugins) -> None:
    with pytest.raises(PluginError, match=r"acme-parts 1\.0 .*reading plugin set 'gone'"):
        resolve(plugins, "gone", (), ())
    with pytest.raises(InputError, match="no plugin set is called 'fulll', did you mean 'full'"):
        resolve(plugins, "fulll", (), ())


def test_a_configuration_class_of_an_impossible_type_is_the_plugin_s_fault(
    plugins: Plugins,
) -> None:
    with pytest.raises(PluginError, match=r"acme-parts 1\.0 .*Unreadable.*complex"):
        made(plugins, "domain=odd", "domain.engine=3")
