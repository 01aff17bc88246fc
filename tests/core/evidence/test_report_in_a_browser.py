"""The report in a real browser: opened, clicked, read on a phone, printed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_kit import Browser, browser, find_browser
from comparison_kit import comparison
from page_kit import HOSTILE
from stored_run_kit import Told, write_run

from whale_core.evidence.report.comparison_report import comparison_text
from whale_core.evidence.report.run_report import run_page

pytestmark = pytest.mark.slow
LONG = "x" * 4_000  # a line without a space


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no browser here: apt-get install chromium")
    with browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    run = write_run(folder / "run", Told(HOSTILE + LONG))
    path = folder / "report.html"
    path.write_text(run_page(run), encoding="utf-8")
    return path


def test_it_opens_at_once_and_nothing_hostile_runs(chrome: Browser, page: Path) -> None:
    assert chrome.open(page) < 3.0
    assert chrome.value("document.querySelectorAll('h2').length") == 8
    assert chrome.value("document.images.length + document.scripts.length") == 1
    assert chrome.errors == []


def test_a_click_opens_an_episode_and_sorts_a_table(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    seen = "document.querySelector('#episode-0 .turn').checkVisibility()"
    assert chrome.value(seen) is False
    chrome.click("#episode-0 > summary")
    assert chrome.value("document.querySelector('#episode-0').open") is True
    assert chrome.value(seen) is True
    chrome.click("#cost-candidates > summary")
    chrome.click("#cost-candidates thead th")
    first = "document.querySelector('#cost-candidates tbody td').textContent"
    assert chrome.value(first) == "h0002"
    chrome.click("#cost-candidates thead th")
    assert chrome.value(first) == "h0000"
    assert chrome.errors == []


def test_a_link_into_a_closed_part_opens_it(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    chrome.value("location.hash = 'change-h0001'")
    for _ in range(100):
        if chrome.value("document.querySelector('#change-h0001').open"):
            break
    assert chrome.value("document.querySelector('#change-h0001').open") is True


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_scrolls_down_only(chrome: Browser, page: Path, width: int) -> None:
    chrome.open(page, width=width, height=800)
    chrome.value("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert chrome.value("document.documentElement.scrollWidth") <= width
    letters = "parseFloat(getComputedStyle(document.querySelector('svg.chart text')).fontSize)"
    shown = "document.querySelector('svg.chart').getBoundingClientRect().width / 600"
    assert chrome.value(f"{letters} * {shown}") > 8  # pixels on the screen


def test_without_scripts_all_of_it_is_there(chrome: Browser, page: Path) -> None:
    chrome.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chrome.open(page)
        chrome.click("#episode-0 > summary")
        assert chrome.value("document.querySelector('#episode-0').open") is True
    finally:
        chrome.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_the_printed_page_says_what_was_found(chrome: Browser, page: Path, tmp_path: Path) -> None:
    chrome.open(page)
    chrome.pdf(tmp_path / "report.pdf")
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("no pdftotext here: apt-get install poppler-utils")
    subprocess.run([reader, "-layout", "report.pdf", "report.txt"], cwd=tmp_path, check=True)
    words = " ".join((tmp_path / "report.txt").read_text().split())
    assert "+62.5 points" in words
    assert "The pair on the sealed test" in words
    assert "How to repeat it" in words
    assert "75.0 %" in words


def test_thirty_runs_open_in_under_three_seconds_and_fit_a_phone(
    chrome: Browser, tmp_path: Path
) -> None:
    six = ("weight-only", "harness-only", "fst", "whale", "adaptive", "stagewise")
    data = comparison(six, seeds=5, phases=24, text=HOSTILE.encode("utf-8", "ignore").decode())
    (tmp_path / "comparison.json").write_text(json.dumps(data))
    page = tmp_path / "report.html"
    page.write_text(comparison_text(tmp_path / "comparison.json", "html"), encoding="utf-8")
    assert page.stat().st_size < 15_000_000
    assert chrome.open(page) < 3.0
    chrome.click("td a")
    chrome.open(page, width=390, height=800)
    chrome.value("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert chrome.value("document.documentElement.scrollWidth") <= 390
    assert chrome.errors == []
