"""The fenced code blocks of a Markdown page, and what a reader would do with each.

A block in ``sh`` is run. One in another language that begins with a comment naming a file
(``# acme/plugin.py``) is written there; ``python`` without one is run. ``text`` is output, to be
looked at. What cannot be run here stands under a comment that says why,
``<!-- not run: takes 17 minutes -->``; runs of ``whale`` in it are planned instead, so that their
settings are tried.
"""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
FILE = re.compile(r"(?:#|//|<!--) (?P<path>[\w./-]+\.\w+)(?: -->)?\n")
LANGUAGES = {"sh", "python", "toml", "yaml", "json", "text"}
RUN = re.compile(r"whale[- ]run ")
INDENTED_COMMAND = re.compile(r"^    (?:whale|whale-run|pip|python3?|make|bash) ", re.MULTILINE)


@frozen
class Block:
    """One block: where it stands, its language, why it is not run (or ""), and its text."""

    page: Path
    line: int
    language: str
    why_not: str
    text: str

    @property
    def file(self) -> str | None:
        """The path of the file that the block is to be saved as."""
        named = FILE.match(self.text)
        return named["path"] if named and self.language != "sh" else None

    @property
    def script(self) -> str:
        """The block as lines of a shell script that does what the reader would do."""
        if self.why_not:
            return self._plans if self.language == "sh" else ""
        if self.file is not None:
            return (
                f"mkdir -p \"$(dirname '{self.file}')\"\n"
                f"cat > '{self.file}' <<'END-OF-BLOCK'\n{self.text}END-OF-BLOCK\n"
            )
        if self.language == "python":
            return f"python - <<'END-OF-BLOCK'\n{self.text}END-OF-BLOCK\n"
        return self.text if self.language == "sh" else ""

    @property
    def _plans(self) -> str:
        lines = self.text.replace("\\\n", " ").splitlines()
        runs = [RUN.sub("whale plan --no-calibration ", line) for line in lines if RUN.match(line)]
        return "".join(f"{run}\n" for run in runs)


def blocks_of(page: Path) -> list[Block]:
    """Return the page's blocks in order."""
    text = page.read_text()
    return [
        Block(
            page=page,
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            why_not=found["why"] or "",
            text=found["text"],
        )
        for found in FENCE.finditer(text)
    ]
