"""A tokenizer that stands in for one that nobody told us: three bytes of text make a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale_core.records import Json

BYTES = 3


class ByteTokenizer:
    """Measures prompts and cuts null models' replies; what a model consumes is never made with it.

    A token holds up to three bytes, so ids are text and back without a table. English has about
    four bytes a token in most models, so prompts are rather over- than underestimated.
    """

    end_tokens: frozenset[int] = frozenset()
    supports_tools = True

    def template(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Json] | None = None
    ) -> str:
        """Return the messages one after the other: the endpoint's own template is not known."""
        turns = "".join(f"{turn['role']}: {turn['content']}\n" for turn in messages)
        return f"{turns}assistant: "

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return a token for every three bytes. There are no special tokens."""
        data = text.encode("utf-8", "replace")
        pieces = (data[start : start + BYTES] for start in range(0, len(data), BYTES))
        # A leading 1 keeps how many bytes there are.
        return [int.from_bytes(b"\x01" + piece) for piece in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``; half a character at its end is left out."""
        data = b"".join(token.to_bytes(BYTES + 1).lstrip(b"\0")[1:] for token in ids if token > 0)
        return data.decode("utf-8", "ignore")
