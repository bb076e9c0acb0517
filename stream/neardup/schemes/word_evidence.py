"""The words and numbers of texts as evidence, where ``novelty`` asks for them.

They are the first section of the ragged part, which begins with its length in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.errors import ConfigError
from neardup.features.said.comparing_sets import numbers_of, said_parts
from neardup.features.said.names import names_in
from neardup.features.said.word_sets import NO_WORDS, word_sets
from neardup.features.texts.normalize import CodePoints, NormalForm, fold
from neardup.features.texts.reading import HeldTexts
from neardup.schemes.interface import Evidence, Said, Signing, ragged_evidence, ragged_values, with_first


class TextPlan(Protocol):
    """What a plan says of texts."""

    @property
    def novelty(self) -> str:
        """``off``, ``numbers`` or ``words``."""

    @property
    def characters_min(self) -> int:
        """Characters of a text at least; shorter ones are compared for equality only."""

    @property
    def normal_form(self) -> NormalForm:
        """How texts are normalised."""


Signs = Callable[[Any, Sequence[Document], Any], Signing]


def check_novelty(novelty: str, kind: str) -> None:
    """Raise ``ConfigError`` if documents have no text whose words could be new."""
    if novelty != "off" and kind != "text":
        raise ConfigError(f"novelty={novelty} asks for new words, but documents bring {kind}: leave novelty out")


def with_word_sets(sign: Signs) -> Signs:
    """Return the function that also keeps the words and numbers of each text, where ``novelty`` asks for them."""

    without: tuple[Any, Any] = None, None  # the plan that came last, and the same without novelty

    def signed(scheme: object, documents: Sequence[Document], plan: Any) -> Signing:
        nonlocal without
        if plan.novelty == "off":
            return sign(scheme, documents, plan)
        last, plain = without
        if last is not plan:
            plain = plan._replace(novelty="off")
            without = plan, plain
        signing = sign(scheme, documents, plain)
        held = signing.held
        assert held is not None, "novelty is for texts"  # ``check_novelty``
        codes = normalised(signing, plan)
        units, starts = sets_of(held, codes, plan, signing.refused)
        return signing._replace(evidence=with_first(ragged_evidence(units, starts), signing.evidence))

    return signed


def normalised(signing: Signing, plan: TextPlan) -> CodePoints:
    """Return the normalised texts of signed documents."""
    held = signing.held
    if signing.codes is not None or held is None:
        assert signing.codes is not None, "the plan is for texts"
        return signing.codes
    return fold(held.raw, plan.normal_form, held.characters)


def sets_of(
    held: HeldTexts, codes: CodePoints, plan: Any, refused: Collection[int] = ()
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the word sets of texts but for those at the positions ``refused``; ``codes`` are the others, normalised.
    See ``word_sets``."""
    words = plan.novelty == "words"
    names = names_in(held, plan.normal_form, refused) if words else None
    return word_sets(codes, names, words=words)


def without_words(evidence: Evidence) -> Evidence:
    """Return evidence with an empty set of words for each item."""
    n = len(evidence.fixed)
    units, starts = np.tile(NO_WORDS, n), np.arange(n + 1) * len(NO_WORDS)
    return with_first(ragged_evidence(units, starts), evidence)


def said(newer: Evidence, older: Evidence, plan: TextPlan) -> Said | None:
    """Return which part of what m texts say m others have said; ``None`` if their words are not kept."""
    if plan.novelty == "off":
        return None
    sets = ragged_values(newer, np.uint32)
    return Said(*said_parts(sets, ragged_values(older, np.uint32)), numbers_of(sets))
