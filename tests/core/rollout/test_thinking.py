"""Switching a chat template's thinking on and off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from whale_core.chat_tokenizer import TextTokenizer
from whale_core.config.settings import RolloutSettings
from whale_core.errors import InputError
from whale_core.run.parts import policy_of
from whale_core.testing.engine import CharTokenizer

KNOWS = "{% if enable_thinking %}think{% endif %}"


class Backend:
    """Stands for the Rust tokenizer."""

    def to_str(self) -> str:
        return ""

    @classmethod
    def from_str(cls, text: str) -> Backend:
        return cls()


class HuggingFace:
    """A tokenizer whose template tells what it was given."""

    is_fast = True
    eos_token_id = 0

    def __init__(self, template: str) -> None:
        self.chat_template = template
        self.backend_tokenizer = Backend()
        self.added_tokens_decoder: dict[int, Any] = {}

    def apply_chat_template(self, messages: Any, **given: Any) -> str:
        return str(given.get("enable_thinking"))


def test_thinking_is_switched_for_a_copy_alone() -> None:
    tokenizer = TextTokenizer(HuggingFace(KNOWS), ())
    assert tokenizer.with_thinking(True).template([]) == "True"
    assert tokenizer.with_thinking(False).template([]) == "False"
    assert tokenizer.template([]) == "None"


def test_a_template_without_the_switch_is_refused() -> None:
    with pytest.raises(InputError, match=r"rollout\.thinking: .*no switch enable_thinking"):
        TextTokenizer(HuggingFace("{{ messages }}"), ()).with_thinking(True)
    engine = cast(Any, SimpleNamespace(tokenizer=CharTokenizer()))
    with pytest.raises(InputError, match=r"rollout\.thinking: this engine renders no"):
        policy_of(engine, RolloutSettings(thinking=True))
    policy_of(engine, RolloutSettings())
