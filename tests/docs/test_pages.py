"""Pages lead where they say, and list what there is."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
SET_ROW = re.compile(r"^\| `([\w.*-]+)` \|", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    path = ROOT / page
    broken = [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()]
    assert not broken


def test_every_page_can_be_reached_from_the_readme():
    reached, pending = set(), ["README.md"]
    while pending:
        page = pending.pop()
        if page not in reached and page.endswith(".md"):
            reached.add(page)
            above = (ROOT / page).parent
            targets = [above / link for link in LINK.findall((ROOT / page).read_text())]
            pending += [str(each.resolve().relative_to(ROOT)) for each in targets if each.is_file()]
    assert set(PAGES) <= reached


def test_every_plugin_set_is_in_the_table_and_on_the_page_of_its_family():
    readme = (ROOT / "README.md").read_text()
    listed = SET_ROW.findall(readme[readme.index("## Plugin sets") :].partition("\nA set names")[0])
    folder = ROOT / "whale_core" / "src" / "whale_core" / "plugin_sets"
    shipped = {path.stem for path in folder.glob("*.yaml")}
    found = [{name for name in shipped if fnmatchcase(name, row)} for row in listed]
    assert all(found) and set().union(*found) == shipped
    for row in (row for row in listed if row.endswith("*")):
        page = (ROOT / "docs" / f"{row.rstrip('-*')}.md").read_text()
        assert not [n for n in shipped if fnmatchcase(n, row) and f"`{n}`" not in page]
