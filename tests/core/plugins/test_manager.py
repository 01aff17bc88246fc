"""Loading installed distributions: what works, what is broken, who is named."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from whale_core.config import resolve
from whale_core.errors import InputError, PluginError
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins, load_plugins

Install = Callable[..., str]

HEADER = "from whale_core.plugins import Registration, hookimpl\n"


def domain(module: str, factory: str = "Domain") -> str:
    """Return the source of a plugin module that registers the domain ``acme``."""
    return f"""{HEADER}
from attrs import frozen
from whale_core.errors import InputError
from whale_core.testing.toy import ToyDomain

@frozen
class Config:
    size: int = 3

class Domain(ToyDomain):
    harnesses = {{}}

    def __init__(self, config, setup):
        self.size, self.seed = config.size, setup.seed

def defective(config, setup):
    raise KeyError("weights")

def without_data(config, setup):
    raise InputError("no file x.csv")

@hookimpl
def whale_register_domains():
    return [Registration("acme", "{module}:{factory}", "{module}:Config", "a test domain")]
"""


def only(plugins: Plugins, distribution: str) -> str:
    """Return the one failure of a distribution as text."""
    (failure,) = [each for each in plugins.failures if each.origin.distribution == distribution]
    return str(failure)


def test_an_installed_plugin_is_found_and_built(install: Install) -> None:
    install("acme_good", domain("acme_good"), version="2.1")
    plugins = load_plugins()
    registered = plugins.registrations("domain")["acme"]
    assert (registered.distribution, registered.version) == ("acme-good", "2.1")
    assert (registered.entry_point, registered.role) == ("main", "domain")
    config = plugins.config_class(registered)(size=5)
    made = plugins.build("domain", "acme", config, Setup(seed=7))
    assert (made.size, made.seed) == (5, 7)


def test_core_registers_itself_through_the_same_hooks() -> None:
    plugins = load_plugins()
    assert plugins.get("domain", "toy").distribution == "whale-core"
    assert {"default", "weight-only", "harness-only", "smoke"} <= set(plugins.sets())
    assert plugins.conflicts() == []


def test_core_s_own_entry_point_is_not_loaded_twice(tmp_path: Path, install: Install) -> None:
    install("whale_core_copy", "")
    info = tmp_path / "whale_core_copy-1.0.dist-info"
    (info / "entry_points.txt").write_text("[whale]\ncore = whale_core.plugins.builtin\n")
    plugins = load_plugins()
    assert plugins.get("domain", "toy").distribution == "whale-core"
    assert not [f for f in plugins.failures if "core" in f.origin.distribution]


def test_an_installation_without_metadata_spares_the_others(
    tmp_path: Path, install: Install
) -> None:
    install("acme_good", domain("acme_good"))
    install("acme_torn", "1 / 0\n")
    (tmp_path / "acme_torn-1.0.dist-info" / "METADATA").unlink()
    plugins = load_plugins()
    assert plugins.get("domain", "acme").name == "acme"
    assert "plugin unknown 0 (entry point 'main') failed" in only(plugins, "unknown")


def test_a_broken_import_is_told_and_spares_the_others(install: Install) -> None:
    install("acme_good", domain("acme_good"))
    install("acme_broken", "import not_installed_anywhere\n", version="0.3")
    plugins = load_plugins()
    assert plugins.get("domain", "acme").name == "acme"
    assert only(plugins, "acme-broken") == (
        "plugin acme-broken 0.3 (entry point 'main') failed while importing 'acme_broken': "
        "ModuleNotFoundError: No module named 'not_installed_anywhere'; "
        "install what provides 'not_installed_anywhere', or uninstall acme-broken"
    )


def test_a_module_that_exits_on_import_is_a_failure(install: Install) -> None:
    install("acme_exit", "import sys; sys.exit('no GPU')\n")
    assert "SystemExit: no GPU" in only(load_plugins(), "acme-exit")


def test_an_unknown_name_with_a_near_one_is_bad_input_even_beside_a_broken_plugin(
    install: Install,
) -> None:
    install("acme_good", domain("acme_good"))
    install("acme_broken", "1 / 0\n")
    with pytest.raises(InputError, match=r"no domain is called 'acm', did you mean 'acme'\?") as e:
        load_plugins().get("domain", "acm")
    assert "ZeroDivisionError" in str(e.value)


def test_an_unknown_name_lists_what_is_installed(install: Install) -> None:
    install("acme_good", domain("acme_good"))
    with pytest.raises(
        InputError, match=r"no domain is called 'qqq' \(valid: acme.*toy\)"
    ) as error:
        load_plugins().get("domain", "qqq")
    assert error.value.exit_code == 2


def test_an_unknown_name_that_a_broken_plugin_may_own_is_a_plugin_error(install: Install) -> None:
    install("acme_broken", "1 / 0\n")
    with pytest.raises(PluginError, match=r"acme-broken 1\.0 .*ZeroDivisionError") as error:
        load_plugins().get("domain", "elsewhere")
    assert error.value.exit_code == 3


def test_two_plugins_of_one_role_and_name_are_both_named(install: Install) -> None:
    install("acme_one", domain("acme_one"), version="1.0")
    install("acme_two", domain("acme_two"), version="2.0")
    plugins = load_plugins()
    assert "acme" not in plugins.registrations("domain")
    with pytest.raises(PluginError, match=r"acme-one 1\.0 .* and acme-two 2\.0 .*uninstall one"):
        plugins.get("domain", "acme")
    claimed = [(role, name, origin.distribution) for role, name, origin in plugins.conflicts()]
    assert claimed == [("domain", "acme", "acme-one"), ("domain", "acme", "acme-two")]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            HEADER + "@hookimpl\ndef whale_register_domain(): return []\n",
            "unknown hook whale_register_domain, did you mean 'whale_register_domains'?",
        ),
        (
            "def whale_register_domains(): return []\n",
            "whale_register_domains lacks the marker @whale_core.plugins.hookimpl",
        ),
        (
            HEADER + "@hookimpl\nasync def whale_before_phase(phase): pass\n",
            "whale_before_phase is a coroutine function",
        ),
        (
            HEADER + "@hookimpl(wrapper=True)\ndef whale_before_phase(phase): yield\n",
            "whale_before_phase is a hook wrapper",
        ),
        (
            HEADER + "@hookimpl\ndef whale_before_phase(phse): pass\n",
            "Argument(s) {'phse'}",
        ),
        (
            HEADER + "@hookimpl\ndef whale_register_domains(): return ['acme']\n",
            "failed while calling whale_register_domains: TypeError: expected a list of "
            "Registration, found 'acme'",
        ),
        (
            HEADER + "@hookimpl\ndef whale_register_domains(): raise OSError('disk')\n",
            "failed while calling whale_register_domains: OSError: disk",
        ),
        (
            HEADER
            + "@hookimpl\ndef whale_register_domains(): "
            + "return 2 * [Registration('a', 'b:c', 'b:d', '')]\n",
            "failed while calling whale_register_domains: ValueError: 'a' stands in the list twice",
        ),
    ],
)
def test_a_wrong_hook_is_told(install: Install, source: str, told: str) -> None:
    install("acme_wrong", source)
    assert told in only(load_plugins(), "acme-wrong")


def test_a_failing_plugin_registers_nothing(install: Install) -> None:
    failing = "\n@hookimpl\ndef whale_register_verifiers(): raise OSError('disk')\n"
    install("acme_half", domain("acme_half") + failing)
    plugins = load_plugins()
    assert "calling whale_register_verifiers" in only(plugins, "acme-half")
    assert "acme" not in plugins.registrations("domain")


LAZY = """
@hookimpl
def whale_register_domains():
    return [
        Registration("lazy", "acme_absent:Domain", "acme_lazy:Absent", "names what is not there"),
        Registration("plain", "acme_lazy", "acme_lazy:NotAttrs", "no class, no attrs class"),
    ]

