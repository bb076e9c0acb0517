"""``PRESETS``: settings that fit a kind of documents, each with the reason.

A preset has the lowest priority: the command line, the environment and the file override it. Only ``news`` is measured,
in ``docs/GUARANTEES.md``; the other presets follow from their reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Preset(NamedTuple):
    """Values by setting, and their reason."""

    values: Mapping[str, Any]
    reason: str


_HOUR_SECONDS = 3600.0
# The name of a preset -> its settings.
PRESETS: dict[str, Preset] = {
    "news": Preset(
        {"threshold": 0.45, "verify": "exact", "novelty": "words", "characters_min": 60,
         "fold": ("nfkc", "case", "space", "marks"),
         "window_seconds": 48 * _HOUR_SECONDS, "lateness_seconds": 6 * _HOUR_SECONDS},
        "editors cut, merge and extend a story, so copies of one story share about half of their shingles, within two "
        "days; at so low a threshold estimates are too coarse, so pairs are verified; half of such pairs on a wire are "
        "other reports in the same form, so a report is dropped only if what it says was said; texts below 60 "
        "characters are bylines and captions of other articles; agencies write vowel signs and stress, papers leave "
        "them out",
    ),
    "crawl": Preset(
        {"threshold": 0.9, "shingles": "words", "k": 5},
        "pages of one site share their menus; only pages that are nearly equal are mirrors, and five words in a row "
        "seldom repeat by chance in pages of any length; novelty stays off, because a page that is fetched again has "
        "new times and counters ('25 minutes ago', '1,204 views'), which would keep every visit",
    ),
    "quotes": Preset(
        {"scheme": "parts", "text_characters_max": 64 << 20},
        "a quote is found wherever it stands and also where words of it are changed: take it for prose of any length, "
        "books included, so a text may be as long as a line; "
        "the presets excerpts find exact runs of characters only, but also in code, where words repeat too much",
    ),
    "excerpts": Preset(
        {"scheme": "passages:gram=30,characters=100"},
        "for code and exact copies that are a fair part of a text: a paragraph within another text is often no longer "
        "than a hundred characters; a document has half as many hashes again as with the 150 characters of the scheme",
    ),
    "excerpts-short": Preset(
        {"scheme": "passages:gram=20,characters=60"},
        "for exact copies of short texts: blurbs are short, and where a character is a syllable or a word (Chinese, "
        "Japanese, Thai), 60 of them say what takes 150 elsewhere",
    ),
    "code": Preset(
        {"threshold": 0.7, "fold": ("nfkc", "space"), "k": 8},
        "a copied file has names changed here and there; letters matter in their case, and eight characters hold more "
        "than the keywords of a language",
    ),
    "short": Preset(
        {"threshold": 0.6, "k": 3, "sketch_bits": 16, "verify": "exact"},
        "one word changed in a sentence or a title takes a third of its shingles with it; three characters keep more, "
        "and so few shingles make estimates coarse, so pairs are verified",
    ),
}  # fmt: skip
