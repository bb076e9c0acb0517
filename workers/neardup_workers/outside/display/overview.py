"""The overview at the end of a run: the documents with the most near-duplicates, and a histogram of similarities."""

from __future__ import annotations

from collections import Counter

import numpy as np

from neardup.pairs.pair_rule import Matches

# Maximum number of counted ids; later ids are not counted.
IDS_MAX = 1_000_000
_SHOWN = 10
_BINS = 10
_BAR_COLUMNS = 40


class Overview:
    """Counts the pairs of a run by document and by similarity."""

    def __init__(self) -> None:
        self.pairs_of: Counter[str] = Counter()
        self.similarities = np.zeros(_BINS + 1, np.int64)  # bins of a tenth; the last one is for 1

    def add(self, matches: Matches) -> None:
        """Count pairs."""
        for id_ in (*matches.older, *matches.newer):
            if id_ in self.pairs_of or len(self.pairs_of) < IDS_MAX:
                self.pairs_of[id_] += 1
        bins = np.floor(matches.similarity * _BINS).astype(np.int64)
        self.similarities += np.bincount(bins, minlength=_BINS + 1)

    def lines(self) -> list[str]:
        """Return the overview as lines of text, empty without a pair."""
        if not self.pairs_of:
            return []
        out = ["documents with the most near-duplicates:"]
        out += [f"{count:>8,}  {id_}" for id_, count in self.pairs_of.most_common(_SHOWN)]
        out.append("pairs by similarity:")
        most = int(self.similarities.max())
        for n in np.flatnonzero(self.similarities).tolist():
            count = int(self.similarities[n])
            name = "1.0 (copies)" if n == _BINS else f"{n / _BINS:.1f} to {(n + 1) / _BINS:.1f}"
            out.append(f"{name:>12} {'#' * max(1, round(_BAR_COLUMNS * count / most))} {count:,}")
        return out
