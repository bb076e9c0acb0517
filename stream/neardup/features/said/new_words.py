"""The words and numbers of a text that an earlier text does not have, as they stand in the text.

The word set of the earlier text is enough: it holds hashes. The later text is cut at its blanks, and where its script
has none, into runs as long as those that a word set holds. Each piece has a word set of its own, and is new if the
earlier set lacks a number, a word or a name of it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.pieces import NewWord
from neardup.features.said.comparing_sets import said_parts
from neardup.features.said.names import Names, names_in
from neardup.features.said.spoken import HAN_DIGITS, HAN_POWERS, HANGUL_POWERS
from neardup.features.said.word_sets import NUMBERS_UNIT, WORDS_UNIT, word_sets
from neardup.features.said.word_tables import leading_hashes
from neardup.features.texts.normalize import CodePoints, NormalForm, code_points
from neardup.features.texts.raw_texts import raw_texts
from neardup.features.texts.reading import without_longer

# New words of a text that are returned at most, and code points from its begin that are looked at.
NEW_MAX = 16
CHARACTERS_MAX = 1 << 16
# Runs of ideographs and kana, and of other scripts without blanks, with the letters of a piece; then everything else.
_IDEOGRAPHS = r"\p{Han}\p{Hiragana}\p{Katakana}"
_OTHERS = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_NUMERALS, _POWERS = "".join((*HAN_DIGITS, *HAN_POWERS)), "".join((*HAN_POWERS, *HANGUL_POWERS))
_NUMBER = rf"[\d.,]*\d[{_POWERS}](?:[\d{_NUMERALS}{_POWERS}]|(?<=\d),(?=\d))*|[{_NUMERALS}]{{2,}}"
_WORDS = (
    rf"{_NUMBER}|(?P<two>(?:(?!{_NUMBER})[{_IDEOGRAPHS}])+)|(?P<four>[{_OTHERS}]+)"
    rf"|(?:(?!(?<![\d.,])(?:{_NUMBER}))[^\s{_IDEOGRAPHS}{_OTHERS}])+"  # within digits, to look again takes the square
)
_LETTERS = {"two": 2, "four": 4, None: 0}

Sets = tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]


class _Piece(NamedTuple):
    begin: int
    end: int
    is_run: bool  # of a script without blanks: it may go on in the next piece


def new_words(texts: Sequence[str], older: Sets, form: NormalForm, *, words: bool) -> list[tuple[NewWord, ...]]:
    """Return what n texts, as they were given, say that n earlier ones do not say: numbers, and with ``words`` also
    words.

    ``older`` are the word sets of the earlier texts, and where each begins. The first ``CHARACTERS_MAX`` code points of
    a text are looked at. Of each there are ``NEW_MAX`` at most, each once, numbers first, then by place; of more, the
    longest words.
    """
    texts = [text[:CHARACTERS_MAX] for text in texts]
    pieces = [list(_pieces(text)) for text in texts]
    starts = np.cumsum([0, *map(len, pieces)])
    cut = [text[piece.begin : piece.end] for text, own in zip(texts, pieces, strict=True) for piece in own]
    codes = code_points(cut, form)
    sets = word_sets(codes, _names_of(texts, codes, starts, form) if words else None, words=words)
    against = np.append(np.repeat(older[1][:-1], np.diff(starts)), older[1][-1:])
    part, new_numbers, names = said_parts(sets, (older[0], against))
    units, begins = sets[0], sets[1][:-1]
    is_number = (new_numbers > 0) & (units[begins + NUMBERS_UNIT] > 0)
    is_new = is_number | (names > 0) | ((part < 1) & (units[begins + WORDS_UNIT] > 0))
    return [
        _chosen(text, own, is_new[first:end].tolist(), is_number[first:end].tolist())
        for text, own, (first, end) in zip(texts, pieces, pairwise(starts.tolist()), strict=True)
    ]


def _names_of(texts: list[str], pieces: CodePoints, starts: npt.NDArray[np.int64], form: NormalForm) -> Names:
    """Return of each piece that begins with a name of its text this name; the pieces of text i are those from
    ``starts[i]`` on."""
    found, tokens = names_in(without_longer(raw_texts(texts), CHARACTERS_MAX, texts), form), leading_hashes(pieces)
    is_name = np.zeros(len(tokens), np.bool_)
    for (first, end), (begin, last) in zip(pairwise(starts.tolist()), pairwise(found.starts.tolist()), strict=True):
        if begin < last:
            is_name[first:end] = np.isin(tokens[first:end], found.tokens[begin:last])
    return Names(tokens[is_name], np.append(0, np.cumsum(is_name)))


@functools.cache
def _patterns() -> list[Any]:
    """The patterns of a piece, of an ideograph and of a mark."""
    import regex

    return [regex.compile(pattern) for pattern in (_WORDS, rf"[{_IDEOGRAPHS}]", r"\p{M}")]


def _pieces(text: str) -> Iterator[_Piece]:
    pieces, ideograph, mark = _patterns()
    for found in pieces.finditer(text):
        begin, end = found.span()
        letters = _LETTERS[found.lastgroup]
        if letters:
            for at in range(begin, max(begin, end - letters) + 1):
                if mark.match(text[at]):  # alone it would begin no run
                    continue
                if end - begin < letters and ideograph.search(text[max(0, begin - 1) : begin] + text[end : end + 1]):
                    continue  # what stands between numerals
                yield _Piece(at, min(at + letters, end), is_run=True)
            continue
        while begin < end and not text[begin].isalnum():
            begin += 1
        while begin < end and not text[end - 1].isalnum():
            end -= 1
        if begin < end:
            yield _Piece(begin, end, is_run=False)


def _chosen(text: str, pieces: list[_Piece], is_new: list[bool], is_number: list[bool]) -> tuple[NewWord, ...]:
    """Return the new pieces of a text; runs of one stretch that overlap are one piece."""
    found: list[NewWord] = []
    for piece, new, number in zip(pieces, is_new, is_number, strict=True):
        if not new:
            continue
        last = found[-1] if found else None
        if piece.is_run and last is not None and not last.is_number and piece.begin < last.end:
            found[-1] = NewWord(text[last.begin : piece.end], last.begin, piece.end, is_number=False)
        else:
            found.append(NewWord(text[piece.begin : piece.end], piece.begin, piece.end, is_number=number))
    once = {word.text.casefold(): word for word in reversed(found)}.values()
    chosen = sorted(once, key=lambda word: (not word.is_number, word.begin - word.end, word.begin))[:NEW_MAX]
    return tuple(sorted(chosen, key=lambda word: (not word.is_number, word.begin)))
