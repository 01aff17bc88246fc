"""The life of a plugin, each state with a package that pip installed: what ``whale plugins`` says
of it, and what a run says that asks for it."""

from __future__ import annotations

from typing import Any

import pytest
from installed_kit import (
    HOOKS,
    SIBLINGS,
    Environment,
    Package,
    install,
    make_environment,
    registering,
    write_project,
    write_wheel,
)

import whale_core

DOMAINS = "whale_register_domains"
TOY = "whale_core.testing.toy:ToyDomain", "whale_core.testing.toy:DomainConfig"

BARE = '''
from attrs import define, frozen

@frozen
class Config:
    """For a test."""

    size: int = 3
    """How large it is."""

@define
class Mutable:
    size: int = 3

@frozen
class Required:
    size: int

class Bare:
    name = "bare"

    def __init__(self, config, setup):
        self.version = 1

    def split(self, name):
        return ()
'''
PACKAGES = [
    Package(
        "acme-good",
        {
            "__init__.py": registering(
                DOMAINS, "acme", "acme_good.parts:ToyDomain", "acme_good.parts:Config"
            ),
            "parts.py": f"from whale_core.testing.toy import ToyDomain\n{BARE}",
        },
        version="2.1",
        requires=["whale-core>=0.1.dev0,<0.2"],
    ),
    Package("acme-broken", {"__init__.py": f"{HOOKS}\nraise OSError('no driver')\n"}),
    Package(
        "acme-lazy",
        {
            "__init__.py": HOOKS
            + """
@hookimpl
def whale_register_domains():
    return [
        Registration("absent", "acme_lazy.absent:Domain", "acme_lazy.parts:Config", ""),
        Registration("crooked", "acme_lazy.crooked:Domain", "acme_lazy.parts:Config", ""),
        Registration("renamed", "acme_lazy.parts:Domain", "acme_lazy.parts:Config", ""),
        Registration("whole", "acme_lazy.heavy:Domain", "acme_lazy.parts:Config", ""),
    ]
""",
            "parts.py": BARE,
            "crooked.py": "class Domain:\n    def split(self, name:\n        pass\n",
            "heavy.py": "class Domain: pass\nraise MemoryError('imported without need')\n",
        },
    ),
    Package(
        "acme-bare",
        {
            "__init__.py": HOOKS
            + """
@hookimpl
def whale_register_domains():
    return [
        Registration("bare", "acme_bare.parts:Bare", "acme_bare.parts:Config", ""),
        Registration("mutable", "acme_bare.parts:Bare", "acme_bare.parts:Mutable", ""),
        Registration("required", "acme_bare.parts:Bare", "acme_bare.parts:Required", ""),
    ]
""",
            "parts.py": BARE,
        },
    ),
    Package(
        "acme-typo",
        {"__init__.py": registering("whale_register_domain", "typo", *TOY)},
    ),
    Package("acme-one", {"__init__.py": registering(DOMAINS, "twice", *TOY)}, version="1.1"),
    Package("acme-two", {"__init__.py": registering(DOMAINS, "twice", *TOY)}, version="2.2"),
    Package(
        "acme-old",
        {"__init__.py": "raise MemoryError('imported though incompatible')\n"},
        requires=["attrs", "whale-core>=99,<100"],
    ),
]
EXTRA = Package(  # built from its sources, so that its extras are as a build backend writes them
    "acme-extra",
    {
        "__init__.py": registering(
            DOMAINS, "extra", "acme_extra.heavy:Extra", "acme_extra.config:Config"
        ),
        "config.py": BARE,
        "heavy.py": "import absent_library.nn\n\nclass Extra: pass\n",
    },
    requires=["whale-core"],
    extras={"cpu": ["attrs"], "gpu": ["absent-library>=1 ; python_version > '3'"]},
)
SMOKE = "whale-metaharness,whale-rsft,whale-schedulers,whale-transformers"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("installed")
    made = make_environment(folder / "venv")
    wheels = [write_wheel(package, folder) for package in PACKAGES]
    install(made, [*wheels, write_project(EXTRA, folder)])
    return made


@pytest.fixture(scope="module")
def rows(installed: Environment) -> list[dict[str, Any]]:
    return installed.rows()


def states(rows: list[dict[str, Any]], distribution: str) -> dict[str, str]:
    return {row["name"]: row["state"] for row in rows if row["distribution"] == distribution}


