"""The scheme interface: the types on the path of a document to a pair, and the row of functions that makes them.

Document -> features -> evidence -> keys -> (table) -> candidates -> common -> pair.

Evidence is all that the table stores of an item and all that travels between machines: a part of fixed width (a sketch,
a vector), a ragged part (a set of tokens, the fields of a record), or both. Keys follow from the evidence alone, and
what a pair has in common follows from two pieces of evidence. So two machines never disagree about a key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document, Features
from neardup.features.texts.normalize import CodePoints
from neardup.features.texts.plain_words import PlainRules
from neardup.features.texts.reading import HeldTexts
from neardup.machine.compile import kernel
from neardup.machine.lanes import copy_range
from neardup.schemes.parameters import Parameters, SchemeOptions
from neardup.schemes.theory.tuning import Tuning
from neardup.window import BandTable

Starts = npt.NDArray[np.int64]


class Reading(NamedTuple):
    """The features of usable documents, in order; why the others are refused (position -> key of ``REASONS``); the
    number of characters read; and where more is made of texts, the normalised ones of the usable and the raw ones of
    all documents."""

    features: Features
    refused: dict[int, str]
    characters: int
    codes: CodePoints | None = None
    held: HeldTexts | None = None


class Signing(NamedTuple):
    """What a scheme makes of documents: content hashes (``uint64[n, 2]``) and evidence of the n usable ones, in order;
    the reasons of the others, by position; the numbers of characters and of features that were read; and where more is
    made of texts, the normalised ones of the usable and the raw ones of all documents."""

    contents: npt.NDArray[np.uint64]
    evidence: Evidence
    refused: dict[int, str]
    characters: int
    features: int
    codes: CodePoints | None = None
    held: HeldTexts | None = None


class Evidence(NamedTuple):
    """The stored part of n items: ``fixed`` is ``uint8[n, width]``; the ragged part of item i is
    ``ragged[starts[i]:starts[i + 1]]`` (``uint8``, ``int64[n + 1]``), empty for a scheme without one."""

    fixed: npt.NDArray[np.uint8]
    ragged: npt.NDArray[np.uint8]
    starts: Starts

    def select(self, rows: npt.NDArray[Any]) -> Evidence:
        """Return some items, in the given order; ``rows`` are positions or a mask."""
        ragged, starts = select_ragged(self.ragged, self.starts, rows)
        return Evidence(self.fixed[rows], ragged, starts)

    def item(self, n: int) -> Evidence:
        """Return one item in arrays of its own, as ``select`` does, in less time."""
        ragged = self.ragged[self.starts[n] : self.starts[n + 1]].copy()
        return Evidence(self.fixed[n : n + 1].copy(), ragged, np.array([0, len(ragged)]))


EACH_ADDED: npt.NDArray[np.int64] = np.empty(0, np.int64)
ONE_SIGNAL: npt.NDArray[np.uint8] = np.empty(0, np.uint8)


class Keys(NamedTuple):
    """Bucket keys of n items; item i has ``values[starts[i]:starts[i + 1]]``.

    An item probes its keys, and adds its first ``added[i]`` (``int64[n]``; empty: all of them), by which later items
    meet it. ``payloads`` (``uint64``, one for each key, or empty) hold numbers that must be within bounds of each
    other; see ``neardup.window.admit``.
    """

    values: npt.NDArray[np.uint64]
    starts: Starts
    payloads: npt.NDArray[np.uint64]
    added: npt.NDArray[np.int64] = EACH_ADDED

    @property
    def counts_added(self) -> npt.NDArray[np.int64]:
        """How many keys each item adds, ``int64[n]``."""
        return self.added if len(self.added) else self.starts[1:] - self.starts[:-1]


class Common(NamedTuple):
    """What m pairs of evidence have in common.

    ``keys`` (``int32[m]``): number of common keys, without those by which a text meets parts of it. ``conditions``
    (``bool[m]``): whether all AND conditions of the scheme hold. ``similarity`` (``float64[m]``): in [0, 1]. Of several
    signals, ``signals`` (``uint8[m]``) is the number of one but the text that makes a pair, 0 for none, and
    ``strengths`` (``float64[m]``) the similarity by it, below 0 if vectors are apart; both are empty for one signal.
    """

    keys: npt.NDArray[np.int32]
    conditions: npt.NDArray[np.bool_]
    similarity: npt.NDArray[np.float64]
    signals: npt.NDArray[np.uint8] = ONE_SIGNAL
    strengths: npt.NDArray[np.float64] = np.empty(0)


class Shared(NamedTuple):
    """Where m pairs of texts share something.

    ``fractions`` (``float64[m, 2]``): the shared part of the first and of the second text, in [0, 1]. ``spans``
    (``int64[k, 4]``): begin and end of a passage in the first and in the second text, in normalised code points;
    those of pair i are ``spans[starts[i]:starts[i + 1]]``.
    """

    fractions: npt.NDArray[np.float64]
    spans: npt.NDArray[np.int64]
    starts: Starts

    def select(self, rows: npt.NDArray[np.int64]) -> Shared:
        """Return some pairs, in the given order."""
        counts = np.diff(self.starts)[rows]
        starts = starts_of_lengths(counts)
        at = np.repeat(self.starts[:-1][rows] - starts[:-1], counts) + np.arange(starts[-1])
        return Shared(self.fractions[rows], self.spans[at], starts)

    def swapped(self, swap: npt.NDArray[np.bool_]) -> Shared:
        """Return the same, with the texts of some pairs (``bool[m]``) exchanged."""
        spans = np.where(np.repeat(swap, np.diff(self.starts))[:, None], self.spans[:, [2, 3, 0, 1]], self.spans)
        return Shared(np.where(swap[:, None], self.fractions[:, ::-1], self.fractions), spans, self.starts)


class Said(NamedTuple):
    """What m pairs of texts say: the part of the newer text that the older one has said (``float64[m]`` in [0, 1]), by
    the weight of its words and numbers, how many of its numbers are new, how many of its names are where a name of the
    older text is gone, and how many numbers it has (``int64[m]`` each)."""

    part: npt.NDArray[np.float64]
    new_numbers: npt.NDArray[np.int64]
    new_names: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]


NO_SHARED = Shared(np.empty((0, 2)), np.empty((0, 4), np.int64), np.zeros(1, np.int64))


def joined_shared(parts: Sequence[Shared]) -> Shared:
    """Return the pairs of several parts one after the other."""
    starts = starts_of_lengths(np.concatenate([np.diff(part.starts) for part in parts]))
    fractions, spans = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
    return Shared(fractions, spans, starts)


class Plan(Protocol):
    """The resolved settings of a scheme. The rest of the library reads these three; others belong to the scheme."""

    @property
    def kind(self) -> str:
        """The value of a document that is compared: a key of ``neardup.pairs.json_lines.KINDS``."""

    @property
    def width(self) -> int:
        """Bytes of the fixed part of an item's evidence."""

    @property
    def tuning(self) -> Tuning:
        """Bands, rows and the least score of a pair."""


