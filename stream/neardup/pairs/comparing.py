"""What a comparison with a kept content decides: the similarity, and whether the newer text says something new.

With ``novelty`` off, a text repeats every content that it makes a pair with. With ``numbers`` it repeats such a content
only if each of its numbers stands there. With ``words`` it repeats a content, pair or not, if each of its numbers
stands there, and so much of what it says (``SAID_MIN``, by weight) that hardly a word is new. A word of correction is a
number here. See ``neardup.features.said.word_sets`` for the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.documents.pieces import NewWord
from neardup.features.said.new_words import new_words
from neardup.pairs.pair_rule import scored
from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence, Said, ragged_values
from neardup.schemes.rows import SCHEMES

# The part of a text that must have been said before. Measured on 310 pairs of a wire and of blurbs in 55 languages that
# were judged by reading: precision and recall of a drop are .954 and .874, .986 and .861; with .85 instead .956 and
# .905, .986 and .911.
SAID_MIN = 0.88
# What a comparison says of a pair whose newer text says something new: its similarity less this, which lies below the
# value of "no pair" (-1) and of "not compared" (-2).
NEW_LESS = 4.0


def is_novel(config: Config) -> bool:
    """Return whether verdicts ask what is new."""
    return config.novelty != "off"


def says_nothing_new(config: Config, said: Said) -> npt.NDArray[np.bool_]:
    """Return whether m texts say nothing that the others have not said, ``bool[m]``: no new number and, with
    ``words``, hardly a new word."""
    nothing_new: npt.NDArray[np.bool_] = (said.new_numbers == 0) & (
        (said.part >= SAID_MIN) | (config.novelty != "words")
    )
    return nothing_new


def compared(config: Config, newer: Evidence, older: Evidence) -> npt.NDArray[np.float32]:
    """Compare m documents with m contents for a verdict, by their evidence.

    Returns:
        ``float32[m, 3]``: first the similarity of a document that repeats the content, in [0, 1]; the similarity less
        ``NEW_LESS`` of one that makes a pair with it and says something new; -1 of others. Then the part of the
        document that the content says, in [0, 1], and how many of its numbers are new; both 0 without ``novelty``.
    """
    scheme, tuning = SCHEMES[config.scheme], config.tuning
    common = scheme.common(newer, older, config.plan)
    similarity = scored(common, tuning.score_min, exact_score=tuning.exact_score)
    said = None if scheme.said is None else scheme.said(newer, older, config.plan)
    out = np.zeros((len(similarity), 3), np.float32)
    if said is None:
        out[:, 0] = similarity
        return out
    is_pair = similarity >= 0
    repeats = says_nothing_new(config, said) & (is_pair | (config.novelty == "words"))
    measured = scored(common, 0.0, exact_score=tuning.exact_score)
    out[:, 0] = np.where(repeats & (measured >= 0), measured, np.where(is_pair, similarity - NEW_LESS, -1.0))
    out[:, 1], out[:, 2] = said
    return out


def new_in(config: Config, texts: Sequence[str], older: Evidence) -> list[tuple[NewWord, ...]]:
    """Return what n texts say that n others do not say, by the evidence of these; see ``new_words``."""
    plan: Any = config.plan  # of a scheme of texts: others have no novelty
    sets = ragged_values(older, np.uint32)
    return new_words(texts, sets, plan.normal_form, words=config.novelty == "words")


def similarity_of(config: Config, newer: Evidence, older: Evidence, score_min: float) -> npt.NDArray[np.float64]:
    """Return the similarity of m documents and m others by their evidence, ``float64[m]``, -1 where it is below
    ``score_min`` or a condition of the scheme fails."""
    common = SCHEMES[config.scheme].common(newer, older, config.plan)
    return scored(common, score_min, exact_score=config.tuning.exact_score)
