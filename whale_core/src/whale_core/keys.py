"""Identity and randomness: content hashes, draw keys, counter-based uniforms.

There is no generator state anywhere in a run. Every random choice is a function of *named* inputs,
so it does not matter in which order, or how often, choices are made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen


def content_hash(*parts: bytes | str, length: int = 16) -> str:
    """Return a hex digest of ``parts``; each part is length-prefixed, so boundaries count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:length]


def json_hash(value: Any, length: int = 16) -> str:
    """Return a hex digest of a JSON value, independent of key order."""
    return content_hash(json.dumps(value, sort_keys=True, ensure_ascii=False), length=length)


@frozen
class DrawKey:
    """Names one draw of one example. Harnesses are not part of it: all candidates of a phase
    are scored on common random numbers.

    ``purpose`` is one of ``train``, ``score``, ``confirm``, ``select``, ``test``, ``smoke``,
    ``null``, ``try``, ``probe`` (a diagnosis), ``matrix``.
    ``step`` is the global weight step for ``train`` and the phase number otherwise.
    """

    seed: int
    purpose: str
    cycle: int
    step: int
    example_id: str
    draw: int

    def stream(self, call: int) -> bytes:
        """Return the 16-byte key of the random stream for the ``call``-th model call (from 0)."""
        text = json.dumps(
            [
                "draw",
                self.seed,
                self.purpose,
                self.cycle,
                self.step,
                self.example_id,
                self.draw,
                call,
            ]
        )
        return hashlib.sha256(text.encode()).digest()[:16]

    def harness_seed(self, view: Mapping[str, Any]) -> str:
        """Return the seed of the harness's own ``random``, given the public view it works on.

        It leaves out what a harness must not learn: whether this rollout trains, scores, tests or
        gates, and when, and the example's id, which could be found by trying ids.
        """
        return content_hash(json.dumps(["harness", self.seed, json_hash(view), self.draw]))


def generator(*names: str | int) -> np.random.Generator:
    """Return a counter-based generator for a choice named by ``names`` (run seed first)."""
    digest = hashlib.sha256(json.dumps(["choice", *names]).encode()).digest()[:16]
    return stream_generator(digest)


def stream_generator(key: bytes) -> np.random.Generator:
    """Return the Philox generator of a 16-byte stream key."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "big")))


def uniforms(key: bytes, count: int) -> npt.NDArray[np.float64]:
    """Return the first ``count`` uniforms in [0, 1) of a stream: a prefix for any smaller count."""
    return stream_generator(key).random(count)
