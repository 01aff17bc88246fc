"""Checkpoints, damaged: one line that names the file; never a part of the weights."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parents[1] / "rsft"))
sys.path.insert(0, str(Path(__file__).parents[1] / "metaharness"))

from metaharness_fakes import h, score_of
from rsft_kit import tiny_llama

from whale_core.errors import InputError, RunFolderError, WhaleError
from whale_core.plugins import Setup
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.archive import Archive
from whale_rsft.config import Config as RsftConfig
from whale_rsft.masters import MOMENTS, STATE_FILE, Masters
from whale_transformers import models, tiny
from whale_transformers.config import Config
from whale_transformers.engine import TransformersEngine
from whale_transformers.weights import load_in_place, weights_hash

CPU = torch.device("cpu")
WEIGHTS = "model.safetensors"
HEADER_LENGTH = struct.Struct("<Q")
Change = Callable[[dict[str, torch.Tensor]], Any]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model's folder, built here."""
    folder = tmp_path_factory.mktemp("model")
    tiny.build(folder)
    return folder


@pytest.fixture(scope="module")
def served(whole: Path) -> Any:
    """A loaded model, and how it looks untouched."""
    return models.load_model(str(whole), torch.float32, CPU)[0]


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the model's folder, to be damaged."""
    return copy_of(whole, tmp_path / "copy")


