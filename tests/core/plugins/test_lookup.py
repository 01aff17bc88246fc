"""Looking at code without importing it: what looks whole, and where doubt remains."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from whale_core.plugins.lookup import looks_whole

FILES = {
    "__init__.py": "raise MemoryError('the package was imported')\n",
    "whole.py": "import json\nfrom . import other\n\nclass Part: pass\n\nalias = Part\n",
    "renamed.py": "from json import JSONDecoder as Part\n",
    "crooked.py": "class Part:\n  def f(self:\n",
    "outside.py": "class Part: pass\n\nreturn 3\n",
    "dynamic.py": "globals()['Part'] = int\n",
    "needy.py": "import absent_library.nn\n\nclass Part: pass\n",
    "careful.py": "try:\n    import absent_library\nexcept ImportError: pass\n\nclass Part: pass\n",
    "encoded.py": "# coding: latin-1\nclass Part:\n    text = 'é'\n",
    "deep/__init__.py": "import absent_library\n",
    "deep/whole.py": "class Part: pass\n",
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        path = tmp_path / "acme_looked_at" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(text.encode("latin-1"))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("module", "whole"),
    [
        ("whole", True),
        ("renamed", True),
        ("careful", True),
        ("encoded", True),
        ("crooked", False),
        ("outside", False),
        ("dynamic", False),
        ("needy", False),
        ("absent", False),
        ("whole.inner", False),
        ("deep.whole", False),
    ],
)
def test_code_is_judged_from_its_source(module: str, whole: bool) -> None:
    assert looks_whole(f"acme_looked_at.{module}:Part") == whole
    assert not looks_whole(f"acme_looked_at.{module}:Other")
    assert "acme_looked_at" not in sys.modules


def test_what_is_no_source_is_not_judged() -> None:
    assert looks_whole("math:anything")  # built in
    assert looks_whole("_decimal:anything")  # compiled


@pytest.mark.parametrize("reference", ["", ":", "acme_looked_at", "acme..x:Part", ".x:Part"])
def test_a_reference_that_is_none_is_not_whole(reference: str) -> None:
    assert not looks_whole(reference)
