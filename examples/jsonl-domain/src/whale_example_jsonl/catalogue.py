"""Edits for the offline proposer: each puts whole members in place of the harness's own."""

from __future__ import annotations

from whale_core.roles import Edit

FIRST_LINE = '''def parse(self, text):
    """Take the first line."""
    return text.strip().split("\\n")[0]
'''
LAST_NUMBER = '''def parse(self, text):
    """Take the last number, or else the whole reply."""
    found = re.findall(r"-?[0-9][0-9,.]*[0-9]|[0-9]", text)
    return found[-1] if found else text.strip()
'''

CATALOGUE = (
    Edit("first-line", "parser", "What follows is chatter.", {"parse": FIRST_LINE}),
    Edit("last-number", "parser", "The result comes last.", {"parse": LAST_NUMBER}),
    Edit("more-tokens", "budget", "There is room to think.", {"MAX_TOKENS": "MAX_TOKENS = 96"}),
    Edit(
        "worked-example",
        "context",
        "One example shows the form.",
        {"EXAMPLE": 'EXAMPLE = ("How many legs have two cats?", "Answer: 8")'},
    ),
    Edit(
        "only-the-answer",
        "prompt",
        "Asked for less, it says less.",
        {"USER_PROMPT": 'USER_PROMPT = "{question}\\nWrite only: Answer: <answer>"'},
    ),
)