def copy_of(whole: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    return Path(shutil.copytree(whole, place))


def load_model(folder: Path) -> str | None:
    """Return the weights' hash of the loaded model, or None; the message is checked here."""
    try:
        model, _ = models.load_model(str(folder), torch.float32, CPU)
    except InputError as error:
        check_message(error, folder)
        return None
    assert all(bool(torch.isfinite(p).all()) and not p.is_meta for p in model.parameters())
    return weights_hash(model)


def load_beside(served: Any, folder: Path) -> str | None:
    """The same for a checkpoint of a served model, which a failure leaves alone."""
    before = weights_hash(served)
    try:
        load_in_place(served, folder)
    except InputError as error:
        check_message(error, folder)
        assert weights_hash(served) == before
        return None
    return weights_hash(served)


def check_message(error: WhaleError, folder: Path) -> None:
    message = str(error)
    assert str(folder) in message and "\n" not in message and len(message) < 2000, message


def expected_hash(file: Path, names: list[str]) -> str:
    """Return what the hash must be if every parameter is what the file says."""

    class Parameters:
        def named_parameters(self) -> list[tuple[str, torch.Tensor]]:
            stored = load_file(file)
            return [(name, stored[name].float()) for name in names]

    return weights_hash(Parameters())


# --- weights --------------------------------------------------------------------------------------


def weights_say(folder: Path, said: str, served: Any) -> None:
    for attempt in (
        lambda: models.load_model(str(folder), torch.float32, CPU),
        lambda: load_in_place(served, folder),
    ):
        with pytest.raises(InputError, match=said) as caught:
            attempt()
        check_message(caught.value, folder)


def swap(tensors: dict[str, torch.Tensor], name: str, made: torch.Tensor) -> None:
    tensors[name] = made


CHANGES: dict[str, tuple[Change, str]] = {
    "one is missing": (lambda t: t.pop("model.norm.weight"), "model.norm.weight is missing"),
    "a layer is missing": (
        lambda t: [t.pop(name) for name in list(t) if ".layers.1." in name],
        r"model\.layers\.1\..*\(and 6 more\) is missing",
    ),
    "the head is missing": (lambda t: t.pop("lm_head.weight"), "lm_head.weight is missing"),
    "one too many": (
        lambda t: swap(t, "model.layers.2.mlp.up_proj.weight", torch.ones(128, 64)),
        "hold model.layers.2.mlp.up_proj.weight",
    ),
    "another shape": (
        lambda t: swap(t, "model.norm.weight", torch.ones(63)),
        "model.norm.weight.*shape|shape.*model.norm.weight|cannot load its weights",
    ),
    "whole numbers": (
        lambda t: swap(t, "model.norm.weight", torch.ones(64, dtype=torch.int8)),
        "model.norm.weight is stored as I8",
    ),
    "not a number": (
        lambda t: t["model.layers.0.mlp.up_proj.weight"].__setitem__((3, 5), float("nan")),
        "model.layers.0.mlp.up_proj.weight has values that are not finite",
    ),
    "infinite": (
        lambda t: t["lm_head.weight"].__setitem__((0, 0), float("inf")),
        "lm_head.weight has values that are not finite",
    ),
    "nothing": (lambda t: t.clear(), "missing|layers"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_tensors_that_do_not_fit(folder: Path, served: Any, change: str) -> None:
    damage, said = CHANGES[change]
    tensors = load_file(folder / WEIGHTS)
    damage(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    weights_say(folder, said, served)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 8,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
        HEADER_LENGTH.pack(2) + b"{}",
        HEADER_LENGTH.pack(1 << 40) + b"{}",
        HEADER_LENGTH.pack(5) + b"[[[[[",
        HEADER_LENGTH.pack(60_000) + b"[" * 60_000,
    ],
    ids=range(8),
)
def test_files_that_are_no_weights(folder: Path, served: Any, data: bytes) -> None:
    (folder / WEIGHTS).write_bytes(data)
    weights_say(folder, "incomplete or damaged|missing|tensors", served)


def test_weights_that_are_not_there(folder: Path, served: Any) -> None:
    (folder / WEIGHTS).unlink()
    weights_say(folder, "no safetensors weights there", served)
    (folder / WEIGHTS).mkdir()
    weights_say(folder, "incomplete or damaged", served)


def test_shards(folder: Path, served: Any, whole: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, held in shards.items():
        save_file({n: tensors[n] for n in held}, folder / file, metadata={"format": "pt"})
    places = {name: file for file, held in shards.items() for name in held}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    assert load_model(folder) == load_beside(served, folder) == load_model(whole)
    save_file({n: tensors[n] for n in names}, folder / "b.safetensors", metadata={"format": "pt"})
    weights_say(folder, "is in .* too", served)
    (folder / "b.safetensors").unlink()
    weights_say(folder, "b.safetensors.*incomplete or damaged", served)
    index.write_text("{")
    weights_say(folder, "index.json", served)


@given(length=st.floats(0, 1, exclude_max=True))
@settings(max_examples=30)
def test_a_cut_file(whole: Path, served: Any, length: float) -> None:
    folder = copy_of(whole, whole.parent / "cut")
    data = (whole / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[: int(length * len(data))])
    weights_say(folder, "incomplete or damaged", served)


@given(
    flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=3)
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_flipped_bytes_in_the_header(
    whole: Path, served: Any, flips: list[tuple[int, int]]
) -> None:
    """Refused, or every parameter is what the file now says."""
    folder = copy_of(whole, whole.parent / "flipped")
    data = bytearray((whole / WEIGHTS).read_bytes())
    (length,) = HEADER_LENGTH.unpack(data[:8])
    for place, value in flips:
        data[place % (8 + length)] = value
    (folder / WEIGHTS).write_bytes(data)
    names = [name for name, _ in served.named_parameters()]
    for found in (load_model(folder), load_beside(served, folder)):
        assert found is None or found == expected_hash(folder / WEIGHTS, names)
    load_in_place(served, whole)


# --- the other files of a model -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "line 1: not JSON"),
        (b"{", "line 1: not JSON"),
        (b'{"a": 1,\n "b" 2}', "line 2: not JSON"),
        (b"[1]", "expected a JSON object"),
        (b"\xff\xfe{}", "line 1: not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
    ids=range(6),
)
def test_damaged_json(folder: Path, name: str, data: bytes, said: str) -> None:
    (folder / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}: {said}") as caught:
        models.load_model(str(folder), torch.float32, CPU)
    check_message(caught.value, folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_missing_files(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert load_engine(folder) is not None


def load_engine(folder: Path) -> str | None:
    """Return the message of an engine that refuses the folder; None: it serves it."""
    try:
        engine = TransformersEngine(Config(str(folder), dtype="float32", threads=1), Setup(0))
    except InputError as error:
        check_message(error, folder)
        return str(error)
    asyncio.run(engine.close())
    return None


ODD: list[Any] = [None, -1, 0, 1, 3, 10**12, 1.5, "x", [], {}, True, float("nan")]


def test_odd_values_in_the_configuration(folder: Path, whole: Path) -> None:
    """60 trials in a fixed order: served with the weights as they are, or refused in one line."""
    facts = json.loads((whole / "config.json").read_text())
    draw = random.Random(3)
    refused = 0
    for _ in range(60):
        changed = dict(facts)
        key = draw.choice(sorted(facts))
        if draw.random() < 0.2:
            del changed[key]
        else:
            changed[key] = draw.choice(ODD)
        (folder / "config.json").write_text(json.dumps(changed))
        refused += load_engine(folder) is not None
    assert refused > 20


def test_a_tokenizer_of_another_model(folder: Path) -> None:
    file = folder / "tokenizer.json"
    facts = json.loads(file.read_text())
    facts["model"]["vocab"]["more"] = 5000
    file.write_text(json.dumps(facts))
    assert "tokenizer has 5001 tokens, its embeddings 259" in str(load_engine(folder))
    facts["model"]["type"] = "unknown"
    file.write_text(json.dumps(facts))
    assert load_engine(folder) is not None


def test_a_tokenizer_without_a_template(folder: Path) -> None:
    for file in ("chat_template.jinja", "chat_template.json"):
        (folder / file).unlink(missing_ok=True)
    assert "no chat template" in str(load_engine(folder))
    (folder / "chat_template.jinja").write_text("{% for %}")
    assert load_engine(folder) is not None


@pytest.mark.parametrize("name", ["nul\0", "x" * 300, "~nobody-of-this-name/x", "a/../..", ""])
def test_names_that_are_no_folder(name: str) -> None:
    with pytest.raises(InputError) as caught:
        TransformersEngine(Config(name, dtype="float32", threads=1), Setup(0))
    assert "\n" not in str(caught.value)


# --- optimizer state ------------------------------------------------------------------------------

FILES = [STATE_FILE.format(kind) for kind in ("master", *MOMENTS)]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a tiny model after two updates."""
    folder = tmp_path_factory.mktemp("state")
    masters = Masters(dict(tiny_llama().named_parameters()), RsftConfig())
    for _ in range(2):
        for name, add in masters.sinks().items():
            add(torch.full_like(masters.masters[name], 0.01))
        masters.step()
    masters.write(folder)
    return folder


def read(folder: Path) -> Masters | None:
    try:
        return Masters.read(folder, RsftConfig(), CPU)
    except RunFolderError as error:
        message = str(error)
        assert any(str(folder / name) in message for name in FILES) and "\n" not in message
        return None


def test_the_state_is_read_as_it_was_written(state: Path, tmp_path: Path) -> None:
    found = read(state)
    assert found is not None
    found.write(tmp_path)
    assert all((tmp_path / name).read_bytes() == (state / name).read_bytes() for name in FILES)


@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True))
def test_a_cut_state(state: Path, name: str, length: float) -> None:
    folder = copy_of(state, state.parent / "cut")
    data = (state / name).read_bytes()
    (folder / name).write_bytes(data[: int(length * len(data))])
    assert read(folder) is None


@given(
    name=st.sampled_from(FILES),
    flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_flipped_bytes_in_a_state_s_header(
    state: Path, name: str, flips: list[tuple[int, int]]
) -> None:
    folder = copy_of(state, state.parent / "flipped")
    data = bytearray((state / name).read_bytes())
    (length,) = HEADER_LENGTH.unpack(data[:8])
    for place, value in flips:
        data[place % (8 + length)] = value
    (folder / name).write_bytes(data)
    found = read(folder)
    if found is not None:  # names of masters are held against the model's when they are used
        assert name != FILES[0] or sum(m.numel() for m in found.masters.values()) > 0
        found.write(folder)
        assert load_file(folder / name).keys() == load_file(folder / FILES[0]).keys()


STATE_CHANGES: dict[str, Change] = {
    "one is missing": lambda t: t.pop("model.norm.weight"),
    "one too many": lambda t: swap(t, "other", torch.ones(3)),
    "another shape": lambda t: swap(t, "model.norm.weight", torch.ones(31)),
    "half precision": lambda t: swap(t, "model.norm.weight", torch.ones(32).half()),
    "whole numbers": lambda t: swap(t, "model.norm.weight", torch.ones(32, dtype=torch.int32)),
    "not a number": lambda t: t["model.norm.weight"].__setitem__(0, float("nan")),
    "infinite": lambda t: t["model.norm.weight"].__setitem__(0, float("inf")),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", STATE_CHANGES)
def test_a_state_that_does_not_fit(state: Path, tmp_path: Path, name: str, change: str) -> None:
    folder = copy_of(state, tmp_path / "copy")
    tensors = load_file(folder / name)
    STATE_CHANGES[change](tensors)
    save_file(tensors, folder / name, metadata={"updates": "2"})
    assert read(folder) is None


@pytest.mark.parametrize(
    "metadata", [None, {}, {"updates": "3"}, {"updates": "-2"}, {"updates": ""}]
)
@pytest.mark.parametrize("name", FILES)
def test_counts_that_disagree(
    state: Path, tmp_path: Path, name: str, metadata: dict[str, str] | None
) -> None:
    folder = copy_of(state, tmp_path / "copy")
    save_file(load_file(folder / name), folder / name, metadata=metadata)
    assert read(folder) is None


def test_negative_squares_and_missing_files(state: Path, tmp_path: Path) -> None:
    for name in FILES:
        folder = copy_of(state, tmp_path / "copy")
        (folder / name).unlink()
        assert read(folder) is None
    folder = copy_of(state, tmp_path / "copy")
    squares = load_file(folder / FILES[2])
    squares["model.norm.weight"][0] = -1.0
    save_file(squares, folder / FILES[2], metadata={"updates": "2"})
    assert read(folder) is None


# --- the search's archive -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    made = Archive(folder)
    for number in range(3):
        source = h(f"A = {number}  # é")
        parent = f"h{number - 1:04d}" if number else None
        made.add(ArchiveEntry(f"h{number:04d}", source, 0, 1, 1, parent, "prompt", "é", "A"))
        made.record(f"h{number:04d}", score_of(0.25, f=0.5), cycle=0, phase=1, iteration=number)
    return folder


PARTS = [f"h000{number}/{name}" for number in range(3) for name in ("harness.py", "metadata.json")]


def open_archive(folder: Path) -> Archive | None:
    try:
        return Archive.open(folder)
    except RunFolderError as error:
        message = str(error)
        assert str(folder) in message and "\n" not in message
        return None


@given(
    name=st.sampled_from(PARTS),
    flips=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=3),
    length=st.none() | st.floats(0, 1),
)
def test_any_damage_to_an_entry_is_found(
    archive: Path, name: str, flips: list[tuple[int, int]], length: float | None
) -> None:
    folder = copy_of(archive, archive.parent / "damaged")
    data = bytearray((archive / name).read_bytes())
    for place, value in flips:
        data[place % len(data)] = value
    if length is not None:
        data = data[: int(length * len(data))]
    (folder / name).write_bytes(data)
    found = open_archive(folder)
    assert found is None or found.entries == Archive.open(archive).entries


@pytest.mark.parametrize("name", [*PARTS, "h0000", "h0001"])
def test_a_missing_part_of_the_archive(archive: Path, tmp_path: Path, name: str) -> None:
    folder = copy_of(archive, tmp_path / "copy")
    target = folder / name
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    assert open_archive(folder) is None
    target.symlink_to(target)
    assert open_archive(folder) is None


def test_entries_that_changed_places(archive: Path, tmp_path: Path) -> None:
    folder = copy_of(archive, tmp_path / "copy")
    (folder / "h0000").rename(folder / "x")
    (folder / "h0001").rename(folder / "h0000")
    (folder / "x").rename(folder / "h0001")
    assert open_archive(folder) is None
    with pytest.raises(RunFolderError, match="fewer than the journal's"):
        Archive.restore(tmp_path / "nothing", {"entries": 3, "scores": 3})


def test_an_edited_value_is_found(archive: Path, tmp_path: Path) -> None:
    """Still JSON, still an entry: only the checksum tells."""
    text = (archive / "h0001/metadata.json").read_text()
    for old, new in (
        ('"mean": 0.25', '"mean": 0.75'),
        ('"parent": "h0000"', '"parent": null'),
        ('"axis": "prompt"', '"axis": "parser"'),
        ('"rejection": null', '"rejection": {"gate": "parse", "reason": ""}'),
        ('"number": 1', '"number": 5'),
    ):
        folder = copy_of(archive, tmp_path / "copy")
        assert old in text, old
        (folder / "h0001/metadata.json").write_text(text.replace(old, new))
        with pytest.raises(RunFolderError, match="its checksum does not fit"):
            Archive.open(folder)
