"""Write the pages that are made from the code: docs/configuration.md and docs/hooks.md.

python scripts/reference_pages.py             write them
python scripts/reference_pages.py --check     say which differ, with exit code 1
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from whale_core.config.reference import Setting, class_doc, settings_of
from whale_core.config.settings import CoreSettings
from whale_core.plugins import hookspecs
from whale_core.plugins.manager import ROLES, TRACKER, load_plugins

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = ("whale_*/pyproject.toml", "whale_domains/*/pyproject.toml", "plugins/*/pyproject.toml")
FACTS = ("When", "How often", "Order", "May change", "Errors")
NOTE = "<!-- Made by scripts/reference_pages.py from the code. Change it there. -->"

CONFIGURATION = """\
Every setting of the core and of this repository's plugins. `whale plugins NAME` prints the same for
any installed plugin, your own included.

A setting is written `section.key=value` on the command line, and as `key: value` under `section:`
in a `--config` file. Layers, the later wins: plugin set, the domain's recommendation, what the
plugin set says of that domain (`in_domain`), `--config` files in their order, command line. The
section of a role names its plugin: `domain: {name: chess, weight: 960}`; `domain=chess` is short
for the name alone. Naming another plugin drops the settings that lower layers made for the old one.
A plugin set may begin with `extends: NAME`: it is then laid over the set of that name, whoever
registers it, and what it says stands above all that the other one says, `in_domain` included.
`null` for a role leaves it empty. A relative path counts from the current folder, in a file from
that file's folder. `${section.key}` refers to another setting, `${oc.env:NAME,default}` to an
environment variable.

