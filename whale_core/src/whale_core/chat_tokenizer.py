"""The four tokenizer primitives of the core, over a fast Hugging Face tokenizer.

For engines that serve Hugging Face models. The tokenizer is handed in: nothing is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, cast

from whale_core.errors import InputError
from whale_core.records import Json

END_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>")


class TextTokenizer:
    """Chat template, encoding and decoding. ``end_tokens`` end a turn; tests may empty it."""

    def __init__(self, hugging_face: Any, generation_ends: Iterable[int]) -> None:
        """Wrap a loaded tokenizer; ``generation_ends`` are the generation config's end tokens."""
        if not getattr(hugging_face, "is_fast", False):
            raise InputError(
                "the model has no fast tokenizer (tokenizer.json); it cannot be served"
            )
        if not hugging_face.chat_template:
            raise InputError("the model's tokenizer has no chat template; it cannot be served")
        self.hugging_face = hugging_face
        self._trusted: Any = hugging_face.backend_tokenizer
        self._untrusted: Any = type(self._trusted).from_str(self._trusted.to_str())
        self._untrusted.encode_special_tokens = True
        known = {
            index
            for index, token in hugging_face.added_tokens_decoder.items()
            if token.special and token.content in END_OF_TURN
        }
        ends = {*generation_ends, hugging_face.eos_token_id, *known}
        self.end_tokens: frozenset[int] = frozenset(end for end in ends if end is not None)
        self.supports_tools: bool = "tools" in str(hugging_face.chat_template)
        self._switches: dict[str, bool] = {}

    def with_thinking(self, thinking: bool) -> TextTokenizer:
        """Return this tokenizer with the template's thinking on or off.

        Raises:
            InputError: the template does not know `enable_thinking`.
        """
        if "enable_thinking" not in str(self.hugging_face.chat_template):
            raise InputError(
                "rollout.thinking: the model's chat template has no switch enable_thinking; leave "
                "it null"
            )
        switched = copy(self)
        switched._switches = {"enable_thinking": thinking}
        return switched

    def template(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Json] | None = None
    ) -> str:
        """Return the chat template's text for ``messages``, generation prompt included."""
        if tools and not self.supports_tools:
            raise InputError("the model's chat template does not support tools=")
        text = self.hugging_face.apply_chat_template(
            [dict(message) for message in messages],
            tools=list(tools) if tools else None,
            tokenize=False,
            add_generation_prompt=True,
            **self._switches,
        )
        return cast(str, text)

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Tokenise without adding tokens; ``special=False`` splits special-token strings."""
        backend = self._trusted if special else self._untrusted
        return cast(list[int], backend.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, special tokens skipped."""
        return cast(str, self._trusted.decode(ids, skip_special_tokens=True))