PlanT = TypeVar("PlanT", bound=Plan)


def sign_features(scheme: Scheme[Any], documents: Sequence[Document], plan: Plan) -> Signing:
    """Sign documents by their features: the functions of the scheme one after the other."""
    features, refused, characters, codes, held = scheme.features(documents, plan)
    contents, evidence = scheme.contents(features), scheme.evidence(features, plan)
    return Signing(contents, evidence, refused, characters, len(features.values), codes, held)


# One example: the defaults of all settings.
DEFAULTS: tuple[Mapping[str, object], ...] = ({},)


def nothing(*_: object) -> None:
    """What a scheme does that has no shorter way."""


class Scheme(NamedTuple, Generic[PlanT]):
    """One row of ``SCHEMES``: pure functions and a guarantee. The last argument of each function is the scheme's plan.

    ``features``, ``contents``, ``evidence`` and ``keys`` give k rows for k items. The row of an item does not depend on
    the other items, so a batch may be split anywhere. Every function may run in several threads at a time.

    Raises:
        ConfigError: ``plan`` only, for settings that contradict each other or cannot reach the recall.

    Example:
        >>> from neardup import Config
        >>> from neardup.schemes.rows import SCHEMES
        >>> SCHEMES["prefix"].exact, Config(scheme="prefix").plan.kind
        (True, 'text')
    """

    plan: Callable[[Parameters, Any], PlanT]  # settings, options of the scheme -> resolved settings
    features: Callable[[Sequence[Document], PlanT], Reading]
    contents: Callable[[Features], npt.NDArray[np.uint64]]  # 128-bit hash of the features, uint64[n, 2]
    evidence: Callable[[Features, PlanT], Evidence]
    keys: Callable[[Evidence, PlanT], Keys]
    common: Callable[[Evidence, Evidence, PlanT], Common]
    signing: Callable[[PlanT], tuple[object, ...]]  # all that decides keys and evidence, for the signing fingerprint
    by_content: bool  # whether items with equal features are copies, which are linked and not compared
    exact: bool  # whether no pair at or above the threshold is missed; then no bucket is truncated
    guarantee: str
    # the settings that no other kind of scheme has, with defaults and a sentence each
    options: type[SchemeOptions] = SchemeOptions
    # what decides similarity and conditions, apart from evidence and tuning, for the matching fingerprint
    scoring: Callable[[PlanT], tuple[object, ...]] = lambda plan: ()
    # what ``features``, ``contents`` and ``evidence`` make of documents, maybe sooner; the first argument is the scheme
    sign: Callable[[Scheme[Any], Sequence[Document], PlanT], Signing] = sign_features
    # ``common`` of documents of a table and of items of a batch, where they are; of a plan it cannot do that for: None
    common_in: Callable[[BandTable, Starts, Evidence, npt.NDArray[np.int32], PlanT], Common | None] = nothing
    # how one permutation signs plain texts, where Python has them, as ``sign`` does; None: it does not
    plain: Callable[[PlanT], PlainRules | None] = nothing
    # a document without an id made from a text: texts that are nearly the same make near-duplicates
    sample: Callable[[str, PlanT], Document] = lambda text, plan: Document("", text)
    # settings that together use every kernel of the scheme; with each of them, near-duplicate samples are pairs
    examples: tuple[Mapping[str, object], ...] = DEFAULTS
    # candidates of a probe where the settings name no limit; None: all. Only where most candidates are pairs
    probe_candidates_max: int | None = None
    # whether each key has a payload: a position and a suffix length, see ``neardup.window.admit``
    has_payloads: bool = False
    # which items have a fixed part that follows from the ragged one (``bool[n]``; None: none): no table stores it
    derived: Callable[[Evidence, PlanT], npt.NDArray[np.bool_] | None] = nothing
    # and what it is then
    derive: Callable[[Evidence, PlanT], npt.NDArray[np.uint8]] = lambda evidence, plan: evidence.fixed
    # whether the keys are those of the bands of the fixed part alone: ``plan.tuning.bands`` of them, by ``plan.seed``
    banded: Callable[[PlanT], bool] = lambda plan: False
    # whether keys behind those of the bands make no pair: by them a text meets parts of it
    meets_parts: Callable[[PlanT], bool] = lambda plan: False
    # whether an item may lack the keys of some bands, so that its recall is lower
    partial: bool = False
    # whether two items may be compared that share no key; False: the keys are a part of the rule
    direct: bool = True
    # where two texts share something, by their evidence; None: the scheme does not know
    shared: Callable[[Evidence, Evidence, PlanT], Shared] | None = None
    # the normalised code points of each text, ``int64[n]``, where ``shared`` is known
    lengths: Callable[[Evidence], npt.NDArray[np.int64]] | None = None
    # what m newer texts say that the older ones have said, by their evidence; None: the scheme does not know
    said: Callable[[Evidence, Evidence, PlanT], Said | None] | None = None
    # the part of a text that stands in an earlier one, from which it is a duplicate, where ``shared`` is known; None:
    # only copies are
    part_min: Callable[[PlanT], float | None] = lambda plan: None
    # settings that have another default here: values of fields of ``Parameters``
    defaults: Mapping[str, object] = MappingProxyType({})
    # the signals of a document but its text, by number less 1: they join stories and drop nothing
    signals: tuple[str, ...] = ()
    # the similarities of m pairs by each signal, the text's first (``float64[m]`` by name, NaN where one side lacks
    # it), whatever their thresholds; None: a scheme with one signal
    strengths: Callable[[Evidence, Evidence, PlanT], Mapping[str, npt.NDArray[np.float64]]] | None = None
    # the elements of evidence, which a measure may weigh by what the stream has; None: the scheme does not know
    elements: Callable[[Evidence, PlanT], Features] | None = None
    # a document that only probes, changed so that it can be compared; None: it is compared as it is
    query: Callable[[Document, PlanT], Document] | None = None