class NotAttrs: pass
"""


def test_references_are_resolved_on_use_and_name_their_plugin(install: Install) -> None:
    install("acme_lazy", HEADER + LAZY)
    plugins = load_plugins()
    assert "acme_absent" not in sys.modules
    with pytest.raises(
        PluginError, match=r"acme-lazy 1\.0 .*importing 'acme_absent:Domain'.*No mod"
    ):
        plugins.build("domain", "lazy", None, Setup(seed=0))
    with pytest.raises(PluginError, match=r"acme-lazy 1\.0 .*has no attribute 'Absent'"):
        plugins.config_class(plugins.get("domain", "lazy"))
    with pytest.raises(PluginError, match="NotAttrs is not an attrs class"):
        plugins.config_class(plugins.get("domain", "plain"))
    with pytest.raises(PluginError, match="a reference must read 'module:Class'"):
        plugins.build("domain", "plain", None, Setup(seed=0))


def test_a_factory_that_fails_names_its_plugin(install: Install) -> None:
    install("acme_defective", domain("acme_defective", "defective"))
    with pytest.raises(
        PluginError, match=r"acme-defective 1\.0 .*building domain 'acme': KeyError"
    ):
        load_plugins().build("domain", "acme", None, Setup(seed=0))


def test_a_factory_s_own_user_error_passes_unchanged(install: Install) -> None:
    install("acme_user", domain("acme_user", "without_data"))
    with pytest.raises(InputError, match=r"^no file x\.csv$"):
        load_plugins().build("domain", "acme", None, Setup(seed=0))


def test_a_plugin_set_comes_from_a_package_or_a_file(install: Install, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("domain: toy\n")
    source = f"""{HEADER}
