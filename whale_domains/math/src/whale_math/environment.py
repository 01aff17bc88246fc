"""One episode: the problem, and the tool ``python``."""

from __future__ import annotations

import json
from collections.abc import Mapping

from whale_core.records import Example, Json
from whale_core.roles import Tool
from whale_math.python.result import Runner

PYTHON = Tool(
    name="python",
    description="Run a Python program that the model wrote. Nothing is kept from one call to the "
    "next. Returns stdout, stderr, exit_status (null unless it finished) and status.",
    parameters={
        "code": "str, exactly as the model wrote it",
        "show_last": "bool (false): print the value of a last line that is an expression",
        "quoted": "bool (false): code is the inside of a JSON string, as tool calls have it",
    },
    sampled=("code",),
)
MOST_CODE = 20_000  # characters


class MathEnvironment:
    """An episode of one problem."""

    def __init__(self, example: Example, runner: Runner) -> None:
        """Take what is asked, and leave the answer outside."""
        self._problem = example.content["problem"]
        self._runner = runner
        self._statuses: list[str] = []

    def view(self) -> Mapping[str, Json]:
        """Return what a harness sees: the problem's text."""
        return {"problem": self._problem}

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """Run ``arguments["code"]``; raise ``ValueError`` for arguments of another form."""
        if name != PYTHON.name:
            raise ValueError(f"there is no tool {name!r}; the only tool is 'python'")
        if "code" not in arguments or not set(arguments) <= set(PYTHON.parameters):
            raise ValueError("python takes code, and may take show_last and quoted")
        code = arguments["code"]
        if not isinstance(code, str) or len(code) > MOST_CODE:
            raise ValueError(f"code must be a text of at most {MOST_CODE} characters")
        show_last, quoted = (arguments.get(name, False) for name in ("show_last", "quoted"))
        if not (isinstance(show_last, bool) and isinstance(quoted, bool)):
            raise ValueError("show_last and quoted must be true or false")
        result = await self._runner.run(_unquoted(code) if quoted else code, show_last)
        self._statuses.append(result.status)
        return result.told()

    def record(self) -> Mapping[str, Json]:
        """Return how each program ended. The answer is judged, not the tool's use."""
        return {"python": list(self._statuses)}


def _unquoted(code: str) -> str:
    try:
        text = json.loads(f'"{code}"', strict=False)
    except ValueError:
        text = None
    if not isinstance(text, str):
        raise ValueError("code is not the inside of a JSON string, as quoted says")
    return text.encode("utf-8", "replace").decode()