# A row of ``SCHEMES``: the rows have plans of different types, and no type says "the plan that this row made". The type
# checker verifies each row where it is written.
AnyScheme = Scheme[Any]


NO_PAYLOADS: npt.NDArray[np.uint64] = np.empty(0, np.uint64)


def fixed_evidence(fixed: npt.NDArray[np.uint8]) -> Evidence:
    """Return evidence without a ragged part, from ``uint8[n, width]``."""
    return Evidence(fixed, _NO_BYTES, _no_starts(fixed.shape[0]))


_NO_BYTES: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
_NO_BYTES.setflags(write=False)


@functools.lru_cache(maxsize=64)
def _no_starts(n: int) -> Starts:
    starts = np.zeros(n + 1, np.int64)
    starts.setflags(write=False)
    return starts


def ragged_evidence(values: npt.NDArray[Any], starts: Starts, fixed: npt.NDArray[np.uint8] | None = None) -> Evidence:
    """Return evidence whose ragged part is ``values[starts[i]:starts[i + 1]]``, stored as little-endian bytes."""
    stored = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    fixed = np.empty((len(starts) - 1, 0), np.uint8) if fixed is None else fixed
    return Evidence(fixed, stored.view(np.uint8), starts * stored.itemsize)


def ragged_values(evidence: Evidence, dtype: type[np.generic]) -> tuple[npt.NDArray[Any], Starts]:
    """Return the ragged part as numbers, the reverse of ``ragged_evidence``: values and starts."""
    stored = np.dtype(dtype).newbyteorder("<")
    values = np.ascontiguousarray(evidence.ragged).view(stored)
    aligned = values if values.flags.aligned else values.copy()  # a loaded window begins anywhere
    return aligned, evidence.starts // stored.itemsize


