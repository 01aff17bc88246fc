"""Browse the harnesses of a run, also while it works: nothing is changed, no lock is taken."""

from __future__ import annotations

COMMANDS = {
    "list": "all harnesses of a run in order, with scores, rejections, what was accepted",
    "show": "one harness: its source, where it comes from, its scores in each phase",
    "diff": "what a change changed, and what it did, example by example",
    "lineage": "which harness was made from which",
    "replay": "a stored episode turn by turn, and the harness executed again on its replies",
    "try": "one live episode turn by turn, with a model or with replies you write",
}

EXAMPLES = """\
  whale harness list runs/default-20260101-120000
  whale harness show RUN h0003
  whale harness diff RUN h0003
  whale harness lineage RUN
  whale harness replay RUN h0003
  whale harness try mine.py --plugin-set default
"""