from whale_core.plugins.sets import PluginSet

@hookimpl
def whale_register_plugin_sets():
    return [PluginSet("mine", {str(file)!r}, "from a file")]
"""
    install("acme_sets", source)
    plugins = load_plugins()
    assert plugins.plugin_set("mine")[0].read() == "domain: toy\n"
    assert "domain:" in plugins.plugin_set("smoke")[0].read()
    with pytest.raises(InputError, match="no plugin set is called 'smoek', did you mean 'smoke'"):
        plugins.plugin_set("smoek")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('Registration(5, "m:C", "m:C", "s")', "Registration.name must be a text, is 5"),
        ('Registration("a b", "m:C", "m:C", "s")', "must be one word of printable characters"),
        ('Registration("", "m:C", "m:C", "s")', "must be one word of printable characters"),
        ('Registration("a\\x1b[31m", "m:C", "m:C", "s")', "must be one word of printable"),
        ('Registration("a", 3, "m:C", "s")', "Registration.factory must be a text, is 3"),
        ('Registration("a", "m:C", None, "s")', "Registration.config must be a text, is None"),
        ('Registration("a", "m:C", "m:C", None)', "Registration.summary must be a text"),
    ],
)
def test_a_record_that_would_break_every_command_breaks_its_plugin_alone(
    written: str, said: str, install: Install
) -> None:
    install(
        "acme_records",
        f"{HEADER}\n@hookimpl\ndef whale_register_domains():\n    return [{written}]\n",
    )
    plugins = load_plugins()
    assert said in only(plugins, "acme-records")
    assert "toy" in plugins.registrations("domain")


def test_a_factory_that_exits_is_a_failure_of_its_plugin(install: Install) -> None:
    install("acme_exits", domain("acme_exits", "leave") + "\ndef leave(config, setup): exit(0)\n")
    plugins = load_plugins()
    config = plugins.config_class(plugins.get("domain", "acme"))()
    with pytest.raises(PluginError, match=r"acme-exits .* building domain 'acme': SystemExit: 0"):
        plugins.build("domain", "acme", config, Setup(seed=7))


def test_a_default_that_cannot_be_made_names_its_plugin(install: Install) -> None:
    source = domain("acme_default").replace(
        "    size: int = 3", "    size: int = __import__('attrs').field(factory=lambda: 1 // 0)"
    )
    install("acme_default", source)
    with pytest.raises(PluginError, match=r"acme-default .* reading Config: ZeroDivisionError"):
        resolve(load_plugins(), {"domain": "acme"}, (), {})


def test_a_setting_called_name_is_refused(install: Install) -> None:
    # it would stand in a run's configuration where the plugin's name does
    install("acme_name", domain("acme_name").replace("size: int = 3", "name: str = 'x'"))
    plugins = load_plugins()
    with pytest.raises(PluginError, match="Config has a setting 'name'"):
        plugins.config_class(plugins.get("domain", "acme"))
