"""The words and numbers of texts as evidence, where ``novelty`` asks for them.

They are the first section of the ragged part, which begins with its length in bytes. With ``words``, a text and a part
of it meet in their *runs*: words in a row of those that a set holds in the order in which they come first, without the
short ones. The runs with the least hashes are keys. If one of these of a text stands in a part of it, the part has no
smaller hash from the text but those that are keys of both, so the two meet: a third of a text holds one of ten with
probability .98.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.errors import ConfigError
from neardup.features.said.comparing_sets import letters_at, numbers_of, said_parts
from neardup.features.said.names import names_in
from neardup.features.said.spoken import ABBREVIATIONS
from neardup.features.said.word_sets import (
    HEADER_UNITS,
    NO_WORDS,
    NUMBERS_UNIT,
    WORDS_UNIT,
    repeats_of,
    word_sets,
)
from neardup.features.said.word_tables import abbreviated
from neardup.features.texts.normalize import CodePoints, NormalForm, fold
from neardup.features.texts.reading import HeldTexts
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import mix64
from neardup.schemes.interface import (
    NO_PAYLOADS,
    Evidence,
    Keys,
    Said,
    Signing,
    ragged_evidence,
    ragged_values,
    with_first,
)
from neardup.schemes.signatures.banding import band_seeds, put_keys

# Words of a run, letters of each at least, and how many runs of a text are keys. Then the letters of all such words
# from which a text has keys, and from which it adds them, too: a part of a shorter text is a line. Words of three
# letters are apart in every script, as those of five or more; those of two or four may overlap.
RUN_RULE = _RUN_WORDS, _LETTERS_MIN, _RUN_KEYS, _PART_LETTERS, _WHOLE_LETTERS, _SURE_LETTERS = 3, 5, 10, 40, 140, 3
# A word that an abbreviation may stand for takes as many letters as the shortest of these.
_SHORT_LETTERS = min(len(short) for short, word in ABBREVIATIONS.items() if len(word) >= _LETTERS_MIN)


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


class SeededPlan(TextPlan, Protocol):
    """The same, of schemes with seeds."""

    @property
    def seed(self) -> int:
        """Of the keys."""


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


def keys_with_runs(evidence: Evidence, bands: int, plan: SeededPlan) -> Keys:
    """Return a key for each band of the sketches, and behind them those of runs of words.

    A text that may be shorter than ``characters_min`` has none of these, as it is compared for equality only.
    """
    units, starts = ragged_values(evidence, np.uint32)
    seeds, n = band_seeds(bands + 1, plan.seed), len(evidence.fixed)
    out, ends, added = np.empty(n * (bands + _RUN_KEYS), np.uint64), np.empty(n + 1, np.int64), np.empty(n, np.int64)
    sketches = np.ascontiguousarray(evidence.fixed)
    count = _keys_with_runs(sketches, seeds, units, starts, plan.characters_min, abbreviated(), out, ends, added)
    return Keys(out[:count], ends, NO_PAYLOADS, added)


@kernel("const u8[,], u64[], const u32[], const i64[], i64, u32[], u64[], i64[], i64[]", direct=True)
def _keys_with_runs(sketches, seeds, units, starts, characters_min, short, out, ends, added):
    at, bands = np.int64(0), len(seeds) - 1
    ends[0] = at
    for i in range(len(sketches)):
        put_keys(sketches[i], seeds[:bands], out[at : at + bands])
        at, added[i] = at + bands, bands
        if starts[i] < starts[i + 1]:
            keys = out[at : at + _RUN_KEYS]
            count, letters, least = _put_runs(units, starts[i], seeds[bands], characters_min, short, keys)
            if letters >= _PART_LETTERS and least >= characters_min:
                at += count
                added[i] += count if letters >= _WHOLE_LETTERS else 0
        ends[i + 1] = at
    return at


@inner
def _put_runs(units, begin, seed, characters_min, short, out):
    """Write the least hashes of the runs of the set that begins at ``begin``, ascending; return how many there are,
    the letters of their words, and how long the text is at least, as far as ``characters_min`` asks for it. ``short``
    are words that abbreviations stand for."""
    words, numbers = np.int64(units[begin + WORDS_UNIT]), np.int64(units[begin + NUMBERS_UNIT])
    repeats, names = repeats_of(units, begin)
    first = begin + HEADER_UNITS
    classes = first + words + numbers + repeats + names
    before, last, letters, read, kept, least = np.uint64(0), np.uint64(0), 0, 0, 0, -1
    for n in range(words):
        count = letters_at(units, classes, n)
        if count < _LETTERS_MIN:
            least += count + 1 if count == _SURE_LETTERS else 0
            continue
        if least < characters_min:
            least += (_SHORT_LETTERS if _has(short, units[first + n]) else count) + 1
        word = np.uint64(units[first + n])
        letters, read = letters + count, read + 1
        run = mix64(mix64(before ^ seed) ^ last << np.uint64(32) ^ word)
        if read >= _RUN_WORDS and (kept < len(out) or run < out[kept - 1]):
            kept = _keep_least(out, kept, run)
        before, last = last, word
    return kept, letters, least


@inlined
def _has(words, word):
    at = 0
    while at < len(words) and words[at] != word:
        at += 1
    return at < len(words)


@inlined
def _keep_least(out, kept, value):
    """Put a value among the least ones, which ascend, unless it is there; return how many there are."""
    at = kept
    while at > 0 and out[at - 1] > value:
        at -= 1
    if at > 0 and out[at - 1] == value:
        return kept
    kept = min(kept + 1, len(out))
    for n in range(kept - 1, at, -1):
        out[n] = out[n - 1]
    out[at] = value
    return kept
