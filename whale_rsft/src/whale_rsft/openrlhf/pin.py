"""Which OpenRLHF the adapter is written for: its private names change from version to version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from whale_core.errors import InputError

OPENRLHF = "0.11.2"


def check_installed() -> None:
    """Check that exactly the OpenRLHF that the adapter is written for is installed.

    Raises:
        InputError: it is another one, or there is none.
    """
    try:
        found = version("openrlhf")
    except PackageNotFoundError:
        found = ""
    if found != OPENRLHF:
        raise InputError(
            f"the trainer openrlhf needs openrlhf {OPENRLHF} exactly, "
            f"{f'{found} is' if found else 'none is'} installed: "
            "pip install 'whale-rsft[openrlhf]' in an environment of its own; beside vLLM >= 0.32 "
            f"pip install --no-deps openrlhf=={OPENRLHF} and what docs/cluster.md names"
        )
