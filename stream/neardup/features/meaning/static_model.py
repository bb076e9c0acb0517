"""Vectors of texts by a static model: the sum of the vectors of its pieces, in whatever order they stand.

WordLlama has the first layer of a large language model, trained to 256 components whose cosines tell what is about the
same. Its wheel brings the weights and the table of pieces, so that nothing is loaded from a network. A piece never
crosses a blank, so the vector of a word is a sum that is looked up once: a title costs a look-up for each of its words,
by a hash of 64 bits of its characters.

Source: Miller, "WordLlama: recycled token embeddings from large language models", 2024.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import zlib
from collections.abc import Callable, Sequence
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError, install_command
from neardup.features.texts.raw_texts import raw_texts
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import string_hash
from neardup.machine.memory import bytes_at, halves_at, words_at

# Words of a text that are read: its beginning says what it is about.
WORDS_MAX = 32
# So many vectors of words are kept, a kilobyte each; with more, all are looked up again.
_KEPT_MAX = 1 << 16
# So many words are looked up at once: each may have 257 pieces of 1.5 kB.
_WORDS_AT_ONCE = 64
# Characters of a word that are read.
_CHARACTERS_MAX = 64
# Name of a model -> its package, the files in it, and the CRC-32 of the weights: other weights make other vectors.
MODELS = {
    "wordllama": (
        "wordllama", "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
        "wordllama/weights/l2_supercat_256.safetensors", 0x56C6AE6F,
    ),
}  # fmt: skip
DIMENSION = 256

Pieces = Callable[[str], Sequence[int]]


class StaticModel:
    """The vectors of words, by the ``weights`` of their ``pieces`` (``float16[p, d]`` or ``float32[p, d]``). Threads
    may share one."""

    def __init__(self, weights: npt.NDArray[Any], pieces: Pieces) -> None:
        self._weights, self._pieces, self._lock = weights, pieces, Lock()
        self._known = 0
        self._hashes, self._rows = np.zeros(4096, np.uint64), np.empty(4096, np.int64)  # of known words
        self._sums = np.zeros((1024, weights.shape[1]), np.float32)

    def vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the sums of n texts, ``float32[n, d]``: zeros for a text without a word.

        >>> model = StaticModel(np.eye(3, dtype=np.float32), lambda word: [ord(word[0]) % 3])
        >>> model.vectors(["a b a", ""]).tolist()
        [[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]]
        """
        raw, starts, most = raw_texts(texts), np.zeros(len(texts) + 1, np.int64), WORDS_MAX * len(texts)
        hashes, rows, spans = np.empty(most, np.uint64), np.empty(most, np.int64), np.empty((most, 3), np.int64)
        out = np.empty((len(texts), self._weights.shape[1]), np.float32)
        with self._lock:
            while unknown := _find(raw, _BLANK, self._hashes, self._rows, hashes, rows, starts, spans):
                self._learn(texts, hashes[: starts[-1]], np.flatnonzero(rows[: starts[-1]] < 0), spans[:unknown])
            _add(self._sums, rows, starts, out)
        return out

    def _learn(
        self, texts: Sequence[str], hashes: npt.NDArray[np.uint64], at: npt.NDArray[np.int64],
        spans: npt.NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Keep the sums of words, the spans of texts, with their hashes, which stand there."""
        if self._known > _KEPT_MAX:
            self._known, self._hashes[:] = 0, 0
            return  # those of the texts that were known are looked up again too
        new, first = np.unique(hashes[at], return_index=True)
        wanted, held = self._known + len(new), self._known
        if wanted > len(self._sums):
            self._sums = np.concatenate([self._sums, np.empty((wanted, self._sums.shape[1]), np.float32)])
        if 2 * wanted > len(self._hashes):
            kept, kept_rows = self._hashes[self._hashes > 0], self._rows[self._hashes > 0]
            entries = 1 << (4 * wanted).bit_length()
            self._hashes, self._rows = np.zeros(entries, np.uint64), np.empty(entries, np.int64)
            _keep(kept, kept_rows, self._hashes, self._rows)
        found = spans[first].tolist()
        for begun in range(0, len(new), _WORDS_AT_ONCE):
            part = found[begun : begun + _WORDS_AT_ONCE]
            pieces = [self._pieces(texts[text][begin:end][:_CHARACTERS_MAX]) for text, begin, end in part]
            weights = self._weights[np.fromiter(chain.from_iterable(pieces), np.int64)].astype(np.float32)
            sums = self._sums[held + begun : held + begun + len(part)]
            _add(weights, np.arange(len(weights)), np.cumsum([0, *map(len, pieces)]), sums)
        _keep(new, np.arange(held, wanted), self._hashes, self._rows)
        self._known = wanted


# Which code points are white space, as ``str.split`` has it; none above is.
_BLANK = np.array([chr(code).isspace() for code in range(0x3001)])


@kernel("RawTexts, const bool[], const u64[], const i64[], u64[], i64[], i64[], i64[,]", direct=True)
def _find(texts, blank, known, known_rows, hashes, rows, starts, spans):
    """Find the first words of texts: their hashes and rows, one after the other, from ``starts`` on; -1 for a word that
    is not known. Write the spans of these: text, begin and end. Return how many they are."""
    found = unknown = np.int64(0)
    for i in range(len(texts.addresses)):
        address, length, width = texts.addresses[i], texts.lengths[i], texts.widths[i]
        if width <= 1:
            found, unknown = words_of(
                bytes_at(address, length), i, blank, known, known_rows, hashes, rows, spans, found, unknown
            )
        elif width == 2:
            found, unknown = words_of(
                halves_at(address, length), i, blank, known, known_rows, hashes, rows, spans, found, unknown
            )
        else:
            found, unknown = words_of(
                words_at(address, length), i, blank, known, known_rows, hashes, rows, spans, found, unknown
            )
        starts[i + 1] = found
    return unknown


@inner
def words_of(codes, i, blank, known, known_rows, hashes, rows, spans, found, unknown):
    """Find the first words of one text; return how many were found so far, and of these are not known."""
    mask, end, p = np.uint64(len(known) - 1), found + WORDS_MAX, 0
    while found < end:
        while p < len(codes) and is_blank(codes[p], blank):
            p += 1
        if p == len(codes):
            break
        begin = p
        while p < len(codes) and not is_blank(codes[p], blank):
            p += 1
        hash_ = max(string_hash(codes, begin, p, np.uint64(0)), np.uint64(1))
        at = hash_ & mask
        while known[at] != hash_ and known[at] != 0:
            at = (at + np.uint64(1)) & mask
        hashes[found], rows[found] = hash_, known_rows[at] if known[at] != 0 else -1
        if known[at] == 0:
            spans[unknown, 0], spans[unknown, 1], spans[unknown, 2] = i, begin, p
            unknown += 1
        found += 1
    return found, unknown


@inlined
def is_blank(code, blank):
    """Return whether a code point is white space."""
    return code < len(blank) and blank[code]


@kernel("const u64[], const i64[], u64[], i64[]")
def _keep(new, new_rows, known, known_rows):
    """Add hashes and their rows to an open table, a power of two."""
    mask = np.uint64(len(known) - 1)
    for i in range(len(new)):
        at = new[i] & mask
        while known[at] != 0:
            at = (at + np.uint64(1)) & mask
        known[at], known_rows[at] = new[i], new_rows[i]


@kernel("const f32[,], const i64[], const i64[], f32[,]", direct=True)
def _add(sums, numbers, starts, out):
    for i in range(len(out)):
        row = out[i]
        for j in range(len(row)):
            row[j] = np.float32(0.0)
        for k in range(starts[i], starts[i + 1]):
            word = sums[numbers[k]]
            for j in range(len(row)):
                row[j] += word[j]


@functools.cache
def model_of(name: str) -> StaticModel:
    """Return a model of ``MODELS``, loaded once.

    Raises:
        ConfigError: its package is not installed, or has other weights.
    """
    package, tokenizer, weights, crc = MODELS[name]
    try:
        parts = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        parts = []
    found = {str(part): part for part in parts}
    if weights not in found:
        raise ConfigError(f"model={name} needs the package {package}, not installed here: {install_command('meaning')}")
    content = found[weights].read_binary()
    if zlib.crc32(content) != crc:
        raise ConfigError(
            f"model={name}: the weights of the installed {package} are others, which make other vectors: "
            f"{install_command('meaning')}"
        )
    # By name: no type checker needs the packages of this extra.
    encode = importlib.import_module("tokenizers").Tokenizer.from_str(found[tokenizer].read_text("utf-8")).encode
    [matrix] = importlib.import_module("safetensors.numpy").load(content).values()
    return StaticModel(matrix, lambda word: encode(word, add_special_tokens=False).ids)
