"""What a comparison with a kept content decides: the similarity, and whether the newer text says something new.

With ``novelty`` off, a text repeats every content that it makes a pair with. With ``numbers`` it repeats such a content
only if each of its numbers stands there. With ``words`` it repeats a content, pair or not, if each of its numbers
stands there, no name stands in the place of another, and so much of what it says (``SAID_MIN``, by weight) that hardly
a word is new. A word of correction is a number here. See ``neardup.features.said.word_sets`` for the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import SIGNALS
from neardup.documents.pieces import NewWord, Novelty
from neardup.features.said.new_words import new_words
from neardup.pairs.pair_rule import Judged, by_signal, scored
from neardup.schemes.config import Config
from neardup.schemes.interface import Common, Evidence, Plan, Said, ragged_values
from neardup.schemes.rows import SCHEMES

# The part of a text that must have been said before. Measured on 310 pairs of a wire and of blurbs in 55 languages that
# were judged by reading: precision and recall of a drop are .966 and .905, 1 and .886.
SAID_MIN = 0.88
# Two texts of which the newer one says something new tell the same story if it says all that the older one says, or if
# they share so many numbers, and this part of the numbers of the one that has more. Measured on 200 judged pairs of a
# wire: of 65 reports in the same form 2 are in one story, of 40 updates, longer versions and corrections 30.
SHARED_NUMBERS_MIN, SHARED_PART_MIN = 5, 0.7
# Similarity from which a candidate that is no pair leads to a story: that of a text and a fifth of it. A shorter one is
# a flash: its few words stand in a long report before what it says is known.
LEAD_MIN = 0.2
# What a comparison says of a pair whose newer text says something new: its similarity less this where it tells the same
# story, and twice this where it does not. Both lie below the value of "no pair" (-1).
NEW_LESS = 4.0
# What a comparison says of two documents that are no pair.
NO_PAIR = np.float32(-1.0)
# The fields of a result: that similarity, the part that was said, the new numbers and the signal (``compared``).
SIMILARITY, SAID, NEW_NUMBERS, SIGNAL = range(4)
RESULT_FIELDS = 4
# The number of the signal whose similarity is one of degree: each member may be near the last one and far from the
# first. So the first contents never leave such a story, and two of them tell it, where two can be compared: one alone
# may be near to another story, too. Measured on titles by topic (``docs/RESULTS.md``).
DRIFTING = 1 + SIGNALS.index("vector")


class Leads(NamedTuple):
    """m candidates that lead to stories: the position in a batch and the number in the table (``int32[m]``,
    ``int64[m]``), the similarity and the number of common keys (``float64[m]``, ``int32[m]``). Pairs lead, and so do
    some others (``is_lead``)."""

    items: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int64]
    similarity: npt.NDArray[np.float64]
    keys: npt.NDArray[np.int32]

    def select(self, rows: npt.NDArray[np.int64]) -> Leads:
        """Return some of them, in the given order."""
        return Leads(self.items[rows], self.slots[rows], self.similarity[rows], self.keys[rows])


NO_ROWS: npt.NDArray[np.int64] = np.empty(0, np.int64)
NO_LEADS = Leads(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0), np.empty(0, np.int32))


def joined_leads(pairs: Leads, others: Leads) -> Leads:
    """Return pairs and other leads together, in order of the items, which is that of each."""
    if not len(others.items):
        return pairs
    both = Leads(
        np.concatenate([pairs.items, others.items]), np.concatenate([pairs.slots, others.slots]),
        np.concatenate([pairs.similarity, others.similarity]), np.concatenate([pairs.keys, others.keys]),
    )  # fmt: skip
    return both.select(np.argsort(both.items, kind="stable"))


def is_novel(config: Config) -> bool:
    """Return whether verdicts ask what is new."""
    return config.novelty != "off"


def comparing_limits(config: Config) -> dict[str, Any]:
    """Return the limits of verdicts that say how contents are compared: whether a pair may be of documents that do not
    repeat each other (``novel``), and whether the first contents of a story never leave it (``lasting``)."""
    plan: Any = config.plan
    has_signals = bool(SCHEMES[config.scheme].signals)
    is_drifting = has_signals and any(part.number == DRIFTING for part in plan.parts)
    return {"novel": has_signals or is_novel(config), "lasting": is_drifting}


def says_nothing_new(config: Config, said: Said) -> npt.NDArray[np.bool_]:
    """Return whether m texts say nothing that the others have not said, ``bool[m]``: no new number and, with
    ``words``, no name for another and hardly a new word."""
    is_known = (said.part >= SAID_MIN) & (said.new_names == 0)
    nothing_new: npt.NDArray[np.bool_] = (said.new_numbers == 0) & (is_known | (config.novelty != "words"))
    return nothing_new


def may_lead(config: Config, common: Common, judged: Judged) -> npt.NDArray[np.int64]:
    """Return which candidates are no pairs and have so much in common that they can lead to a story, in order."""
    if config.novelty != "words":
        return NO_ROWS
    is_met = common.conditions & (judged.similarity >= LEAD_MIN)
    leads: npt.NDArray[np.int64] = (~judged.is_pair & is_met).nonzero()[0]
    return leads


def is_lead(config: Config, one: Evidence, other: Evidence) -> npt.NDArray[np.bool_]:
    """Return which of m candidates that may lead do so, ``bool[m]``: those of which one says nothing that the other has
    not said, as a text and a part of it."""
    leads = np.zeros(len(one.fixed), np.bool_)
    for newer, older in ((one, other), (other, one)):
        said = said_of(config, newer, older)
        leads |= False if said is None else says_nothing_new(config, said)
    return leads


def said_of(config: Config, newer: Evidence, older: Evidence) -> Said | None:
    """Return what m texts say that m others have said; ``None`` without ``novelty``."""
    function = SCHEMES[config.scheme].said
    return None if function is None else function(newer, older, config.plan)


def compared(config: Config, newer: Evidence, older: Evidence, plan: Plan | None = None) -> npt.NDArray[np.float32]:
    """Compare m documents with m contents for a verdict, by their evidence; ``plan`` is by default that of ``config``.

    Returns:
        ``float32[m, 4]``: first the similarity of a document that repeats the content, in [0, 1]; the similarity less
        ``NEW_LESS`` of one that makes a pair with it, says something new and tells the same story, less twice that if
        it tells another one; -1 of others. Then the part of the document that the content says, in [0, 1], and how many
        of its numbers are new; both 0 without ``novelty``. Then the number of the signal by which it tells the same
        story without being near in its text, 0 for none, ``-DRIFTING`` if their vectors are apart.
    """
    scheme, tuning = SCHEMES[config.scheme], config.tuning
    common = scheme.common(newer, older, plan or config.plan)
    similarity = scored(common, tuning.score_min, exact_score=tuning.exact_score)
    said = said_of(config, newer, older)
    out = np.zeros((len(similarity), RESULT_FIELDS), np.float32)
    if said is None:
        out[:, SIMILARITY] = similarity
        return _with_signals(out, common)
    is_pair = similarity >= 0
    repeats = says_nothing_new(config, said) & (is_pair | (config.novelty == "words"))
    measured = scored(common, 0.0, exact_score=tuning.exact_score)
    repeats &= measured >= 0
    out[:, SIMILARITY] = np.where(repeats, measured, -1.0)
    out[:, SAID], out[:, NEW_NUMBERS] = said.part, said.new_numbers
    (rows,) = (is_pair & ~repeats).nonzero()
    if len(rows):
        back = said_of(config, older.select(rows), newer.select(rows))
        is_same = back is not None and _same_story(said, back, rows)
        out[rows, SIMILARITY] = similarity[rows] - np.where(is_same, NEW_LESS, 2 * NEW_LESS)
    return _with_signals(out, common)


def _with_signals(out: npt.NDArray[np.float32], common: Common) -> npt.NDArray[np.float32]:
    """Let those that neither repeat a content nor continue its story in their texts continue it by another signal."""
    if not len(common.signals):
        return out
    apart = (out[:, SIMILARITY] == NO_PAIR) | (out[:, SIMILARITY] < -NEW_LESS)
    rows = np.flatnonzero((common.signals > 0) & common.conditions & apart)
    strengths = by_signal(common, common.similarity, common.signals)
    out[rows, SIMILARITY], out[rows, SIGNAL] = strengths[rows] - NEW_LESS, common.signals[rows]
    out[apart & (common.strengths < 0), SIGNAL] = -DRIFTING
    return out


def _same_story(said: Said, back: Said, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which of some newer texts tell the story of the older one; ``back`` is what the newer one has said of
    it."""
    shared = said.numbers[rows] - said.new_numbers[rows]
    most = np.maximum(said.numbers[rows], back.numbers)
    is_longer = (back.new_numbers == 0) & (back.part >= SAID_MIN)
    same: npt.NDArray[np.bool_] = is_longer | ((shared >= SHARED_NUMBERS_MIN) & (shared >= SHARED_PART_MIN * most))
    return same


def new_in(config: Config, texts: Sequence[str], older: Evidence) -> list[tuple[NewWord, ...]]:
    """Return what n texts say that n others do not say, by the evidence of these; see ``new_words``."""
    plan: Any = config.plan  # of a scheme of texts: others have no novelty
    sets = ragged_values(older, np.uint32)
    return new_words(texts, sets, plan.normal_form, words=config.novelty == "words")


def novelty_of(config: Config, newer: Evidence, older: Evidence) -> Novelty | None:
    """Return what one document adds to another one, by their evidence; ``None`` without ``novelty``."""
    said = said_of(config, newer, older)
    if said is None:
        return None
    least = SAID_MIN if config.novelty == "words" else None
    is_new = not bool(says_nothing_new(config, said)[0])
    return Novelty(float(said.part[0]), least, int(said.new_numbers[0]), is_new)


def similarity_of(config: Config, newer: Evidence, older: Evidence, score_min: float) -> npt.NDArray[np.float64]:
    """Return the similarity of m documents and m others by their evidence, ``float64[m]``, -1 where it is below
    ``score_min`` or a condition of the scheme fails."""
    common = SCHEMES[config.scheme].common(newer, older, config.plan)
    return scored(common, score_min, exact_score=config.tuning.exact_score)