def note(rows: list[dict[str, Any]], distribution: str, name: str = "") -> str:
    (row,) = [r for r in rows if (r["distribution"], r["name"]) == (distribution, name)]
    found: str = row["note"]
    return found


def run(installed: Environment, settings: str, load_only: str) -> tuple[int, str]:
    only = f"{SMOKE},{load_only}"
    return installed.error("run", "--plugin-set", "smoke", settings, WHALE_LOAD_ONLY=only)


def test_every_plugin_has_its_state(rows: list[dict[str, Any]]) -> None:
    found = {name: states(rows, name) for name in {row["distribution"] for row in rows}}
    assert {name: each for name, each in found.items() if name.startswith("acme")} == {
        "acme-good": {"acme": "ok"},
        "acme-broken": {"": "broken"},
        "acme-lazy": {
            "absent": "broken",
            "crooked": "broken",
            "renamed": "broken",
            "whole": "ok",  # it looks so, and was not imported to find out
        },
        "acme-extra": {"extra": "broken"},
        "acme-bare": {"bare": "ok", "mutable": "ok", "required": "ok"},  # a run checks them
        "acme-typo": {"": "broken"},
        "acme-one": {"twice": "conflict"},
        "acme-two": {"twice": "conflict"},
        "acme-old": {"": "incompatible"},
    }
    assert set(states(rows, "whale-chess").values()) == {"ok"}  # others are spared
    (good,) = [row for row in rows if row["distribution"] == "acme-good"]
    assert (good["role"], good["version"]) == ("domain", "2.1")


def test_a_plugin_that_works_lists_its_settings(installed: Environment) -> None:
    done = installed.whale("plugins", "domain:acme")
    assert done.returncode == 0
    assert "For a test." in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "domain.size" in line]
    assert line.split() == ["domain.size", "integer", "3", "How", "large", "it", "is."]


def test_a_broken_import(installed: Environment, rows: list[dict[str, Any]]) -> None:
    told = "OSError: no driver; upgrade or uninstall acme-broken"
    assert note(rows, "acme-broken") == f"importing 'acme_broken': {told}"
    code, line = run(installed, "domain=nobodys", "acme-broken")
    assert code == 3
    assert "it may belong to a broken plugin: plugin acme-broken 1.0 (entry point 'main')" in line
    assert told in line


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("absent", "No module named 'acme_lazy.absent'; upgrade or uninstall acme-lazy"),
        ("crooked", "SyntaxError: '(' was never closed (crooked.py, line 2)"),
        ("renamed", "module 'acme_lazy.parts' has no attribute 'Domain'"),
    ],
)
def test_code_that_is_named_but_not_there(
    installed: Environment, rows: list[dict[str, Any]], name: str, told: str
) -> None:
    assert told in note(rows, "acme-lazy", name)
    code, line = run(installed, f"domain={name}", "acme-lazy")
    assert code == 3
    assert line == "plugin acme-lazy 1.0 (entry point 'main') failed while " + note(
        rows, "acme-lazy", name
    )


def test_a_missing_extra(installed: Environment, rows: list[dict[str, Any]]) -> None:
    told = "No module named 'absent_library'; pip install 'acme-extra[gpu]'"
    assert note(rows, "acme-extra", "extra").endswith(told)
    code, line = run(installed, "domain=extra", "acme-extra")
    assert code == 3
    assert line == (
        "plugin acme-extra 1.0 (entry point 'main') failed while importing 'acme_extra.heavy:Extra'"
        f" for domain 'extra': ModuleNotFoundError: {told}"
    )
    done = installed.whale("plugins", "extra")  # its settings can be read all the same
    assert "domain.size" in done.stdout and told in done.stdout


def test_a_part_that_does_not_fit_its_role(installed: Environment) -> None:
    code, line = run(installed, "domain=bare", "acme-bare")
    assert code == 3
    assert line.startswith(
        "plugin acme-bare 1.0 (entry point 'main') failed while building domain 'bare': TypeError: "
        "Bare is no whale_core.roles.Domain: it lacks limits, tools, answer_is_sampled, harnesses, "
        "base_harness, verifier, metrics, null_models, catalogue, brief, environment, "
        "chance_levels; version must be str, is int; upgrade or uninstall acme-bare"
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mutable", "acme_bare.parts:Mutable is not frozen: decorate it with attrs.frozen"),
        ("required", "acme_bare.parts:Required.size has no default"),
    ],
)
def test_settings_that_are_no_frozen_class_with_defaults(
    installed: Environment, name: str, told: str
) -> None:
    code, line = run(installed, f"domain={name}", "acme-bare")
    assert code == 3
    assert line.startswith("plugin acme-bare 1.0 (entry point 'main') failed while reading the")
    assert told in line


