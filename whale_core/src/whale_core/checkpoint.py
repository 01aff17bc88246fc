"""The content hash of a checkpoint folder, read from its safetensors files: no model, no torch.

Engines that hold a module hash its parameters; an engine whose weights live in another process
hashes the folder that they came from. Both get the same id for the same numbers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from attrs import frozen

from whale_core.errors import InputError
from whale_core.records import Json

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
# As safetensors writes them, and as torch names them.
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_ARRAYS: Mapping[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
OLD_BUFFERS = (r"rotary_emb\.inv_freq$", r"position_ids$")  # in files of older versions
TIED = ("lm_head.weight", "embed_tokens.weight")  # the first is left out where both are one
MOST_HEADER = 100 << 20  # bytes; safetensors itself takes no longer one


@frozen
class Tensor:
    """Where a tensor lies in a file."""

    file: Path
    dtype: str  # as safetensors writes it
    shape: tuple[int, ...]
    start: int  # bytes from the beginning of the file
    end: int


def checkpoint_hash(folder: Path, dtype: str | None = None) -> str:
    """Return 16 hex digits over a folder's parameters: name, dtype, shape and bytes, in name order.

    ``dtype`` is what they are served in (``float32``, ``bfloat16``, ``float16``; None: as they are
    stored): numbers are rounded to it as a loader would, to the nearest, ties to even. The hash is
    that of a module's parameters after loading: tied embeddings appear once.

    Raises:
        InputError: there are no safetensors weights, a file is damaged or cut off, a parameter is
            not stored as plain floating-point numbers, or has a value that is not finite.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(parameters(folder).items()):
        data, kind = _numbers(name, tensor, dtype)
        head = f"{name} torch.{kind} {tensor.shape}".encode()
        digest.update(len(head).to_bytes(8, "big"))
        digest.update(head)
        digest.update(data.nbytes.to_bytes(8, "big"))
        digest.update(data.data)
    return digest.hexdigest()[:16]


def parameters(folder: Path) -> dict[str, Tensor]:
    """Return the parameters that a folder's files hold, by name.

    Left out are buffers that older versions stored, and an output layer that is tied to the input's
    embeddings, where the folder's ``config.json`` says so (where it says nothing, as it may of
    models that tie by default, a stored one counts as a parameter). Raise ``InputError`` as
    ``checkpoint_hash`` does.
    """
    found: dict[str, Tensor] = {}
    for file in weight_files(folder):
        for name, tensor in _header(file).items():
            if name in found:
                raise InputError(f"{file}: tensor {name} is in {found[name].file} too")
            found[name] = tensor
    found = {n: t for n, t in found.items() if not any(re.search(p, n) for p in OLD_BUFFERS)}
    output, embeddings = TIED
    if output in found and any(n.endswith(embeddings) for n in found) and _tied(folder):
        del found[output]
    return found


def weight_files(folder: Path) -> list[Path]:
    """Return the files of a folder's weights: those of the index, or the one, or all there are.

    Raise ``InputError`` if there are none, or the index cannot be read.
    """
    index = folder / INDEX
    if index.is_file():
        try:
            names = set(json.loads(index.read_bytes())["weight_map"].values())
            files = sorted(folder / name for name in names)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise unreadable(index, error) from error
    elif (folder / WHOLE).is_file():
        files = [folder / WHOLE]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{folder}: no safetensors weights there")
    return files


def unreadable(file: Path, error: Exception) -> InputError:
    """Return the error that a file of weights is incomplete or damaged."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"{file}: cannot be read, it is incomplete or damaged ({reason})")


def _tied(folder: Path) -> bool:
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise unreadable(folder / "config.json", error) from error
    return isinstance(config, dict) and config.get("tie_word_embeddings") is True


def _header(file: Path) -> dict[str, Tensor]:
    """Return where the tensors of a safetensors file lie: eight bytes of length, a JSON header that
    gives offsets into what follows, and that."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 0 < length <= min(MOST_HEADER, size - 8):
                raise ValueError("no safetensors header")
            header = json.loads(stream.read(length))
            return dict(_entries(file, header, 8 + length, size))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(file, error) from error


def _entries(file: Path, header: Json, first: int, size: int) -> Iterable[tuple[str, Tensor]]:
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = (first + int(offset) for offset in entry["data_offsets"])
        shape = tuple(int(side) for side in entry["shape"])
        if not first <= start <= end <= size:
            raise ValueError(f"tensor {name} lies outside the file")
        yield name, Tensor(file, str(entry["dtype"]), shape, start, end)


def _numbers(name: str, tensor: Tensor, dtype: str | None) -> tuple[npt.NDArray[np.generic], str]:
    """Return a parameter's numbers as they are served, flat, and the name of their dtype.

    ``bfloat16`` comes as its 16 bits: numpy has no such type.
    """
    if tensor.dtype not in DTYPES:
        raise InputError(
            f"{tensor.file}: parameter {name} is stored as {tensor.dtype}, "
            f"only {', '.join(DTYPES)} are read"
        )
    kind = np.dtype(_ARRAYS[tensor.dtype])
    count = int(np.prod(tensor.shape, dtype=np.int64))
    if count * kind.itemsize != tensor.end - tensor.start:
        raise InputError(f"{tensor.file}: tensor {name} has not the bytes of its shape")
    if count == 0:
        return np.empty(0, kind), dtype or DTYPES[tensor.dtype]
    stored = np.memmap(tensor.file, kind, "r", tensor.start, (count,))
    if not _finite(stored, tensor.dtype):
        raise InputError(
            f"{tensor.file}: parameter {name} has values that are not finite (NaN or infinite): "
            "the weights are damaged, or training diverged"
        )
    return _served(stored, DTYPES[tensor.dtype], dtype), dtype or DTYPES[tensor.dtype]


def _finite(stored: npt.NDArray[np.generic], dtype: str) -> bool:
    if dtype == "BF16":
        exponent = np.uint16(0x7F80)  # all of its bits set: infinite or not a number
        return not bool(((stored.view(np.uint16) & exponent) == exponent).any())
    return bool(np.isfinite(stored).all())


def _served(
    stored: npt.NDArray[np.generic], have: str, want: str | None
) -> npt.NDArray[np.generic]:
    if want is None or want == have:
        return stored
    exact = stored
    if have == "bfloat16":
        exact = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if want != "bfloat16":
        return exact.astype(np.dtype(want).newbyteorder("<"))
    bits = exact.astype("<f4").view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + even) >> np.uint32(16)).astype("<u2")