def with_first(section: Evidence, evidence: Evidence) -> Evidence:
    """Return evidence whose ragged part begins with the ragged part of ``section``. ``without_first`` needs its length
    in its first four bytes."""
    if not len(evidence.ragged):
        return Evidence(evidence.fixed, section.ragged, section.starts)
    starts = section.starts + evidence.starts
    out = np.empty(int(starts[-1]), np.uint8)
    _interleave(section.ragged, section.starts, evidence.ragged, evidence.starts, out)
    return Evidence(evidence.fixed, out, starts)


def without_first(evidence: Evidence) -> Evidence:
    """Return the evidence that ``with_first`` was given: without the first section of the ragged part."""
    values, starts = ragged_values(evidence, np.uint32)
    begins = values[starts[:-1]].astype(np.int64)
    return ragged_range(evidence, begins, np.diff(evidence.starts) - begins)


def ragged_range(evidence: Evidence, begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Evidence:
    """Return evidence with a range of bytes of each ragged part; ``begins`` are counted from its start."""
    starts = starts_of_lengths(lengths)
    out = np.empty(int(starts[-1]), np.uint8)
    _copy(evidence.ragged, evidence.starts[:-1] + begins, lengths, out, starts[:-1])
    return Evidence(evidence.fixed, out, starts)


def regular_keys(values: npt.NDArray[np.uint64]) -> Keys:
    """Return keys ``uint64[n, b]`` of items with b keys each."""
    n, count = values.shape
    starts = np.arange(0, (n + 1) * count, count) if count else np.zeros(n + 1, np.int64)
    return Keys(values.reshape(-1), starts, NO_PAYLOADS)


def starts_of_lengths(lengths: npt.NDArray[np.integer]) -> Starts:
    """Return the starts of n ranges one after the other, and the end of the last, ``int64[n + 1]``."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=starts[1:])  # the function of NumPy makes five calls to get there
    return starts


def in_parts(sizes: npt.NDArray[np.integer], bytes_max: int) -> list[npt.NDArray[np.int64]]:
    """Divide items into consecutive parts of about ``bytes_max`` bytes, or of one item; ``sizes`` are their bytes.

    Returns the positions of each part, ``int64[k]``: one part without any if there are no items.

    >>> [part.tolist() for part in in_parts(np.array([3, 4, 9, 2]), 8)]
    [[0, 1], [2, 3]]
    """
    ends = sizes.cumsum(dtype=np.int64) // bytes_max
    if not len(ends) or not ends[-1]:
        return [np.arange(len(ends))]
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(ends)) + 1)


def select_ragged(
    values: npt.NDArray[np.uint8], starts: Starts, rows: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.uint8], Starts]:
    """Return some ranges of bytes, in the given order; ``rows`` are positions or a mask."""
    at = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.ascontiguousarray(rows, np.int64)
    if not len(values):
        return np.empty(0, np.uint8), np.zeros(len(at) + 1, np.int64)
    begins = starts[at].astype(np.int64, copy=False)
    lengths = starts[at + 1] - begins
    out_starts = starts_of_lengths(lengths)
    out = np.empty(int(out_starts[-1]), np.uint8)
    source = values.view()
    source.flags.writeable = False  # some are, some are not: one kernel for both
    _copy(source, begins, lengths, out, out_starts)
    return out, out_starts


@kernel("const u8[], i64[], i64[], u8[], i64[]")
def _copy(data, begins, lengths, out, out_begins):
    for i in range(len(begins)):
        copy_range(data, begins[i], out, out_begins[i], lengths[i])


@kernel("const u8[], const i64[], const u8[], const i64[], u8[]", direct=True)
def _interleave(first, first_starts, second, second_starts, out):
    for i in range(len(first_starts) - 1):
        begin, middle, end = first_starts[i], first_starts[i + 1], second_starts[i + 1]
        copy_range(first, begin, out, begin + second_starts[i], middle - begin)
        copy_range(second, second_starts[i], out, middle + second_starts[i], end - second_starts[i])
