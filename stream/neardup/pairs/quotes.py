"""Quotes of a few texts: the parts that each text shares with the ones before it, and which of them to show.

The best parts come first. A part is left out if ``_LAYERS`` better ones cover half of it: a report of which forty
copies exist is shown twice, not forty times. The depth of a part is how many of the texts before have it. A short part
of some depth is a phrase: on a wire nearly all are names of bodies and sentences of forms. Pairs that share no more and
less than half of the newer text are no part of a cover.

Of 221 pairs of a wire in a cover that were read, 90 are quotes. Parts of 10 points would say more of what is common:
with them in the depths 89 of the quotes stay and 82 of the 131 others, for twice the time of a match. So would a seed
that at most two earlier texts have, but a table holds one seed in eight, and by these it loses a sixth of the quotes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from neardup.documents.document import HALF, REASONS, Document, Pair
from neardup.errors import ConfigError
from neardup.pairs.explanations.given_texts import given_text
from neardup.pairs.pair_rule import Matches
from neardup.pairs.signing import Signer
from neardup.schemes.config import Config
from neardup.schemes.kinds.parts import Part, PartPlan, parts_of

_LAYERS = 2
# The greatest value of the setting.
_CHARACTERS_MAX = 1 << 28
# With fewer code points and from this depth on, a part is a phrase: it says little of where a text comes from.
_PHRASE_LENGTH, _PHRASE_DEPTH = 250, 4


class Quote(NamedTuple):
    """A part that two texts share: the number of the older and of the newer text, its begin and end in each as they
    were given, its score, and how many of the texts before the newer one have it."""

    older: int
    newer: int
    older_span: tuple[int, int]
    newer_span: tuple[int, int]
    score: float
    depth: int

    @property
    def is_phrase(self) -> bool:
        """Whether many texts have it and it is short: a name of an institution, a turn of phrase."""
        return self.newer_span[1] - self.newer_span[0] < _PHRASE_LENGTH and self.depth >= _PHRASE_DEPTH


def quotes(texts: Sequence[str], config: Config, names: Sequence[str] = ()) -> list[Quote]:
    """Return the quotes of each text from those before it, by the newer text and its order.

    Args:
        texts: as they are given, the older ones first.
        config: of scheme ``parts``. Texts of any length are read: they are in memory, and none is kept.
        names: of the texts, for messages; by default their numbers.

    Raises:
        ConfigError: a text cannot be used, or the scheme is another one.

    Example:
        >>> sentence = "it was the best of times, it was the worst of times, it was the age of wisdom"
        >>> (quote,) = quotes([f"{sentence}.", f"Dickens begins: {sentence}!"], Config(scheme="parts"))
        >>> quote.older_span, quote.newer_span, quote.score, quote.depth
        ((0, 77), (16, 93), 23.0, 1)
    """
    if config.scheme != "parts":
        raise ConfigError(f"scheme={config.scheme} finds no quotes: set scheme to parts, or leave it out")
    config = config.model_copy(update={"text_characters_max": _CHARACTERS_MAX})
    signed = Signer(config).sign([Document(str(n), text) for n, text in enumerate(texts)])
    if signed.refusals:
        number, _, reason = signed.refusals[0]
        raise ConfigError(f"{names[number] if names else f'text {number + 1}'} has no quotes: {REASONS[reason]}")
    evidence, plan = signed.batch.evidence, cast(PartPlan, config.plan)
    maps = [given_text(text, plan.normal_form) for text in texts]
    out = []
    for newer in range(1, len(texts)):
        rows = np.arange(newer)
        found = parts_of(evidence.select(np.full(newer, newer)), evidence.select(rows), plan)
        for older, part, depth in covering(found, len(maps[newer].codes)):
            spans = maps[older].given(*part.older), maps[newer].given(*part.newer)
            out.append(Quote(older, newer, *spans, part.score, depth))
    return out


def covering(found: Sequence[Sequence[Part]], length: int) -> list[tuple[int, Part, int]]:
    """Return which parts of a text to show, by their order in it: the number of the older text, the part, and its
    depth. ``found`` are the parts that the text, of ``length`` normalised code points, shares with each of some older
    texts."""
    layers, depths = np.zeros(length, np.uint8), np.zeros(length, np.int32)
    for parts in found:
        has = np.zeros(length, np.bool_)
        for part in parts:
            has[slice(*part.newer)] = True
        depths += has
    every = [(older, part) for older, parts in enumerate(found) for part in parts]
    chosen = []
    for older, part in sorted(every, key=lambda one: (-one[1].score, one[0], one[1].newer)):
        if _laid(layers, [part.newer]):
            chosen.append((older, part, int(np.median(depths[slice(*part.newer)]))))
    return sorted(chosen, key=lambda one: (one[1].newer, one[0]))


def covering_first(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of a text, the newer one of each, in the order in which they explain it: those that share most
    of it come first, and behind them those that add nothing, as better ones cover what they share."""
    known = [(pair, relation) for pair in pairs if (relation := pair.relation) is not None]
    known.sort(key=lambda one: (-one[1].newer_fraction, -one[0].similarity))
    fractions = [relation.newer_fraction for _, relation in known]
    laid = _cover([[span[2:] for span in relation.passages] for _, relation in known], fractions)
    return [pair for wanted in (True, False) for (pair, _), is_new in zip(known, laid, strict=True) if is_new is wanted]