def test_an_unknown_hook(installed: Environment, rows: list[dict[str, Any]]) -> None:
    told = "unknown hook whale_register_domain, did you mean 'whale_register_domains'?"
    assert told in note(rows, "acme-typo")
    code, line = run(installed, "domain=typo", "acme-typo")
    assert code == 3 and "plugin acme-typo 1.0" in line and told in line


def test_two_plugins_of_one_role_and_name(installed: Environment) -> None:
    code, line = run(installed, "domain=twice", "acme-one,acme-two")
    assert (code, line) == (
        3,
        "domain 'twice' is registered by acme-one 1.1 (entry point 'main') and acme-two 2.2 "
        "(entry point 'main'): uninstall one of them",
    )
    left = installed.rows(WHALE_DISABLE_PLUGINS="acme-two")
    assert states(left, "acme-one") == {"twice": "ok"}


def test_an_incompatible_version(installed: Environment, rows: list[dict[str, Any]]) -> None:
    told = (
        f"needs whale-core<100,>=99, and this is whale-core {whale_core.__version__}; "
        "upgrade acme-old, or pip install 'whale-core<100,>=99'"
    )
    assert note(rows, "acme-old") == told
    code, line = run(installed, "domain=old", "acme-old")
    assert code == 3 and f"plugin acme-old 1.0 (entry point 'main') {told}" in line


def test_a_disabled_plugin(installed: Environment) -> None:
    left = installed.rows(WHALE_DISABLE_PLUGINS="acme-good, Acme_Broken")
    assert states(left, "acme-good") == {"": "disabled"}
    assert note(left, "acme-good") == "left out by WHALE_DISABLE_PLUGINS"
    assert states(left, "acme-broken") == {"": "disabled"}  # not even imported
    assert states(left, "acme-lazy")["whole"] == "ok"
    code, line = run(installed, "domain=acme", "whale-chess")
    assert code == 2 and line.startswith("domain: no domain is called 'acme' (valid: chess, toy);")
    assert "it may belong to a disabled plugin: WHALE_LOAD_ONLY leaves out acme-bare," in line
    assert "acme-good" in line


def test_load_only(installed: Environment) -> None:
    left = installed.rows(WHALE_LOAD_ONLY="acme-good")
    loaded = {row["distribution"] for row in left if row["state"] != "disabled"}
    assert loaded == {"whale-core", "acme-good"}
    assert states(left, "whale-rsft") == {"": "disabled"}
    code, line = installed.error("run", "--plugin-set", "smoke", WHALE_LOAD_ONLY="acme-good")
    assert code == 2
    assert line.startswith(
        "plugin set 'smoke' needs engine 'transformers', proposer 'mutation', model_update 'rsft', "
        "harness_search 'meta-harness', scheduler 'fixed', which nothing loaded registers: "
        "WHALE_LOAD_ONLY leaves out "
    )


@pytest.mark.parametrize("variable", ["WHALE_LOAD_ONLY", "WHALE_DISABLE_PLUGINS"])
def test_a_name_that_is_not_installed(installed: Environment, variable: str) -> None:
    code, line = installed.error("plugins", **{variable: "whale-chess,acme-god"})
    assert (code, line) == (
        2,
        f"{variable}: no installed distribution with plugins is called 'acme-god', did you mean "
        "'acme-good'?",
    )


def test_what_a_plugin_set_lacks_is_one_pip_command(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    made = make_environment(tmp_path_factory.mktemp("bare") / "venv", without=SIBLINGS)
    assert {row["distribution"] for row in made.rows()} == {"whale-core"}
    code, line = made.error("run", "--plugin-set", "default")
    assert (code, line) == (
        2,
        "plugin set 'default' needs domain 'searchqa', verifier 'em', engine 'transformers', "
        "proposer 'mutation', model_update 'rsft', harness_search 'meta-harness', scheduler "
        "'fixed', which nothing installed registers: pip install 'whale-core[default]'",
    )
    code, line = made.error("run", "--plugin-set", "default", "domain=ches", "engine=x", "seed=-1")
    assert "pip install" in line and "'ches'" not in line  # a name of the user's own is no part
