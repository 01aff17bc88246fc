"""What the documentation shows works: every page's blocks are run in order, as a reader would."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import zstandard
from blocks_kit import INDENTED_COMMAND, LANGUAGES, blocks_of
from warm_kit import server, write_program

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for pattern in ("*.md", "docs/*.md", "whale_*/*.md", "*/*/README.md")
    for page in sorted(ROOT.glob(pattern))
    if ".venv" not in page.parts[len(ROOT.parts)]
]
PUZZLES = ROOT / "whale_domains/chess/src/whale_chess/data/puzzles.csv.zst"
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
LINKED = (
    "constraints.txt",
    "examples",
    "plugins",
    "scripts",
    *(path.name for path in sorted(ROOT.glob("whale_*"))),
)
RUN_ELSEWHERE = {  # their blocks need more than a shell: a namespace, a finished run, wheels
    "docs/python.md": "tests/cross/test_python.py",
    "docs/runs.md": "tests/cross/test_harness_commands.py",
    "examples/jsonl-domain/README.md": "tests/packaging/test_examples.py",
    "examples/policy-gradient/README.md": "tests/packaging/test_examples.py",
    "examples/scheduler/README.md": "tests/packaging/test_examples.py",
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of a venv that sees all that is installed here; what a page installs stays in
    it. ``whale`` and ``whale-run`` begin warm."""
    venv = tmp_path_factory.mktemp("reader")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = venv / "lib" / version / "site-packages"
    (site / "here.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    )
    write_program(venv / "bin" / "whale", "main", site)
    write_program(venv / "bin" / "whale-run", "main_run", site)
    return venv / "bin"


@pytest.fixture
def shell(programs: Path, tmp_path: Path):
    """A function: run a script in a folder that looks like the checkout, and is not."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in LINKED:
        (checkout / name).symlink_to(ROOT / name)
    with zstandard.open(PUZZLES) as puzzles:  # in the place of the file that a page downloads
        (checkout / "lichess_puzzles.csv").write_bytes(puzzles.read())
    control = server(python=str(programs / "python")).fileno()
    environment = {
        **os.environ,
        "WARM_SERVER": str(control),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "OPENAI_API_KEY": "none",  # a plan asks no endpoint
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say: build with what is installed here
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=checkout,
            env=environment,
            pass_fds=[control],
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_blocks_say_what_they_are(page):
    assert not INDENTED_COMMAND.search(page.read_text()), "commands stand in ```sh blocks"
    odd = [f"line {b.line}: {b.language!r}" for b in blocks_of(page) if b.language not in LANGUAGES]
    assert not odd


@pytest.mark.parametrize(
    "page",
    [
        page
        for page, name in zip(PAGES, IDS, strict=True)
        if name not in RUN_ELSEWHERE and any(block.script for block in blocks_of(page))
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_works_from_top_to_bottom(page, shell):
    steps = [f": line {b.line}\n{b.script}" for b in blocks_of(page) if b.script]
    done = shell("set -x\n" + "\n".join(steps))
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.mark.parametrize(("page", "test"), RUN_ELSEWHERE.items())
def test_pages_run_elsewhere_are_run_there(page, test):
    name = Path(page).parent.name if Path(page).name == "README.md" else Path(page).name
    assert name in (ROOT / test).read_text()
