"""URLs as sets of positional bigrams, which show mirror hosts: (first token, second token, position).

A URL is a run of code points above the blank; a scheme (``http://``) is left out. Its tokens are the runs of letters in
small ASCII letters: punctuation and digits separate. Tokens that occur in URLs everywhere are dropped (``url_stops``).
Of the remaining tokens, token t and the k - 1 tokens after it are the shingle of position t. A URL with fewer tokens is
one shingle of position 0. The text of a host is the sequence of its URLs.

Source: Chakrabarti, "Mining the Web", 2003; Bharat, Broder, Dean, Henzinger, "A comparison of techniques to find
mirrored hosts on the WWW", 2000.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.features.texts.unicode_table import code_points_of
from neardup.features.texts.words import NUMERIC, WORD_CLASS, WORDLIKE, folded, word_rules, word_table
from neardup.machine.compile import inner, kernel
from neardup.machine.kernels.hashing import BASE, mix64

# Components of URLs that say nothing about the host.
URL_STOP_WORDS = ("htm", "html", "txt", "main", "index", "home", "bin", "cgi")
# The name of the rules above; changed rules get a new name.
_RULES = "urls-1"

_ONE = np.uint64(1)
_BLANK, _COLON, _SLASH = 0x20, 0x3A, 0x2F
_CAPITAL_A, _CAPITAL_Z, _TO_SMALL = 0x41, 0x5A, 0x20


@functools.cache
def url_stops(words: tuple[str, ...] | None = None) -> npt.NDArray[np.uint64]:
    """Return the hashes of the dropped tokens, in ascending order, each once, read-only.

    They are ``words``, normalised as text is (NFKC, case folded, NFKC), or ``URL_STOP_WORDS`` if it is ``None``.
    Raises ``ConfigError`` for a word that is not one run of letters.
    """
    stops = np.unique(np.array([_hash_word(word) for word in words or URL_STOP_WORDS], np.uint64))
    stops.flags.writeable = False
    return stops


def _hash_word(word: str) -> int:
    codes = code_points_of(folded(word))
    tokens = np.empty(len(codes), np.uint64)
    lettered = (word_table()[codes] & WORDLIKE != 0) & (word_table()[codes] & WORD_CLASS != NUMERIC)
    if _all_tokens(codes, word_table(), tokens) != 1 or not lettered.all():
        raise ConfigError(
            f"stop_words has {word!r}, but digits and punctuation separate the tokens of a URL: give letters only, one "
            "run of them an entry or a line"
        )
    return int(tokens[0])


@functools.cache
def url_rules(words: tuple[str, ...] | None = None) -> str:
    """Return the name of the rules for a fingerprint: the rules, the dropped tokens, and the definition of a letter."""
    digest = hashlib.blake2b(url_stops(words).astype("<u8").tobytes(), digest_size=8).hexdigest()
    return f"{_RULES}-{digest}-{word_rules()}"


@inner
def url_grams(codes, k, table, stops, tokens, out):
    """Write the hashes of the positional k-grams of every URL in ``codes`` (``uint8[n]`` or ``uint32[n]``) to ``out``,
    ``uint64[n]``; return how many. ``table`` is ``word_table()``, ``stops`` is from ``url_stops``, ``tokens`` is
    scratch, ``uint64[n]``."""
    n, count, i = len(codes), 0, 0
    while i < n:
        while i < n and codes[i] <= _BLANK:
            i += 1
        end = i
        while end < n and codes[end] > _BLANK:
            end += 1
        token_count = _url_tokens(codes, _after_scheme(codes, i, end), end, table, stops, tokens)
        size = min(k, token_count)
        for position in range(token_count - size + 1 if token_count else 0):
            h = np.uint64(position) + _ONE
            for t in range(position, position + size):
                h = h * BASE + (tokens[t] + _ONE)
            out[count] = mix64(h)
            count += 1
        i = end
    return count


@inner
def _after_scheme(codes, first, end):
    for i in range(first, end - 2):
        if codes[i] == _COLON:
            return i + 3 if codes[i + 1] == _SLASH and codes[i + 2] == _SLASH else first
        if codes[i] == _SLASH:
            return first
    return first


@inner
def _is_stop(stops, token):
    low, high = 0, len(stops)
    while low < high:
        middle = (low + high) // 2
        if stops[middle] < token:
            low = middle + 1
        else:
            high = middle
    return low < len(stops) and stops[low] == token


@inner
def _url_tokens(codes, first, end, table, stops, tokens):
    """Write the hashes of the remaining tokens of one URL; return how many."""
    token_count, h = 0, np.uint64(0)
    for i in range(first, end + 1):
        entry = table[codes[i]] if i < end else 0
        if entry & WORDLIKE and entry & WORD_CLASS != NUMERIC:
            code = codes[i]
            if _CAPITAL_A <= code <= _CAPITAL_Z:
                code = code + _TO_SMALL
            h = h * BASE + (np.uint64(code) + _ONE)
        elif h:
            token = mix64(h)
            if not _is_stop(stops, token):
                tokens[token_count] = token
                token_count += 1
            h = np.uint64(0)
    return token_count


@kernel("u32[], const u8[], u64[]")
def _all_tokens(codes, table, tokens):
    """Write the hashes of all tokens of one URL without a scheme, none dropped; return how many."""
    return _url_tokens(codes, 0, len(codes), table, tokens[:0], tokens)
