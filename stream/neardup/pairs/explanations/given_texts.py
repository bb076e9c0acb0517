"""Passages in the texts as they were given: where normalised code points come from, and which passages are equal.

A passage is known from hashes, as begin and end in the normalised texts. A reader who has a text wants its own
characters. A text is cut into pieces that normalise each by itself (grapheme clusters); if they do not, into words and
white space; else it is one piece. A span of normalised code points covers the pieces that it touches.

Where both texts are there, a passage is compared letter by letter. Its ends are estimates, half of the distance to the
next hash at most beyond the common text. So the longest equal stretch of its diagonal is extended as far as the texts
agree. If that reaches both ends, the stretch is the passage.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Relation
from neardup.documents.pieces import Marked
from neardup.features.texts.marks import blanks_between_han
from neardup.features.texts.normalize import NormalForm, normalize, normalize_any
from neardup.features.texts.unicode_table import text_of
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES

# Ways to cut a text into pieces, the finest first.
_PIECES = r"\X", r"\s+|\S+", r"(?s).+"
_WIDE = np.dtype("<u4")

Span = tuple[int, int]


class GivenText(NamedTuple):
    """A normalised text (``codes``, ``uint32[n]``), and of each of its code points the begin and the end of what it
    comes from in the given text (``int64[n]``)."""

    codes: npt.NDArray[np.uint32]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def given(self, begin: int, end: int) -> Span:
        """Return the smallest span of the given text that covers a span of the normalised one."""
        end = min(end, len(self.codes))
        return (0, 0) if begin >= end else (int(self.begins[begin]), int(self.ends[end - 1]))


def given_text(text: str, form: NormalForm) -> GivenText:
    """Return where the normalised code points of a text come from.

    >>> given_text("Stra\\u00dfe", NormalForm()).given(4, 5)
    (4, 5)
    """
    import regex

    whole = normalize_any(text, form)
    for pattern in _PIECES:
        pieces = _from_pieces(regex.findall(pattern, text), form)
        if pieces.codes.tobytes() == whole.encode("utf-32-le", "surrogatepass"):
            return pieces
    raise AssertionError("a text that is one piece is normalised as a whole")


def _from_pieces(pieces: list[str], form: NormalForm) -> GivenText:
    steps = form._replace(fold_space=False)
    normal = list(pieces) if steps == NormalForm(False, False, False) else [_piece(piece, steps) for piece in pieces]
    at = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))])
    owners = np.repeat(np.arange(len(pieces)), np.fromiter(map(len, normal), np.int64, len(normal)))
    joined = "".join(normal)
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), _WIDE)
    begins, ends = at[owners], at[owners + 1]
    if not form.fold_space or not joined:
        return _closed_up(GivenText(codes, begins, ends), form)
    blank = np.fromiter(map(str.isspace, joined), np.bool_, len(joined))
    firsts = np.flatnonzero(~blank | ~np.concatenate([[False], blank[:-1]]))
    lasts = np.append(firsts[1:], len(codes)) - 1
    codes = np.where(blank[firsts], np.uint32(32), codes[firsts]).astype(np.uint32)
    inner = slice(int(bool(len(codes)) and codes[0] == 32), len(codes) - int(len(codes) > 1 and codes[-1] == 32))
    return _closed_up(GivenText(codes[inner], begins[firsts][inner], ends[lasts][inner]), form)


def _closed_up(text: GivenText, form: NormalForm) -> GivenText:
    """Without the blanks between Han, if the form has none: one piece knows nothing of its neighbours."""
    kept = np.ones(len(text.codes), np.bool_)
    for begin, end in blanks_between_han(text_of(text.codes)) if form.fold_marks else ():
        kept[begin:end] = False
    return GivenText(text.codes[kept], text.begins[kept], text.ends[kept])


@lru_cache(1 << 16)
def _piece(piece: str, form: NormalForm) -> str:
    return normalize(piece, form)


def verified(
    older: npt.NDArray[np.uint32], newer: npt.NDArray[np.uint32], span: tuple[int, int, int, int], reach: int
) -> tuple[int, int, int, int] | None:
    """Return the equal passage of two normalised texts that an estimated one stands for, ``None`` if it is not equal
    letter by letter. ``span`` is begin and end in the older and in the newer text; each end is beyond the common text
    by ``reach`` at most."""
    begin, end, other, other_end = span
    if end - begin != other_end - other or end > len(older) or other_end > len(newer):
        return None
    before = min(begin, other)
    after = min(len(older) - end, len(newer) - other_end)
    equal = older[begin - before : end + after] == newer[other - before : other_end + after]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], equal, [False]]).astype(np.int8))).reshape(-1, 2)
    # The stretches that touch the estimate; the longest of them is the passage, or there is none.
    touching = edges[(edges[:, 1] > before) & (edges[:, 0] < before + end - begin)]
    if not len(touching):
        return None
    first, last = touching[np.argmax(touching[:, 1] - touching[:, 0])].tolist()
    if first > before + reach or last < before + end - begin - reach:
        return None
    first, last = first - before, last - before
    return begin + first, begin + last, other + first, other + last


def marked(older: str, newer: str, relation: Relation, plan: Any) -> tuple[tuple[Marked, ...], ...]:
    """Return two texts as they were given, by what they share under a plan of scheme ``passages``, in pieces of which
    those of passages have numbers. Joined they are the texts."""
    texts = [given_text(text, plan.normal_form) for text in (older, newer)]
    spans: list[list[tuple[int, int, int, bool]]] = [[], []]
    for number, span in enumerate(relation.passages):
        exact = verified(texts[0].codes, texts[1].codes, span, plan.window // 2)
        part = exact or span
        for side in range(2):
            spans[side].append((*texts[side].given(*part[2 * side : 2 * side + 2]), number, exact is not None))
    return tuple(tuple(_pieces(text, sorted(side))) for text, side in zip((older, newer), spans, strict=True))


def _pieces(text: str, spans: list[tuple[int, int, int, bool]]) -> Iterator[Marked]:
    """Yield a text in pieces; where passages overlap, the first one has the letters."""
    at = 0
    for begin, end, number, exact in spans:
        begin = max(begin, at)
        if at < begin:
            yield Marked(text[at:begin])
        if begin < end:
            yield Marked(text[begin:end], number, exact)
        at = max(at, end)
    if at < len(text):
        yield Marked(text[at:])


class GivenTexts:
    """The newest texts, of some ``bytes_max`` of UTF-8, for the passages of later ones; ``plan`` is that of scheme
    ``passages``."""

    @classmethod
    def of(cls, config: Config) -> GivenTexts | None:
        """Return no texts yet; ``None`` for a scheme that does not know what texts share."""
        return None if SCHEMES[config.scheme].shared is None else cls(config.plan)

    def __init__(self, plan: Any, bytes_max: int = 64 << 20) -> None:
        self._form, self._reach, self._bytes_max = plan.normal_form, plan.window // 2, bytes_max
        self._texts: OrderedDict[tuple[str | None, str], bytes] = OrderedDict()
        self._bytes = 0

    def add(self, id_: str, text: str, collection: str | None = None) -> None:
        """Hold a text; the oldest ones are given up."""
        key, data = (collection or None, id_), text.encode(errors="surrogatepass")
        self._bytes += len(data) - len(self._texts.pop(key, b""))
        self._texts[key] = data
        while self._bytes > self._bytes_max:
            self._bytes -= len(self._texts.popitem(last=False)[1])

    def passages(self, relation: Relation, text: str, collection: str | None = None) -> list[dict[str, Any]]:
        """Return the passages of a relation of a text as values of JSON: ``older``, ``newer``, and ``given``, the span
        of the given text. ``exact`` where both texts are held and the passage is equal letter by letter."""
        newer = given_text(text, self._form)
        held = self._texts.get((collection or None, relation.id))
        older = None if held is None else given_text(held.decode(errors="surrogatepass"), self._form)
        out: list[dict[str, Any]] = []
        for span in relation.passages:
            exact = None if older is None else verified(older.codes, newer.codes, span, self._reach)
            begin, end, other, other_end = exact or span
            values = {"older": [begin, end], "newer": [other, other_end], "given": list(newer.given(other, other_end))}
            out.append(values if exact is None else values | {"exact": True})
        return out