Unknown keys, wrong types and values out of range are all reported at once, each with its path,
before anything starts. The resolved configuration is stored in the run folder as `config.yaml`. It
repeats the run, or varies it: `whale run --plugin-set NAME --config config.yaml`, with the NAME of
its first line (`settings` for a run made in Python without a plugin set). As it is complete, plugin
set and recommendation are not laid beneath it again.
"""

ENVIRONMENT = """\
| variable | meaning |
|---|---|
| `WHALE_DISABLE_PLUGINS` | distributions whose plugins are not loaded, separated by commas |
| `WHALE_LOAD_ONLY` | the only distributions whose plugins are loaded, beside whale-core |
| `WHALE_CACHE` | converted models, verdicts of a judge (default: the user's cache folder) |
| `WHALE_STATE` | folder where openings of test splits are counted (default: the user's state) |
| `WHALE_DEBUG` | `1` shows the traceback of an error |
"""

HOOKS = """\
A plugin package is a distribution with an entry point in the group `whale` that names a small
module. The module's functions that are marked with `whale_core.plugins.hookimpl` and named as below
are called: *registration hooks* say what the package offers, *observer hooks* let it follow a run.

Implementations are plain functions (observer objects: methods) and may leave out arguments they do
not use. An unknown hook (the nearest name is told), one without the mark, a wrapper and a coroutine
function are refused when the plugin is loaded.
"""


def main() -> int:
    """Write the pages, or compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    stale = []
    for path, text in pages().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'differs from the code' if check else 'written'}")
    return 1 if check and stale else 0


def pages() -> dict[Path, str]:
    """Return the text of every page by its path."""
    docs = ROOT / "docs"
    return {docs / "configuration.md": configuration_page(), docs / "hooks.md": hooks_page()}


# --- configuration --------------------------------------------------------------------------------


def configuration_page() -> str:
    """Return ``docs/configuration.md``."""
    plugins, ours = load_plugins(), our_distributions()
    parts = ["# Configuration", NOTE, CONFIGURATION, "## Core", *_core()]
    for role in ROLES:
        found = [p for p in plugins.registrations(role).values() if p.distribution in ours]
        parts += [f"## Role `{role}`"] if found else []
        for each in found:
            cls = plugins.config_class(each)
            parts += [f"### `{role}={each.name}`"]
            parts += [f"{sentence(each.registration.summary)} From `{each.distribution}`."]
            if needs := getattr(cls, "needs", ()):
                parts += [f"Needs the roles {', '.join(f'`{need}`' for need in needs)}."]
            settings = settings_of(cls, role)
            parts += [table(settings) if settings else "It has no settings."]
    parts += ["## Trackers", "Their settings are those of [`trackers`](#trackers)."]
    trackers = [p for p in plugins.registrations(TRACKER).values() if p.distribution in ours]
    parts += [
        "\n".join(f"- `{p.name}`: {p.registration.summary} (`{p.distribution}`)" for p in trackers)
    ]
    parts += ["## Plugin sets"]
    for name, (plugin_set, origin) in plugins.sets().items():
        if origin.distribution in ours:
            parts += [
                f"### `{name}`",
                f"{sentence(plugin_set.summary)} From `{origin.distribution}`.",
            ]
            parts += [f"```yaml\n{plugin_set.read().strip()}\n```"]
    parts += ["## Environment", ENVIRONMENT]
    return joined(parts)


def our_distributions() -> set[str]:
    """Return the names of the distributions of this repository."""
    paths = [path for pattern in PROJECTS for path in ROOT.glob(pattern)]
    return {tomllib.loads(path.read_text())["project"]["name"] for path in paths}


def _core() -> Iterator[str]:
    sections = {
        each.name: hint
        for each in attrs.fields(CoreSettings)
        if attrs.has(hint := typing.get_type_hints(CoreSettings)[each.name])
    }
    yield table([each for each in settings_of(CoreSettings) if "." not in each.key])
    for name, cls in sections.items():
        yield f"### `{name}`"
        yield class_doc(cls)
        yield table(settings_of(cls, name))


def table(settings: Sequence[Setting]) -> str:
    """Return settings as a table."""
    rows = [
        f"| `{each.key}` | {each.type} | `{each.default}` | {each.doc} |".replace("\n", " ")
        for each in settings
    ]
    return "\n".join(["| setting | type | default | meaning |", "|---|---|---|---|", *rows])


# --- hooks ----------------------------------------------------------------------------------------


def hooks_page() -> str:
    """Return ``docs/hooks.md``."""
    parts = ["# Hooks", NOTE, HOOKS, "## Registration hooks"]
    hooks = {name: each for name, each in vars(hookspecs).items() if name.startswith("whale_")}
    for name, function in hooks.items():
        if name.startswith("whale_register_"):
            parts += hook(name, function, hookspecs.REGISTRATION)
    parts += ["## Observer hooks"]
    for name, function in hooks.items():
        if not name.startswith("whale_register_"):
            parts += hook(name, function, hookspecs.OBSERVER)
    return joined(parts)


def hook(name: str, function: Any, general: Mapping[str, str]) -> Iterator[str]:
    """Yield the paragraphs about one hook. Raise ``ValueError`` when a fact or argument is missing.

    ``general`` has the facts that all hooks of its kind share.
    """
    text, facts, arguments = read_docstring(inspect.getdoc(function) or "")
    stated = {**general, **facts}
    signature = inspect.signature(function)
    if missing := [fact for fact in FACTS if not stated.get(fact)]:
        raise ValueError(f"{name} does not state: {', '.join(missing)}")
    if list(arguments) != list(signature.parameters):
        raise ValueError(f"{name} takes {signature}, its docstring names {list(arguments)}")
    yield f"### `{name}`"
    shown = ", ".join(f"{p.name}: {p.annotation}" for p in signature.parameters.values())
    yield f"`{name}({shown}) -> {signature.return_annotation}`"
    yield text
    if arguments:
        rows = [f"| `{argument}` | {meaning} |" for argument, meaning in arguments.items()]
        yield "\n".join(["| argument | |", "|---|---|", *rows])
    yield "\n".join(["| | |", "|---|---|", *(f"| **{f}** | {stated[f]} |" for f in FACTS)])


def read_docstring(doc: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return a hook's text, its facts and its arguments."""
    doc, _, listed = doc.partition("\nArgs:\n")
    starts = "|".join(FACTS)
    text, *found = re.split(rf"^({starts}): ", doc, flags=re.MULTILINE)
    facts = {key: one_line(value) for key, value in zip(found[::2], found[1::2], strict=True)}
    _, *named = re.split(r"^    (\w+): ", listed, flags=re.MULTILINE)
    arguments = {key: one_line(value) for key, value in zip(named[::2], named[1::2], strict=True)}
    return text.replace("``", "`").strip(), facts, arguments


# --- text -----------------------------------------------------------------------------------------


def one_line(text: str) -> str:
    """Return a paragraph of a docstring as one line of Markdown."""
    return " ".join(text.replace("``", "`").split())


def sentence(text: str) -> str:
    """Return a summary as a sentence."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def joined(parts: Sequence[str]) -> str:
    """Return paragraphs as a page."""
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


if __name__ == "__main__":
    sys.exit(main())
