"""Vectors of texts by a static model: the sum of the vectors of its pieces, in whatever order they stand.

WordLlama has the first layer of a large language model, trained to 256 components whose cosines tell what is about the
same. Its wheel brings the weights and the table of pieces, so that nothing is loaded from a network. A piece never
crosses a blank, so the vector of a word is a sum that is looked up once: a title costs a look-up for each of its words.

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
from neardup.machine.compile import kernel

# Words of a text that are read: its beginning says what it is about.
WORDS_MAX = 32
# So many vectors of words are kept, a kilobyte each; with more, all are looked up again.
_KEPT_MAX = 1 << 16
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
    """The vectors of words. Threads may share one.

    Args:
        weights: of each piece, ``float16[p, d]`` or ``float32[p, d]``.
        pieces: the pieces of a word.
    """

    def __init__(self, weights: npt.NDArray[Any], pieces: Pieces) -> None:
        self._weights, self._pieces, self._lock = weights, pieces, Lock()
        self._known: dict[str, int] = {}
        self._sums = np.zeros((1024, weights.shape[1]), np.float32)

    def vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the sums of n texts, ``float32[n, d]``: zeros for a text without a word.

        >>> model = StaticModel(np.eye(3, dtype=np.float32), lambda word: [ord(word[0]) % 3])
        >>> model.vectors(["a b a", ""]).tolist()
        [[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]]
        """
        split = [text.split(None, WORDS_MAX)[:WORDS_MAX] for text in texts]
        starts = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(list(map(len, split)), out=starts[1:])
        out = np.empty((len(texts), self._weights.shape[1]), np.float32)
        with self._lock:
            numbers = list(map(self._known.get, chain.from_iterable(split)))
            if None in numbers:
                numbers = self._learned(list(chain.from_iterable(split)))
            _add(self._sums, np.array(numbers, np.int64), starts, out)
        return out

    def _learned(self, words: Sequence[str]) -> list[int | None]:
        """Return the rows of words, of which some are new."""
        if len(self._known) > _KEPT_MAX:
            self._known.clear()
        for word in words:
            if word not in self._known:
                number = len(self._known)
                if number == len(self._sums):
                    self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
                pieces = list(self._pieces(word[:_CHARACTERS_MAX]))
                self._sums[number] = self._weights[pieces].astype(np.float32).sum(axis=0)
                self._known[word] = number
        return [self._known[word] for word in words]


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
