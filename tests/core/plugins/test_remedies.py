"""What an error message advises, from the metadata of the distribution that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale_core.plugins.remedies import remedy_for

METADATA = """\
Metadata-Version: 2.1
Name: acme-remedy
Version: 1.0
Provides-Extra: serve
Provides-Extra: gpu
Provides-Extra: one
Provides-Extra: two
Requires-Dist: absent-base>=2
Requires-Dist: absent-serving>=1; extra == 'serve'
Requires-Dist: pyabsent-gpu; platform_system == 'Linux' and extra == 'gpu'
Requires-Dist: absent-both; extra == 'one' or extra == 'two'
Requires-Dist: absent-elsewhere; platform_system == 'Plan9'
"""


@pytest.fixture(autouse=True)
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "acme_remedy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(tmp_path)


def missing(name: str | None) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (missing("absent_serving.api"), "pip install 'acme-remedy[serve]'"),
        (missing("absent_gpu"), "pip install 'acme-remedy[gpu]'"),
        (missing("absent_both"), "pip install 'acme-remedy[one]'"),
        (missing("absent_base"), "pip install 'absent-base>=2'"),
        (
            missing("absent_elsewhere"),
            "install what provides 'absent_elsewhere', or uninstall acme-remedy",
        ),
        (missing("nobodys"), "install what provides 'nobodys', or uninstall acme-remedy"),
        (missing("json.absent"), "upgrade or uninstall acme-remedy"),
        (missing(None), "upgrade or uninstall acme-remedy"),
        (ImportError("cannot import name 'x'"), "upgrade or uninstall acme-remedy"),
    ],
)
def test_the_remedy_fits_the_error(error: Exception, remedy: str) -> None:
    assert remedy_for("acme-remedy", error) == remedy


def test_an_unknown_distribution_gets_the_general_remedy() -> None:
    told = "install what provides 'absent_base', or uninstall acme-unknown"
    assert remedy_for("acme-unknown", missing("absent_base")) == told