def covered(matches: Matches, items: npt.NDArray[Any]) -> Matches:
    """Mark the pairs that together cover the newer text, as ``covering_first`` puts them first; without what they share
    they stay as they are. ``matches`` are all pairs of some items, the documents that arrived later. Pairs in which
    such a one is the older one by time have a cover of their own."""
    if matches.shared is None:
        return matches
    fractions, spans, starts = matches.shared
    rows_of: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for row, text in enumerate(zip(items.tolist(), matches.newer, strict=True)):
        rows_of[text].append(row)
    newer, similarity, cover = fractions[:, 1].tolist(), matches.similarity.tolist(), np.ones(len(items), np.bool_)
    for rows in rows_of.values():
        if len(rows) > _LAYERS:
            rows.sort(key=lambda row: (-newer[row], -similarity[row], matches.older[row]))
            stretches = [spans[starts[row] : starts[row + 1], 2:].tolist() for row in rows]
            cover[rows] = _cover(stretches, [newer[row] for row in rows])
    return matches._replace(cover=cover)


def _cover(parts: Sequence[Sequence[Sequence[int]]], fractions: Sequence[float]) -> list[bool]:
    """Return which of the lists of stretches of a text are laid over it, the best ones first; each has this fraction of
    the text. A list counts once where its stretches overlap, as exact runs do that go on in two places of the older
    text."""
    parts = [_apart(stretches) for stretches in parts]
    length = max((end for stretches in parts for _, end in stretches), default=0)
    layers, depths = np.zeros(length, np.uint8), np.zeros(length + 1, np.int32)
    for begin, end in (stretch for stretches in parts for stretch in stretches):
        depths[begin] += 1
        depths[end] -= 1
    is_deep = np.cumsum(depths) >= _PHRASE_DEPTH
    return [
        (fraction >= HALF or not _are_phrases(is_deep, stretches)) and _laid(layers, stretches)
        for stretches, fraction in zip(parts, fractions, strict=True)
    ]


def _apart(stretches: Sequence[Sequence[int]]) -> list[list[int]]:
    """The stretches in their order, those that overlap as one."""
    out: list[list[int]] = []
    for begin, end in sorted((begin, end) for begin, end in stretches):
        if out and begin < out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def _are_phrases(is_deep: npt.NDArray[np.bool_], stretches: Sequence[Sequence[int]]) -> bool:
    """Return whether stretches are short together, and half of each is deep."""
    return sum(end - begin for begin, end in stretches) < _PHRASE_LENGTH and all(
        int(np.count_nonzero(is_deep[begin:end])) * 2 >= end - begin for begin, end in stretches
    )


def _laid(layers: npt.NDArray[np.uint8], stretches: Sequence[Sequence[int]]) -> bool:
    """Lay stretches over a text, unless ``_LAYERS`` better ones cover half of them; return whether they were laid."""
    covered = sum(int(np.count_nonzero(layers[slice(*one)] >= _LAYERS)) for one in stretches)
    if covered * 2 > sum(end - begin for begin, end in stretches):
        return False
    for stretch in stretches:
        layers[slice(*stretch)] += layers[slice(*stretch)] < _LAYERS
    return True
