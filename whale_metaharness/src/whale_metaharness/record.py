"""Make a recording of the proposals of a run, to be replayed and shipped.

    python -m whale_metaharness.record RUN DEST --author NAME --saw TEXT --label TEXT

Every candidate of the run's archive goes into it, round by round, rejected ones too, but those that
``--leave-out`` names, with the reason that is then kept in their place. What was read
before a round is taken from ``outbox/reads.json`` (path in the workspace to SHA-256) in the round's
folder below ``harnesses/proposals/`` where its author left one; else it is all that the workspace
held and the run kept. ``whale_metaharness.recording_check`` says whether it may be shipped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import cattrs

from whale_core.config.layers import parse
from whale_core.errors import InputError, WhaleError
from whale_core.records import Json
from whale_core.run.archive import ArchiveEntry
from whale_core.run.reader import MANIFEST, StoredRun, find_run
from whale_metaharness.recording import (
    ABOUT,
    LeftOut,
    RecordedCandidate,
    RecordedRound,
    Recording,
    round_folder,
)

READS = "reads.json"


def record_run(
    run: Path,
    folder: Path,
    *,
    author: str,
    saw: str,
    label: str,
    left_out: Mapping[str, str] | None = None,
) -> Recording:
    """Write the proposals of the run folder ``run`` into the new ``folder`` and return the account.

    ``left_out`` gives the reason why a candidate, named as in the run's archive (``h0005``), is not
    to be in it. The folder is written beside and appears when it is whole.

    Raises:
        InputError: ``folder`` exists, the run has proposed nothing, or nothing of a name that is to
            be left out, or a whole round would be.
        RunFolderError: the run cannot be read.
    """
    if folder.exists():
        raise InputError(f"{folder}: there is something already; name a new folder")
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}.", dir=folder.absolute().parent
    ) as part:
        whole = Path(part) / folder.name
        recording = _write(run, whole, (author, saw, label), left_out or {})
        whole.rename(folder)
    return recording


def _write(
    run: Path, folder: Path, words: tuple[str, str, str], left_out: Mapping[str, str]
) -> Recording:
    stored = StoredRun.open(run)
    entries = stored.harnesses()
    ids = {entry.id: entry.harness.id for entry in entries}
    rounds: dict[tuple[int, int], list[ArchiveEntry]] = {}
    for entry in entries:
        if entry.iteration > 1:
            rounds.setdefault((entry.phase, entry.iteration), []).append(entry)
    if not rounds:
        raise InputError(f"{run}: no harness of this run was proposed")
    proposed_ids = {entry.id for proposed in rounds.values() for entry in proposed}
    if unknown := sorted(left_out.keys() - proposed_ids):
        raise InputError(
            f"{run}: proposed no harness {', '.join(unknown)}, so none can be left out"
        )
    account = []
    for number, ((phase, iteration), proposed) in enumerate(sorted(rounds.items()), 1):
        candidates, without = {}, {}
        for index, entry in enumerate(proposed, 1):
            slot = f"candidate-{index:02d}"
            if entry.id in left_out:
                parent = ids.get(entry.parent or "")
                without[slot] = LeftOut(entry.harness.id, parent, left_out[entry.id])
                continue
            _write_slot(round_folder(folder, number) / slot, entry)
            candidates[slot] = RecordedCandidate(entry.harness.id, ids.get(entry.parent or ""))
        if not candidates:
            raise InputError(
                f"{run}: iteration {iteration} of phase {phase} would be left out whole"
            )
        place = run / "harnesses/proposals" / f"phase-{phase:03d}-iteration-{iteration:03d}"
        account.append(RecordedRound(candidates, _reads(place), without))
    manifest = json.loads((run / MANIFEST).read_bytes())
    author, saw, label = words
    recording = Recording(
        domain=manifest["domain"]["name"],
        base_harness=_base_harness(run),
        author=author,
        saw=saw,
        label=label,
        iterations=tuple(account),
    )
    _write_json(folder / ABOUT, cattrs.unstructure(recording))
    return recording


def hashes_of(root: Path, files: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of each of ``files``, paths in the folder ``root``: what ``reads.json``
    holds."""
    return {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in files}


def _write_slot(slot: Path, entry: ArchiveEntry) -> None:
    slot.mkdir(parents=True)
    (slot / "harness.py").write_bytes(entry.source.encode())
    about = {key: getattr(entry, key) for key in ("parent", "axis", "hypothesis", "changes")}
    _write_json(slot / "metadata.json", about)


def _reads(place: Path) -> dict[str, str]:
    path = place / "outbox" / READS
    if path.is_file():
        told: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        return told
    kept = sorted(each for each in place.rglob("*") if each.is_file())
    names = [str(each.relative_to(place)) for each in kept]
    return hashes_of(place, [name for name in names if not name.startswith("outbox/")])


def _base_harness(run: Path) -> str:
    """Return the harness that the run's settings name; nothing for the domain's own."""
    path = run / "config.yaml"
    tree = parse(path.read_text(encoding="utf-8"), str(path))
    return str(tree.get("harness") or "")


def _write_json(path: Path, data: Json) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _reasons(texts: Sequence[str]) -> dict[str, str]:
    """Return the reasons by id. Raises ``InputError`` where one is given twice."""
    reasons: dict[str, str] = {}
    for name, reason in map(_reason, texts):
        if name in reasons:
            raise InputError(f"--leave-out: {name} is named twice")
        reasons[name] = reason
    return reasons


def _reason(text: str) -> tuple[str, str]:
    """Take ``ID=REASON`` apart. Raises ``InputError`` where a part is missing."""
    name, _, reason = text.partition("=")
    if not name.strip() or not reason.strip():
        raise InputError(f"--leave-out {text!r}: write ID=REASON, as in 'h0005=a catalogue edit'")
    return name.strip(), reason.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m whale_metaharness.record", description=__doc__.splitlines()[0]
    )
    parser.add_argument("run", metavar="RUN", help="the run's folder, or its name in runs/")
    parser.add_argument("folder", metavar="DEST", type=Path, help="the new folder")
    parser.add_argument("--author", required=True, help="who or what wrote the proposals")
    parser.add_argument("--saw", required=True, help="what the author could see")
    parser.add_argument("--label", required=True, help="how they came about, in one short phrase")
    parser.add_argument(
        "--leave-out",
        nargs="+",
        action="extend",
        default=[],
        metavar="ID=REASON",
        help="candidates that are not to be in it, and why: 'h0005=the same as catalogue edit x'",
    )
    options = parser.parse_args(arguments)
    try:
        made = record_run(
            find_run(options.run),
            options.folder,
            author=options.author,
            saw=options.saw,
            label=options.label,
            left_out=_reasons(options.leave_out),
        )
    except WhaleError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    candidates = sum(len(each.candidates) for each in made.iterations)
    print(f"{options.folder}: {candidates} candidates in {len(made.iterations)} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
