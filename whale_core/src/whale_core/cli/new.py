"""Write a new plugin package: sources, README and tests that pass at once.

NAME becomes the plugin's and the distribution's name; the package lies in a new folder NAME.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from shlex import quote

EXAMPLES = """\
  whale new scheduler my-scheduler
  whale new domain word-problems --dir ~/plugins
  whale new model-update my-update --json

roles: domain, verifier, model-update, harness-search, scheduler, engine, proposer
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale new``."""
    parser.add_argument("role", metavar="ROLE", help="what the plugin is: one of the roles below")
    parser.add_argument("name", metavar="NAME", help="small letters, digits and '-'")
    parser.add_argument(
        "--dir", type=Path, default=Path(), metavar="DIR", help="where to put the folder NAME"
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def execute(options: argparse.Namespace) -> None:
    """Write the package and say what to do next."""
    from whale_core.cli.text import printable
    from whale_core.new.package import module_name, write_package

    folder = options.dir.expanduser() / options.name
    written = write_package(options.role, options.name, folder)
    if options.json:
        import json

        files = [str(path) for path in written]
        print(json.dumps({"folder": str(folder), "role": options.role, "files": files}, indent=2))
        return
    setting = options.role.replace("-", "_")
    print(f"{printable(str(folder))}:")
    for path in written:
        print(f"  {path}")
    print(
        f"""
next:
  pip install -e {printable(quote(f"{folder}[dev]"))}
  python -m pytest {printable(str(folder))}
  whale plugins
  whale-run --plugin-set smoke {setting}={options.name}{_companion(options.role)}

The plugin is in src/{module_name(options.name)}; its tests say in one line which promise it breaks.
Its README.md says what its role promises and what to change first."""
    )


def _companion(role: str) -> str:
    """Return the setting that a first run with the plugin needs besides itself."""
    return " proposer=YOURS" if role == "harness-search" else ""
