"""Making an index folder: ``whale-searchqa index``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import asdict, evolve

from whale_core.errors import InputError
from whale_searchqa.retrieval import bm25
from whale_searchqa.retrieval.folder import (
    MANIFEST,
    Manifest,
    Passages,
    finish,
    read_manifest,
    versions,
    working_folder,
    write_passages,
)

Progress = Callable[[str, int, int], None]  # what is being done, done so far, of how many (0: ?)


def make_bm25(corpus: Path, out: Path, progress: Progress) -> Manifest:
    """Index a corpus file by its words. A broken-off attempt is begun again."""

    def build(part: Path) -> None:
        shutil.rmtree(part / "bm25", ignore_errors=True)
        passages = Passages(part)
        total = len(passages)
        model = bm25.index_words(passages, lambda done: progress("counting words", done, total))
        progress("computing scores", total, total)
        bm25.save_index(model, part / "bm25")

    return make(corpus, out, "bm25", dict(bm25.SETTINGS), ("bm25s", "numpy"), build, progress)


def make_dense(
    corpus: Path, out: Path, encoder: Any, factory: str, batch: int, progress: Progress
) -> Manifest:
    """Index a corpus file by the vectors of ``encoder`` (an ``Encoder``), ``factory`` being
    ``flat``, ``ivf`` or ``hnsw``. A broken-off attempt goes on with the shard it was at."""
    from whale_searchqa.retrieval import dense

    def build(part: Path) -> None:
        if not (part / dense.INDEX).exists():
            dense.encode_passages(Passages(part), encoder, part, batch, progress)
            dense.write_index(part, factory, progress)
        shutil.rmtree(part / dense.SHARDS, ignore_errors=True)

    settings = {"factory": factory, "batch": batch, **encoder.facts()}
    names = ("faiss-cpu", "faiss-gpu", "torch", "transformers", "numpy")
    return make(corpus, out, "dense", settings, names, build, progress)


def make(
    corpus: Path,
    out: Path,
    kind: str,
    settings: dict[str, Any],
    packages: tuple[str, ...],
    build: Callable[[Path], None],
    progress: Progress,
) -> Manifest:
    """Make ``out`` from a corpus file, or find that it is there already.

    Raises:
        InputError: the corpus cannot be read, ``out`` (or what a broken-off attempt left of it) is
            something else.
    """
    if out.exists():
        if not (out / MANIFEST).is_file():
            raise InputError(f"{out}: is there and is no index; choose another --out or remove it")
        there = read_manifest(out)
        if (there.kind, dict(there.settings)) != (kind, settings):
            raise InputError(f"{out}: another index is there; choose another --out or remove it")
    with working_folder(out) as part:
        name, count = write_passages(
            corpus, part, lambda done: progress("reading passages", done, 0)
        )
        wanted = Manifest(kind, name, count, settings, versions(*packages))
        if out.exists():
            shutil.rmtree(part)
            if there.corpus != name:
                raise InputError(
                    f"{out}: the index of another corpus is there; choose another --out"
                )
            return there
        _continue(part, wanted)
        build(part)
        made = evolve(wanted, complete=True)
        made.write(part)
        finish(part, out)
    return made


def _continue(part: Path, wanted: Manifest) -> None:
    """Begin in ``part``, or go on there if what is begun is what is wanted."""
    path = part / MANIFEST
    if path.exists():
        begun = read_manifest(part, complete=False)
        now = asdict(evolve(wanted, complete=begun.complete))
        if differ := [key for key, value in asdict(begun).items() if value != now[key]]:
            raise InputError(
                f"{part}: begun with another {', '.join(differ)}; remove it or choose another --out"
            )
    wanted.write(part)
