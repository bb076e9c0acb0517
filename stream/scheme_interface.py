"""The frame that every scheme fits: what a document becomes on its way to a pair, and the row that says how.

Document -> features -> evidence -> keys -> (table) -> candidates -> common -> pair.

Evidence is all that the table keeps of an item and all that travels between machines: a part of fixed width (a sketch,
a vector), a ragged part (a set of tokens, the fields of a record), or both. Keys are made from the evidence alone, and
what a pair has in common is told from two pieces of evidence. So no two places can disagree about a key, and who has
the evidence needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from stream.documents import Document, Features
from stream.kernels.compile import kernel
from stream.parameters import Parameters
from stream.theory.tuning import Tuning

Starts = npt.NDArray[np.int64]


class Reading(NamedTuple):
    """What was read of documents: the features of those that can be used, in order; the others by place, each with a
    reason (a key of ``REASONS``); and how many characters."""

    features: Features
    refused: dict[int, str]
    characters: int


class Evidence(NamedTuple):
    """What is kept of n items: ``fixed`` is ``uint8[n, width]``; the ragged part of item i is
    ``ragged[starts[i]:starts[i + 1]]`` (``uint8``, ``int64[n + 1]``), empty where a scheme keeps none."""

    fixed: npt.NDArray[np.uint8]
    ragged: npt.NDArray[np.uint8]
    starts: Starts

    def select(self, rows: npt.NDArray[Any]) -> Evidence:
        """Some items, in the given order; ``rows`` are their places or a mask."""
        ragged, starts = select_ragged(self.ragged, self.starts, rows)
        return Evidence(self.fixed[rows], ragged, starts)


class Keys(NamedTuple):
    """Bucket keys of n items, probed and added alike: those of item i are ``values[starts[i]:starts[i + 1]]``.

    ``payloads`` has one for each key, or is empty: what must lie within bounds between two items of a bucket, where
    the key says what must be equal; see ``stream.table.admit``.
    """

    values: npt.NDArray[np.uint64]
    starts: Starts
    payloads: npt.NDArray[np.uint64]


class Common(NamedTuple):
    """What m pairs of evidence share.

    ``first_key`` (``int32``): the first common key, as a place among the keys of the first of the two; -1 for none.
    ``keys`` (``int32``): how many keys are common. ``conditions`` (``bool``): whether every condition that a scheme
    joins by AND holds. ``similarity`` (``float64``): in [0, 1].
    """

    first_key: npt.NDArray[np.int32]
    keys: npt.NDArray[np.int32]
    conditions: npt.NDArray[np.bool_]
    similarity: npt.NDArray[np.float64]


class Plan(Protocol):
    """What every scheme's plan tells the rest of the library; the remaining fields are the scheme's own."""

    @property
    def kind(self) -> str:
        """What a document must bring: a key of ``stream.json_lines.KINDS``."""

    @property
    def width(self) -> int:
        """Bytes of the fixed part of an item's evidence."""

    @property
    def tuning(self) -> Tuning:
        """Bands, rows and thresholds."""


PlanT = TypeVar("PlanT", bound=Plan)


def no_settings(plan: Plan) -> tuple[object, ...]:
    """No settings, for a scheme whose evidence and tuning decide the whole score."""
    del plan
    return ()


def text_sample(text: str, plan: Plan) -> Document:
    """A document that is the text itself."""
    del plan
    return Document("", text)


# The settings that a scheme needs no more of than its defaults.
DEFAULTS: tuple[Mapping[str, object], ...] = ({},)


class Scheme(NamedTuple, Generic[PlanT]):
    """One row of ``SCHEMES``: plain functions and a guarantee. Their last argument is the scheme's own plan.

    Of k items ``features``, ``contents``, ``evidence`` and ``keys`` have k rows; what they say of an item does not
    depend on the items beside it.
    """

    plan: Callable[[Parameters], PlanT]  # everything resolved; raises ``ConfigError``
    features: Callable[[Sequence[Document], PlanT], Reading]
    contents: Callable[[Features], npt.NDArray[np.uint64]]  # 128-bit hash of the features, uint64[n, 2]
    evidence: Callable[[Features, PlanT], Evidence]
    keys: Callable[[Evidence, PlanT], Keys]
    common: Callable[[Evidence, Evidence, PlanT], Common]
    signing: Callable[[PlanT], tuple[object, ...]]  # all that decides a key or a piece of evidence
    by_content: bool  # whether equal features are the same content, which is linked and not compared
    exact: bool  # whether no pair at or above the threshold is missed: then no bucket is cut
    guarantee: str
    # what decides similarity and conditions beside the evidence and the tuning: a part of the matching fingerprint
    scoring: Callable[[PlanT], tuple[object, ...]] = no_settings
    # a document without an id made from a text: texts that are nearly the same make near-duplicates
    sample: Callable[[str, PlanT], Document] = text_sample
    # settings that use every kernel of the scheme between them; under each, samples of near-duplicates are pairs
    examples: tuple[Mapping[str, object], ...] = DEFAULTS


# A row of ``SCHEMES``: the rows have plans of different types, and no type says "the plan that this row made". The type
# checker verifies each row where it is written.
AnyScheme = Scheme[Any]


NO_PAYLOADS: npt.NDArray[np.uint64] = np.empty(0, np.uint64)


def fixed_evidence(fixed: npt.NDArray[np.uint8]) -> Evidence:
    """Evidence without a ragged part, from ``uint8[n, width]``."""
    return Evidence(fixed, np.empty(0, np.uint8), np.zeros(len(fixed) + 1, np.int64))


def ragged_evidence(values: npt.NDArray[Any], starts: Starts, fixed: npt.NDArray[np.uint8] | None = None) -> Evidence:
    """Evidence whose ragged part is ``values[starts[i]:starts[i + 1]]``, stored as little-endian bytes."""
    stored = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    fixed = np.empty((len(starts) - 1, 0), np.uint8) if fixed is None else fixed
    return Evidence(fixed, stored.view(np.uint8), starts * stored.itemsize)


def ragged_values(evidence: Evidence, dtype: type[np.generic]) -> tuple[npt.NDArray[Any], Starts]:
    """The ragged part as numbers, the reverse of ``ragged_evidence``: values and starts."""
    stored = np.dtype(dtype).newbyteorder("<")
    return np.ascontiguousarray(evidence.ragged).view(stored), evidence.starts // stored.itemsize


def regular_keys(values: npt.NDArray[np.uint64]) -> Keys:
    """Keys ``uint64[n, b]`` of items that have b each."""
    n, count = values.shape
    return Keys(values.reshape(-1), np.arange(n + 1) * count, NO_PAYLOADS)


def select_ragged(
    values: npt.NDArray[np.uint8], starts: Starts, rows: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.uint8], Starts]:
    """Some stretches of bytes, in the given order; ``rows`` are their places or a mask."""
    at = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    out_starts = np.zeros(len(at) + 1, np.int64)
    np.cumsum(np.diff(starts)[at], out=out_starts[1:])
    out = np.empty(int(out_starts[-1]), np.uint8)
    _gather(values, starts, at, out_starts, out)
    return out, out_starts


@kernel
def _gather(data, starts, rows, out_starts, out):
    for i in range(len(rows)):
        first = starts[rows[i]]
        for j in range(out_starts[i + 1] - out_starts[i]):
            out[out_starts[i] + j] = data[first + j]
