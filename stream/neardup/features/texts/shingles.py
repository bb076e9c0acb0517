"""Features: normalised texts -> ragged ``uint64`` hashes of their k-grams, without a Python object a shingle.

The hashes of k consecutive code points or words come from ``neardup.features.texts.kgrams``.

Order and repetition are kept: the shingles of a text are its bag, and a signature takes them as a set.

Source: Mining of Massive Datasets, 3.2; 3.2.4 for the stop-word shingles (Theobald, Siddharth, Paepcke, SIGIR 2008);
``neardup.features.texts.url_tokens`` for those of URLs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Features
from neardup.features.texts.kgrams import gram_scratch, kgrams
from neardup.features.texts.marks import is_han
from neardup.features.texts.normalize import CodePoints
from neardup.features.texts.plain_words import word_hashes, word_scratch, word_tables
from neardup.features.texts.url_tokens import url_grams, url_rules, url_stops
from neardup.features.texts.words import StopList, is_stop, stop_rules, stop_table, word_rules, word_table
from neardup.machine.compile import inner, kernel
from neardup.machine.kernels.hashing import BASE, mix64

_ONE = np.uint64(1)
_BLANK, _DIGIT_0, _SMALL_A, _TO_SMALL, _DIGITS, _LETTERS = 0x20, 0x30, 0x61, 0x20, 10, 26


def with_joined_numbers(codes: CodePoints) -> CodePoints:
    """Return texts without the hyphens and slashes between letters and digits (ASCII) in words that have a digit: one
    shop writes KX-TG6700/B, and another one kxtg6700b."""
    starts, lengths = codes.starts.copy(), codes.lengths.copy()
    narrow = _joined(codes.narrow, starts, lengths, ~codes.is_wide)
    wide = _joined(codes.wide, starts, lengths, codes.is_wide)
    joined = codes._replace(narrow=narrow, wide=wide, starts=starts, lengths=lengths)
    return joined.select(np.ones(len(starts), np.bool_))


def _joined(
    values: npt.NDArray[Any], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], rows: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    """The same of the texts in one buffer, which are those of ``rows``; writes their starts and lengths."""
    begins, ends, as_code = starts[rows], starts[rows] + lengths[rows], values.dtype.type
    is_digit = values - as_code(_DIGIT_0) < _DIGITS
    is_word = is_digit | ((values | as_code(_TO_SMALL)) - as_code(_SMALL_A) < _LETTERS)
    breaks = np.append(values <= _BLANK, np.True_)  # one more, for a text that ends with the buffer
    breaks[begins] = breaks[ends] = True
    words = np.cumsum(breaks)
    has_digit = np.zeros(words[-1] + 1, np.bool_)
    has_digit[words[:-1][is_digit]] = True
    at = np.flatnonzero((values[1:-1] == ord("-")) | (values[1:-1] == ord("/"))) + 1
    joins = is_word[at - 1] & is_word[at + 1] & has_digit[words[at]]
    gone = at[joins & (words[at - 1] == words[at]) & (words[at] == words[at + 1])]
    first, end = np.searchsorted(gone, begins), np.searchsorted(gone, ends)
    starts[rows], lengths[rows] = begins - first, ends - begins - (end - first)
    return np.delete(values, gone)


def chars(codes: CodePoints, k: int, stops: StopList) -> Features:
    """k consecutive code points, k at least 1; a shorter text is one shingle, an empty one has none.

    ``stops`` has no meaning here.
    """
    del stops
    return _unit_shingles(codes, k, by_script=False)


def scripts(codes: CodePoints, k: int, stops: StopList) -> Features:
    """Two code points where the first is Han or kana, which say as much as a word does, and else k.

    A text without any is one shingle, an empty one has none. ``stops`` has no meaning here.
    """
    del stops
    return _unit_shingles(codes, k, by_script=True)


def words(codes: CodePoints, k: int, stops: StopList) -> Features:
    """k consecutive words by the rules of ``neardup.features.texts.words``; fewer words are one shingle, none give
    none.

    ``stops`` has no meaning here.
    """
    del stops
    return _word_shingles(codes, k, np.empty(0, np.uint64))


def stopwords(codes: CodePoints, k: int, stops: StopList) -> Features:
    """Each word of ``stops`` with the k - 1 words after it, fewer at the end of the text.

    A text without a stop word has no shingle: that tells prose from lists, menus and advertisements.
    """
    return _word_shingles(codes, k, stop_table(*stops))


def urls(codes: CodePoints, k: int, stops: StopList) -> Features:
    """k consecutive tokens of a URL with their position in it, of every URL of the text
    (``neardup.features.texts.url_tokens``).

    A URL with fewer tokens is one shingle; a text without a token has none. The words of ``stops`` are dropped.
    """
    values = np.empty(codes.characters, np.uint64)
    starts = np.zeros(len(codes.starts) + 1, np.int64)
    tokens = np.empty(codes.longest, np.uint64)
    _urls(codes, k, word_table(), url_stops(stops.words), tokens, values, starts)
    return Features(values[: starts[-1]], starts)


Split = Callable[[CodePoints, int, StopList], Features]


class Shingling(NamedTuple):
    """A row of ``SHINGLES``: what the elements of a document are.

    ``rules`` names everything that decides the elements in addition to the text, its normal form and k: a new version
    of a rule must change it, because it is a part of the signing fingerprint.
    """

    split: Split | None  # texts -> shingles; ``None`` where documents bring their elements themselves
    k_default: int
    rules: Callable[[StopList], tuple[str, ...]] = lambda stops: ()
    kind: str = "text"  # what a document brings: a key of ``neardup.pairs.json_lines.KINDS``
    k_fixed: str = ""  # why k has no other value than the default, where that is so
    needs_languages: bool = False
    has_stop_words: bool = False


# ``Config.shingles`` is one of these names.
SHINGLES: dict[str, Shingling] = {
    "chars": Shingling(chars, k_default=5),
    "scripts": Shingling(scripts, k_default=5, rules=lambda stops: ("scripts-1",)),
    "words": Shingling(words, k_default=3, rules=lambda stops: (word_rules(),)),
    "stopwords": Shingling(
        stopwords,
        k_default=3,
        rules=lambda stops: (word_rules(), stop_rules(*stops)),
        k_fixed="stopwords shingles, which are a stop word and two more",
        needs_languages=True,
        has_stop_words=True,
    ),
    "urls": Shingling(urls, k_default=2, rules=lambda stops: (url_rules(stops.words),), has_stop_words=True),
    "tokens": Shingling(None, k_default=1, kind="tokens", k_fixed="tokens, which are not split"),
}
TEXT_SHINGLES: dict[str, Split] = {name: row.split for name, row in SHINGLES.items() if row.split}


def _unit_shingles(codes: CodePoints, k: int, *, by_script: bool) -> Features:
    values, starts = np.empty(codes.characters, np.uint64), np.empty(len(codes.starts) + 1, np.int64)
    _grams(codes, k, by_script, gram_scratch(k), values, starts)
    return Features(values[: starts[-1]], starts)


def _word_shingles(codes: CodePoints, k: int, stops: npt.NDArray[np.uint64]) -> Features:
    values = np.empty(codes.characters, np.uint64)
    starts = np.zeros(len(codes.starts) + 1, np.int64)
    tokens = np.empty(codes.longest, np.uint64)
    _words(codes, k, word_tables(), word_scratch(), stops, tokens, gram_scratch(k), values, starts)
    return Features(values[: starts[-1]], starts)


@inner
def _by_script(units, k, scratch, out):
    """Write the shingles of a text; returns how many. One is written for a position at most, so that those of k units,
    which are written first, are read before their place is used."""
    n, count = len(units), 0
    kgrams(units, k, scratch, out)
    for i in range(n):
        if is_han(units[i]):
            if i + 1 < n:
                first, second = np.uint64(units[i]) + _ONE, np.uint64(units[i + 1]) + _ONE
                out[count] = mix64(first * BASE + second)
                count += 1
        elif i + k <= n:
            out[count] = out[i]
            count += 1
    if count == 0 and n > 0:
        return kgrams(units, n, scratch, out)
    return count


@kernel("CodePoints, i64, bool, GramScratch, u64[], i64[]", direct=True)
def _grams(codes, k, by_script, scratch, values, starts):
    starts[0] = 0
    for i in range(len(codes.starts)):
        first, end, at = codes.starts[i], codes.starts[i] + codes.lengths[i], starts[i]
        if not codes.is_wide[i]:
            count = kgrams(codes.narrow[first:end], k, scratch, values[at:])
        elif by_script:
            count = _by_script(codes.wide[first:end], k, scratch, values[at:])
        else:
            count = kgrams(codes.wide[first:end], k, scratch, values[at:])
        starts[i + 1] = at + count


@kernel("CodePoints, i64, const plain_words.SplitTables, WordScratch, const u64[], u64[], GramScratch, u64[], i64[]")
def _words(codes, k, tables, block, stops, tokens, scratch, values, starts):
    for i in range(len(codes.starts)):
        first, end, at = codes.starts[i], codes.starts[i] + codes.lengths[i], starts[i]
        if codes.is_wide[i]:
            count = word_hashes(codes.wide[first:end], tables, block, tokens)
        else:
            count = word_hashes(codes.narrow[first:end], tables, block, tokens)
        if len(stops) == 0:
            starts[i + 1] = at + kgrams(tokens[:count], k, scratch, values[at:])
            continue
        for j in range(count):
            if is_stop(stops, tokens[j]):
                h = np.uint64(0)
                for t in range(j, min(j + k, count)):
                    h = h * BASE + (tokens[t] + _ONE)
                values[at] = mix64(h)
                at += 1
        starts[i + 1] = at


@kernel("CodePoints, i64, const u8[], const u64[], u64[], u64[], i64[]")
def _urls(codes, k, table, stops, tokens, values, starts):
    for i in range(len(codes.starts)):
        first, end, at = codes.starts[i], codes.starts[i] + codes.lengths[i], starts[i]
        if codes.is_wide[i]:
            count = url_grams(codes.wide[first:end], k, table, stops, tokens, values[at:])
        else:
            count = url_grams(codes.narrow[first:end], k, table, stops, tokens, values[at:])
        starts[i + 1] = at + count
