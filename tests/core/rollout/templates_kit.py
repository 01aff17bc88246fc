"""Chat templates in the styles of published models, over a small byte-level tokenizer.

Written for these tests: they do with messages what the published ones do, and no more. What counts
here: Qwen3 drops the thinking of turns before the last question, and shows none by an empty block
in the generation prompt alone; Qwen3.5 opens the block in the generation prompt and keeps one in
every turn after the last question; Llama 3 trims contents, writes tool results as JSON strings
under the role ``ipython`` and tools into the first user message; Gemma 3 has no system role and
wants roles to alternate; SmolLM2 adds a system message where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from whale_core.chat_tokenizer import TextTokenizer
from whale_core.records import Json, Message

CHATML = """
{%- macro turn(role, content) %}{{ '<|im_start|>' + role + '\\n' + content + '<|im_end|>\\n' }}
{%- endmacro %}
"""

QWEN = (
    CHATML
    + """
{%- set opening = messages[0].content if messages[0].role == 'system' else '' %}
{%- if tools %}
    {%- set listed = tools | map('tojson') | join('\\n') %}
    {%- set opening = (opening + '\\n\\n# Tools\\n' + listed) | trim %}
{%- endif %}
{%- if opening or messages[0].role == 'system' %}{{ turn('system', opening) }}{% endif %}
{%- set last = namespace(question=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' and '<tool_response>' not in message.content %}
        {%- set last.question = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- if last.question < 0 and QWEN35 %}{{ raise_exception('there is no user message') }}{% endif %}
{%- for message in messages %}
    {%- set content = message.content | trim if QWEN35 else message.content %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}
        {%- endif %}
    {%- elif message.role == 'assistant' %}
        {%- set thought, said = '', content %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n') %}
            {%- set thought = thought.split('<think>')[-1].lstrip('\\n') %}
            {%- set said = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > last.question and (QWEN35 or loop.last or thought) %}
            {%- set said = '<think>\\n' + thought.strip() + '\\n</think>\\n\\n' + said %}
        {%- endif %}
        {{- turn('assistant', said) }}
    {%- elif not (loop.first and message.role == 'system') %}
        {{- turn(message.role, content) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if not THINKING %}{{ '<think>\\n\\n</think>\\n\\n' }}
    {%- elif QWEN35 %}{{ '<think>\\n' }}{% endif %}
{%- endif %}
"""
)

SMOLLM2 = (
    CHATML
    + """
{%- if messages[0].role != 'system' %}{{ turn('system', 'You are a small assistant.') }}{% endif %}
{%- for message in messages %}{{ turn(message.role, message.content) }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
)

LLAMA3 = """
{%- macro head(role) %}{{ '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' }}
{%- endmacro %}
{%- macro turn(role, content) %}{{ head(role) + content + '<|eot_id|>' }}{% endmacro %}
{{- '<|begin_of_text|>' }}
{%- set system, rest = '', messages %}
{%- if messages[0].role == 'system' %}
    {%- set system, rest = messages[0].content | trim, messages[1:] %}
{%- endif %}
{{- turn('system', ('Environment: ipython\\n' if tools else '') + 'Date: today\\n\\n' + system) }}
{%- for message in rest %}
    {%- if message.role in ('tool', 'ipython') %}{{ turn('ipython', message.content | tojson) }}
    {%- elif tools and loop.first and message.role == 'user' %}
        {{- turn('user', (tools | tojson) + '\\n\\n' + message.content | trim) }}
    {%- elif tools and loop.first %}{{ raise_exception('tools go into the first user message') }}
    {%- else %}{{ turn(message.role, message.content | trim) }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ head('assistant') }}{% endif %}
"""

GEMMA3 = """
{{- '<bos>' }}
{%- set before, rest = '', messages %}
{%- if messages[0].role == 'system' %}
    {%- set before, rest = messages[0].content + '\\n\\n', messages[1:] %}
{%- endif %}
{%- for message in rest %}
    {%- if message.role != ('assistant' if loop.index0 % 2 else 'user') %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant') }}
    {%- endif %}
    {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' }}
    {{- (before if loop.first else '') + message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""


def qwen(newer: bool, thinking: bool) -> str:
    """Return the Qwen3 (``newer``: Qwen3.5) template, its thinking switched on or off."""
    said = {True: "true", False: "false"}
    return f"{{%- set QWEN35, THINKING = {said[newer]}, {said[thinking]} %}}{QWEN}"


STYLES = {
    "qwen3": (qwen(False, True), "<|im_end|>"),
    "qwen3-no-thinking": (qwen(False, False), "<|im_end|>"),
    "qwen3.5": (qwen(True, True), "<|im_end|>"),
    "qwen3.5-no-thinking": (qwen(True, False), "<|im_end|>"),
    "llama3": (LLAMA3, "<|eot_id|>"),
    "gemma3": (GEMMA3, "<end_of_turn>"),
    "smollm2": (SMOLLM2, "<|im_end|>"),
}
"""By style: the template and the token that ends a turn."""

SPECIAL = (
    *("<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>"),
    *("<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
)
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")  # tokens, but not special ones
MERGES = [("Ċ", "Ċ"), ("a", "b"), ("ab", "c"), ("o", "k")]  # so that a text has several spellings


@cache
def backend() -> Tokenizer:
    """Return a byte-level tokenizer with a few merges and the tokens of all styles."""
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in MERGES)]
    made = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=MERGES))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    made.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    return made


@cache
def tokenizer(style: str) -> TextTokenizer:
    """Return the tokenizer of a style, as the engine ``transformers`` wraps a model's own."""
    template, end = STYLES[style]
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(backend().to_str()),
        eos_token=end,
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )
    made = TextTokenizer(wrapped, ())
    # The vocabulary is shared: of its end tokens only this style's are a model's.
    own = {wrapped.convert_tokens_to_ids(token) for token in (end, "<|eom_id|>")}
    made.end_tokens = frozenset(own if style == "llama3" else own & {wrapped.eos_token_id})
    return made


def template_text(style: str, messages: Sequence[Message], tools: Sequence[Json] = ()) -> str:
    """Return what the template itself makes of messages."""
    turns = [{"role": message.role, "content": message.content} for message in messages]
    return tokenizer(style).template(turns, list(tools))


def whole_text(style: str, ids: Sequence[int]) -> str:
    """Return the text of ids, special tokens included."""
    text = tokenizer(style).hugging_face.decode(ids, skip_special_tokens=False)
    assert isinstance(text, str)
    return text
