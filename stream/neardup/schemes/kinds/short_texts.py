"""Texts that are too short for near-duplicates: they are compared for equality only (setting ``characters_min``).

A byline or a caption has few shingles, and many articles share it nearly word for word. The sketch of such a text is
drawn from its content hash, so it has no row in common with the sketch of another content, except by chance: two
sketches share a given band of 32 bits with probability 2^-32. The table finds equal contents without a sketch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.machine.kernels.hashing import GOLDEN
from neardup.schemes.interface import Signing
from neardup.schemes.word_evidence import Signs, TextPlan, normalised

# The two multipliers of ``neardup.machine.kernels.hashing.mix64``, which is a kernel for kernels alone.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_WORD_BYTES = 8


def with_short_texts(sign: Signs) -> Signs:
    """Return the function that signs texts below ``characters_min`` so that only equal ones are found."""

    def signed(scheme: object, documents: Sequence[Document], plan: TextPlan) -> Signing:
        signing = sign(scheme, documents, plan)
        if not plan.characters_min:
            return signing
        codes = normalised(signing, plan)
        if codes.shortest >= plan.characters_min:
            return signing
        return _equality_only(signing, codes.lengths < plan.characters_min)

    return signed


def _equality_only(signing: Signing, is_short: npt.NDArray[np.bool_]) -> Signing:
    """Return the same signed documents, with drawn sketches for those that are short (``bool[n]``)."""
    fixed = signing.evidence.fixed.copy()
    fixed[is_short] = _drawn(signing.contents[is_short], fixed.shape[1])
    return signing._replace(evidence=signing.evidence._replace(fixed=fixed))


def _drawn(contents: npt.NDArray[np.uint64], width: int) -> npt.NDArray[np.uint8]:
    """Draw ``width`` bytes for each content hash (``uint64[m, 2]``)."""
    words = -(-width // _WORD_BYTES)
    x = contents[:, :1] ^ (contents[:, 1:] * GOLDEN) + np.arange(1, words + 1, dtype=np.uint64) * GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    x ^= x >> np.uint64(31)
    return np.ascontiguousarray(x.astype("<u8", copy=False)).view(np.uint8)[:, :width]
