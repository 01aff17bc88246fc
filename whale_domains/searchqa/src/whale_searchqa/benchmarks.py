"""The seven published benchmarks, as FlashRAG has them: from the hub or from a folder.

Weights are trained on questions of NQ and HotpotQA; harnesses are scored on 200 of HotpotQA and 56
of NQ; the test has 100 of each benchmark. Which questions the publication drew is not known: here
the split seed draws them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from whale_core.errors import InputError
from whale_searchqa.config import HUB
from whale_searchqa.questions import Loaded, parse
from whale_searchqa.splits import Pool, apportioned

REPOSITORY = "RUC-NLPIR/FlashRAG_datasets"
TESTED = {  # benchmark: the part of it that tests
    "nq": "test",
    "triviaqa": "test",
    "popqa": "test",
    "hotpotqa": "dev",
    "2wikimultihopqa": "dev",
    "musique": "dev",
    "bamboogle": "test",
}
HARNESS_SHARES = {"hotpotqa": 200, "nq": 56}


def pools(
    place: str, revision: str, sizes: Mapping[str, int]
) -> tuple[dict[str, list[Pool]], tuple[str, ...]]:
    """Return where each split takes its questions from, how many of each benchmark, and notes.

    ``weight`` takes from NQ and HotpotQA in proportion to their size, ``selection`` as ``harness``.

    Raises:
        InputError: a file is missing or lacks a column, or `datasets` is not installed.
    """
    training = {name: _read(place, revision, name, "train") for name in HARNESS_SHARES}
    testing = {name: _read(place, revision, name, part) for name, part in TESTED.items()}
    shares = {
        "weight": {name: len(found.questions) for name, found in training.items()},
        "harness": HARNESS_SHARES,
        "selection": HARNESS_SHARES,
        "test": dict.fromkeys(TESTED, 1),
    }
    made = {
        split: [
            Pool((testing if split == "test" else training)[name].questions, count)
            for name, count in apportioned(sizes[split], share).items()
        ]
        for split, share in shares.items()
    }
    read = (*training.values(), *testing.values())
    return made, tuple(note for each in read for note in each.notes)


def _read(place: str, revision: str, name: str, part: str) -> Loaded:
    """Read one file of the repository, or of a folder that is a copy of it."""
    file = f"{name}/{part}.jsonl"
    at = f"{REPOSITORY}: {file}" if place == HUB else str(Path(place) / file)
    try:
        from datasets import load_dataset
    except ImportError:
        raise InputError(
            "domain.benchmarks needs the package datasets: pip install 'whale-searchqa[data]'"
        ) from None
    if place != HUB and not Path(at).is_file():
        raise InputError(f"domain.benchmarks={place}: there is no {file}; FlashRAG has it")
    pinned = {"revision": revision} if place == HUB else {}
    try:
        rows = load_dataset(
            REPOSITORY if place == HUB else place, data_files=file, split="train", **pinned
        )
    except Exception as error:  # of many libraries: the hub's, fsspec's, pyarrow's
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"{at}: cannot be loaded ({reason})") from error
    kept = rows.select_columns([each for each in rows.column_names if each != "metadata"])
    return parse(enumerate(kept, 1), at, name)
