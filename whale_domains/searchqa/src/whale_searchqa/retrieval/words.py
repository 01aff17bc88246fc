"""From text to the words that BM25 counts.

Lower case, accents dropped (``Barât`` and ``Barat`` are one word), compatibility forms unified,
runs of letters, digits and underscores, no stemming; the function words below are left out. Raise
``VERSION`` when the same text would give other words: an index tells which it was made with.
"""

from __future__ import annotations

import re
import unicodedata

VERSION = 1

WORD = re.compile(r"\w+")
STOP_WORDS = frozenset(
    WORD.findall(
        "a an and are as at be but by did do does for from had has have he her his how i if in "
        "into is it its no not of on or s she so such t than that the their them then there these "
        "they this to was we were what when where which who whom whose why will with would you your"
    )
)


def words(text: str) -> list[str]:
    """Return the words of ``text`` in order, repeated as often as they stand there."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(each for each in parts if not unicodedata.combining(each))
    return [word for word in WORD.findall(text.lower()) if word not in STOP_WORDS]
