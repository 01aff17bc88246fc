"""From an index folder to a retriever."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from whale_core.errors import InputError
from whale_searchqa.retrieval.bm25 import SETTINGS, BM25Retriever
from whale_searchqa.retrieval.folder import MAKE, open_passages, read_manifest
from whale_searchqa.retrieval.retriever import Retriever


def open_index(
    folder: Path, kind: str | None = None, encoder: str = "", device: str = "cpu"
) -> Retriever:
    """Return the retriever of an index folder.

    Raises:
        InputError: it is no index, incomplete, of another kind than ``kind``, was made by other
            rules than these, or does not fit the encoder.
    """
    manifest = read_manifest(folder)
    if kind is not None and manifest.kind != kind:
        raise InputError(f"{folder}: an index of kind {manifest.kind}, not {kind}")
    if encoder and manifest.kind != "dense":
        raise InputError(f"{folder}: an index of kind {manifest.kind}, which takes no encoder")
    passages = open_passages(folder, manifest)
    if manifest.kind == "dense":
        needs("dense", "faiss", "torch", "transformers")
        from whale_searchqa.retrieval.dense import DenseRetriever

        return DenseRetriever.open(folder, manifest, passages, encoder, device)
    if manifest.kind != "bm25" or dict(manifest.settings) != dict(SETTINGS):
        raise InputError(
            f"{folder}: made with other settings ({manifest.kind}, {dict(manifest.settings)}) than "
            f"this version's ({dict(SETTINGS)}); {MAKE}"
        )
    try:
        return BM25Retriever.mapped(passages, folder / "bm25", manifest.corpus)
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(f"{folder}: a damaged index ({error}); remove it and {MAKE}") from error


def needs(extra: str, *modules: str) -> None:
    """Raise ``InputError`` if a module is missing that the package's ``extra`` installs."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise InputError(
            f"the module {missing[0]} is not installed: pip install 'whale-searchqa[{extra}]'"
        )
