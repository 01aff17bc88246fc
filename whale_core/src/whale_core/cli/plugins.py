"""List installed plugins and plugin sets; with a NAME, its settings.

The state of a plugin is ok, broken (its code fails, or is not there), conflict (another
distribution registers its role and name too), incompatible (it is made for another whale-core) or
disabled. WHALE_DISABLE_PLUGINS=dist,… leaves distributions out, WHALE_LOAD_ONLY=dist,… all others;
whale-core itself is always loaded.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whale_core.plugins.manager import Plugins
    from whale_core.plugins.registered import Origin, Registered

EXAMPLES = """\
  whale plugins
  whale plugins --json
  whale plugins rsft
  whale plugins domain:toy
  whale plugins default
  WHALE_DISABLE_PLUGINS=whale-chess whale plugins
"""

PIPED_WIDTH = 500
SET_ROLE = "plugin_set"
SECTIONS = {"tracker": "trackers"}  # of settings, where it is not called as the role is
OBSERVER = "observer"  # of a plugin that registers nothing and follows runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale plugins``."""
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="NAME or ROLE:NAME: print the settings of that plugin, or what that plugin set says",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(options: argparse.Namespace) -> None:
    """Print the list, or the settings of one name."""
    from whale_core.plugins.manager import load_plugins

    plugins = load_plugins()
    found: list[dict[str, Any]] = (
        plugin_rows(plugins) if options.name is None else details(plugins, options.name)
    )
    if options.json:
        import json

        print(json.dumps(found, indent=2, ensure_ascii=False))
    elif options.name is None:
        _print_table(found)
    else:
        _print_details(found)


def plugin_rows(plugins: Plugins) -> list[dict[str, Any]]:
    """Return one row per plugin and plugin set: what registers, then what does not.

    ``note`` is the summary of a plugin that works, and cause and remedy for one that does not. A
    plugin that was not loaded has an empty role and name, since it could not say them.
    """
    from whale_core.plugins.manager import KINDS

    rows: list[dict[str, Any]] = []
    for role in KINDS:
        rows += [_registered_row(each) for each in plugins.registrations(role).values()]
    rows += [
        _row(SET_ROLE, name, origin, "ok", found.summary)
        for name, (found, origin) in plugins.sets().items()
    ]
    rows += [
        _row(OBSERVER, origin.entry_point, origin, "ok", summary_of(plugin))
        for origin, plugin in plugins.following
    ]
    rows += [
        _row(role, name, origin, "conflict", "another distribution registers this name too")
        for role, name, origin in plugins.conflicts()
    ]
    for failure in plugins.failures:
        doing = "" if failure.state == "incompatible" else f"{failure.doing}: "
        note = f"{doing}{failure.cause}; {failure.remedy}"
        rows.append(_row("", "", failure.origin, failure.state, note))
    rows += [
        _row("", "", each.origin, "disabled", f"left out by {each.variable}")
        for each in plugins.disabled
    ]
    return rows


def summary_of(plugin: object) -> str:
    """Return the first line of what a plugin says about itself."""
    return (plugin.__doc__ or "follows runs").strip().splitlines()[0]


def details(plugins: Plugins, wanted: str) -> list[dict[str, Any]]:
    """Return what is to be known of each plugin called ``wanted`` (``name`` or ``role:name``).

    Raises:
        InputError: nothing has that name.
        PluginError: the plugin's settings cannot be read.
    """
    from whale_core.errors import InputError
    from whale_core.plugins.manager import KINDS
    from whale_core.plugins.suggest import did_you_mean

    role, colon, name = wanted.rpartition(":")
    if colon and role not in (*KINDS, SET_ROLE):
        raise InputError(f"no role is called '{role}'{did_you_mean(role, (*KINDS, SET_ROLE))}")
    found: list[dict[str, Any]] = [
        _settings(plugins, plugins.get(each, name))
        for each in ([role] if colon and role != SET_ROLE else () if colon else KINDS)
        if colon or plugins.is_registered(each, name)
    ]
    if role == SET_ROLE or (not colon and name in plugins.sets()):
        plugin_set, origin = plugins.plugin_set(name)
        row = _row(SET_ROLE, name, origin, "ok", plugin_set.summary)
        found.append({**row, "text": plugin_set.read()})
    if not found:
        names = {each for role in KINDS for each in plugins.registrations(role)}
        message = f"no plugin or plugin set is called '{name}'"
        message += did_you_mean(name, names | set(plugins.sets()))
        notes = [*map(str, plugins.failures), *plugins.left_out()]
        raise InputError(f"{message} Note: {'; '.join(notes)}" if notes else message)
    return found


