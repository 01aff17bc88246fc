"""Plugin sets that extend one another, across distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whale_core.config import resolve
from whale_core.errors import InputError, PluginError
from whale_core.plugins import hookimpl
from whale_core.plugins.manager import Plugins
from whale_core.plugins.registered import Origin
from whale_core.plugins.sets import PluginSet

SETS = {
    "more": "extends: full\nmodel_update: {lr: 1e-3}\nsearch: {draws: 2}\n",
    "most": "extends: more\nmodel_update: {prompts: 3}\nin_domain: {sums: {search: {draws: 5}}}\n",
    "alone": "extends: full\nharness_search: null\nproposer: null\nscheduler: weights-alone\n",
    "grpo": "extends: full\nmodel_update: grpo\nharness_search: {candidates: 2}\n",
    "other": "extends: full\ndomain: {name: sums, size: 2}\n",
    "here": "extends: other\nin_domain: {sums: {domain: {size: 4}}, chess: {domain: {size: 5}}}\n",
    "again": "extends: here\ndomain: chess\n",
    "last": "extends: here\ndomain: {size: 1}\n",
    "typo": "extends: full\nmodel_update:\n  pormpts: 3\n",
    "orphan": "extends: ful\n",
    "stranger": "extends: elsewhere\n",
    "a": "extends: b\n",
    "b": "extends: c\n",
    "c": "extends: b\n",
    "self": "extends: self\n",
    "list": "extends: [full]\n",
}


class Other:
    """A second distribution, which has sets alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @hookimpl
    def whale_register_plugin_sets(self) -> list[PluginSet]:
        """Register them; one says what it needs."""
        requires = {"stranger": ("whale-elsewhere",)}
        return [
            PluginSet(name, str(self.folder / f"{name}.yaml"), "", requires.get(name, ()))
            for name in SETS
        ]


@pytest.fixture
def both(plugins: Plugins, tmp_path: Path) -> Plugins:
    for name, text in SETS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    plugins.add(Other(tmp_path), Origin("other-sets", "2.0", "main"))
    assert plugins.failures == []
    return plugins


def tree(plugins: Plugins, name: str, *overrides: str) -> dict[str, Any]:
    return dict(resolve(plugins, name, (), overrides).tree)


def test_a_set_says_only_what_differs(both: Plugins) -> None:
    full, more, most = (tree(both, name) for name in ("full", "more", "most"))
    assert more == {
        **full,
        "model_update": {**full["model_update"], "lr": 1e-3},
        "search": {**full["search"], "draws": 2},
    }
    assert most == {**more, "model_update": {**more["model_update"], "prompts": 5}}  # recommended
    assert tree(both, "most", "model_update.lr=2")["model_update"]["lr"] == 2


def test_a_role_is_emptied_and_what_the_lower_set_said_of_it_goes(both: Plugins) -> None:
    alone = tree(both, "alone", "domain=sums")  # `full` has candidates: 9 there
    assert "harness_search" not in alone and "proposer" not in alone
    assert alone["scheduler"] == {"name": "weights-alone"}
    assert tree(both, "grpo")["model_update"] == {"name": "grpo", "beta": 0.1}


def test_a_set_stands_above_all_that_the_one_below_says_of_a_domain(both: Plugins) -> None:
    assert tree(both, "full", "domain=sums")["harness_search"]["candidates"] == 9
    assert tree(both, "grpo", "domain=sums")["harness_search"]["candidates"] == 2
    most = tree(both, "most", "domain=sums")["search"]
    assert (most["examples"], most["draws"]) == (12, 5)


def test_what_a_set_says_of_one_domain_leaves_the_others_alone(both: Plugins) -> None:
    assert tree(both, "other")["domain"] == {"name": "sums", "size": 7}  # recommended
    assert tree(both, "here")["domain"]["size"] == 4
    assert tree(both, "here", "domain=chess")["domain"]["size"] == 5
    assert tree(both, "again")["domain"]["size"] == 5
    assert tree(both, "again", "domain=sums")["domain"]["size"] == 4
    assert tree(both, "last", "domain=chess")["domain"]["size"] == 5
    assert tree(both, "last")["domain"]["size"] == 7  # set aside, and so recommended


def test_a_wrong_setting_is_found_in_the_set_that_makes_it(both: Plugins) -> None:
    with pytest.raises(InputError, match=r"did you mean .*prompts.*plugin set 'typo', line 3"):
        resolve(both, "typo", (), ())


@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        ("orphan", PluginError, "'orphan' of other-sets 2.0.*extends: no plugin set .*'full'"),
        ("stranger", InputError, "no plugin set is called 'elsewhere'.*pip install 'whale-elsew"),
        ("a", PluginError, "set 'c' .*extends: .* circle: 'b' extends 'c' extends 'b'$"),
        ("self", PluginError, "circle: 'self' extends 'self'$"),
        ("list", PluginError, "'list' .*extends: expected the name of a plugin set"),
    ],
)
def test_what_cannot_be_extended_is_one_line(
    both: Plugins, name: str, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match) as raised:
        resolve(both, name, (), ())
    assert "\n" not in str(raised.value)
