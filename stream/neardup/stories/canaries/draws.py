"""Numbers at random from a seed, as the edits of canaries need them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neardup.machine.kernels.hashing import GOLDEN

# The two multipliers of ``neardup.machine.kernels.hashing.mix64``, which is a kernel for kernels alone.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1


class Draws:
    """A source of numbers; equal seeds draw equal numbers.

    Example:
        >>> bool((Draws(1).numbers(3) == Draws(1).numbers(3)).all()), 0 <= Draws(2).below(10) < 10
        (True, True)
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._count = np.uint64(seed % (1 << 64)), 0

    def numbers(self, count: int) -> npt.NDArray[np.uint64]:
        """Return the next numbers, ``uint64[count]``, each of 64 bits."""
        x = self._seed ^ np.arange(self._count + 1, self._count + count + 1, dtype=np.uint64) * GOLDEN
        self._count += count
        x = (x ^ (x >> np.uint64(30))) * _FIRST
        x = (x ^ (x >> np.uint64(27))) * _SECOND
        return x ^ (x >> np.uint64(31))

    def below(self, end: int) -> int:
        """Return a number from 0 to ``end - 1``: the next one of ``numbers``, without the cost of an array."""
        self._count += 1
        x = int(self._seed) ^ (self._count * int(GOLDEN) & _MASK)
        x = (x ^ (x >> 30)) * int(_FIRST) & _MASK
        x = (x ^ (x >> 27)) * int(_SECOND) & _MASK
        return (x ^ (x >> 31)) % end

    def some(self, count: int, end: int) -> npt.NDArray[np.int64]:
        """Return ``count`` different numbers below ``end``, which is greater."""
        return np.argpartition(self.numbers(end), count)[:count]