def _settings(plugins: Plugins, registered: Registered) -> dict[str, Any]:
    import attrs

    from whale_core.config.reference import class_doc, settings_of
    from whale_core.errors import PluginError
    from whale_core.plugins.registered import Failure

    cls = plugins.config_class(registered)
    try:
        settings = settings_of(cls)
    except (Exception, SystemExit) as error:  # a default of the plugin's own
        failure = Failure.of(registered.origin, f"reading {cls.__qualname__}", error)
        raise PluginError(str(failure)) from error
    row = _registered_row(registered)
    return {**row, "doc": class_doc(cls), "settings": [attrs.asdict(each) for each in settings]}


def _registered_row(registered: Registered) -> dict[str, Any]:
    from whale_core.plugins.references import unusable

    state, note = "ok", registered.registration.summary
    if failure := unusable(registered):
        state, note = failure.state, f"{failure.doing}: {failure.cause}; {failure.remedy}"
    return _row(registered.role, registered.name, registered.origin, state, note)


def _row(role: str, name: str, origin: Origin, state: str, note: str) -> dict[str, Any]:
    return {
        "role": role,
        "name": name,
        "distribution": origin.distribution,
        "version": origin.version,
        "entry_point": origin.entry_point,
        "state": state,
        "note": note,
    }


def _console() -> Any:
    """Return a console that is as wide as it gets when piped."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def _print_table(rows: list[dict[str, Any]]) -> None:
    """Print a heading per role and its plugins below."""
    from itertools import groupby

    from rich.table import Table
    from rich.text import Text

    from whale_core.cli.text import printable

    table = Table.grid(padding=(0, 2))
    for column in ("name", "from", "state", "note"):
        table.add_column(column, no_wrap=column != "note")
    for role, group in groupby(rows, key=lambda row: row["role"]):
        table.add_row(Text(role.replace("_", " ") or "not loaded", style="bold"))
        for row in group:
            origin = f"{row['distribution']} {row['version']}"
            cells = (
                f"  {printable(row['name'])}",
                origin,
                row["state"],
                printable(row["note"], 400),
            )
            table.add_row(*map(Text, cells))
    _console().print(table)


def _print_details(found: list[dict[str, Any]]) -> None:
    """Print each plugin's settings, one a row; a plugin set's text."""
    from rich.table import Table
    from rich.text import Text

    from whale_core.cli.text import printable

    console = _console()
    for number, each in enumerate(found):
        title = f"{each['role'].replace('_', ' ')} {printable(each['name'])}"
        heading = Text(title, style="bold")
        state = "" if each["state"] == "ok" else f", {each['state']}"
        heading.append(f"  ({each['distribution']} {each['version']}{state})  ", style="not bold")
        heading.append(printable(each["note"], 400), style="not bold")
        if number:
            console.print()
        console.print(heading)
        for line in each.get("text", each.get("doc", "")).splitlines():
            margin = " " * (len(line) - len(line.lstrip()))
            console.print(Text(margin + printable(line, 1000)))
        if not each.get("settings"):
            continue
        table = Table.grid(padding=(0, 2))
        for column in ("setting", "type", "default", "meaning"):
            table.add_column(column, no_wrap=column == "setting")
        section = SECTIONS.get(each["role"], each["role"])
        for setting in each["settings"]:
            cells = (
                f"{section}.{setting['key']}",
                setting["type"],
                setting["default"],
                setting["doc"],
            )
            table.add_row(*(Text(printable(cell, 400)) for cell in cells))
        console.print(table)
