"""Schemes of sets that sign a row at a time, each from the whole set: by permutations, and by hash functions.

They differ from ``neardup.schemes.kinds.sets`` in the signature only, which takes as many passes over a set as it has
rows. Their signatures can be merged (``neardup_textbook.signatures.merge``).

Source: Mining of Massive Datasets, 3.3.2 to 3.3.5.
"""

from __future__ import annotations

from neardup.schemes.interface import DEFAULTS, nothing, sign_features
from neardup.schemes.kinds.sets import SCHEME, evidence_by
from neardup.schemes.kinds.short_texts import with_short_texts
from neardup.schemes.word_evidence import with_word_sets
from neardup_textbook.signatures import minhash, permutation

_BY_ROWS = SCHEME._replace(
    sign=with_word_sets(with_short_texts(sign_features)), plain=nothing, derived=nothing, examples=DEFAULTS
)
MINHASH = _BY_ROWS._replace(evidence=evidence_by(minhash.sign))
PERMUTATION = _BY_ROWS._replace(evidence=evidence_by(permutation.sign))
