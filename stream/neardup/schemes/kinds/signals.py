"""Several signals of a document: its text, its title, a vector, the hash of its picture and the fields of a record.

Each signal is signed, keyed and compared by a scheme that exists for it alone (``SIGNALS``). A document has the keys of
all of its signals, so that candidates of each meet in one table; the keys of different signals are drawn from different
seeds. Evidence is that of the text, then a number of bits that say which signals there are, the time, and the evidence
of each signal, zeros where a document lacks it. The ragged part is that of the text, then that of a record, whose
length stands behind its fixed part, and zeros up to a multiple of four bytes: words are numbers of four bytes.

The text decides what is a duplicate. Another signal makes a pair if it reaches its own least similarity and the times
of the two documents differ by at most ``hours``: then they tell the same story, and no document is dropped for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import mmh3
import numpy as np
import numpy.typing as npt

from neardup.documents import document as values
from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.features.meaning.static_model import MODELS, model_of
from neardup.features.texts.normalize import NormalForm
from neardup.schemes.interface import (
    NO_PAYLOADS,
    AnyScheme,
    Common,
    Evidence,
    Keys,
    Plan,
    Reading,
    Said,
    Scheme,
    Signing,
    fixed_evidence,
    ragged_range,
    starts_of_lengths,
    with_first,
)
from neardup.schemes.kinds import set_plan, sets
from neardup.schemes.kinds.set_options import PROBE_CANDIDATES_MAX, S_CURVE, SetOptions
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.kinds.signal_rows import SIGNALS, Signal, SignalOptions
from neardup.schemes.parameters import Parameters
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import Tuning

# Bytes of the time, seconds as ``float64``, and of the bits.
_TIME_BYTES, _MASK_BYTES = 8, 1
# Bytes of the length of a record, and of which its place is a multiple.
_LENGTH_BYTES = 4
_SECONDS_AN_HOUR = 3_600.0
# Reasons why a value of a signal has nothing to compare; others refuse the document.
_ABSENT = ("empty", "no_shingles", "vector_zero", "no_key")
# Reasons of vectors -> what they are of pictures.
_OF_PICTURES = dict.fromkeys(("vector_length", "vector_padding"), "picture_length")


class Part(NamedTuple):
    """A signal that is compared: its number, from 1, the plan of its scheme, and where its evidence begins."""

    number: int
    name: str
    plan: Plan
    begin: int

    @property
    def row(self) -> Signal:
        """How it is compared."""
        return SIGNALS[self.name]

    @property
    def scheme(self) -> AnyScheme:
        """What signs it."""
        return SCHEMES[self.row.scheme]

    @property
    def width(self) -> int:
        """Bytes of the fixed part that it takes."""
        return self.plan.width + _LENGTH_BYTES * self.row.is_ragged

    def lengths(self, fixed: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Return the bytes of its ragged part in n documents, ``int64[n]``, of their ``uint8[n, width]``."""
        end = self.begin + self.width
        return np.ascontiguousarray(fixed[:, end - _LENGTH_BYTES : end]).view("<u4")[:, 0].astype(np.int64)

    def begins(self, evidence: Evidence) -> npt.NDArray[np.int64]:
        """Return where its ragged part begins in that of n documents, ``int64[n]``: the part of the text ends there."""
        lengths = self.lengths(evidence.fixed)
        return np.diff(evidence.starts) - lengths - -lengths % _LENGTH_BYTES

    def evidence(self, evidence: Evidence, rows: npt.NDArray[np.int64]) -> Evidence:
        """Return its evidence of some documents, of that of all. Only a signal with a ragged part reads theirs."""
        if not self.row.is_ragged:
            return fixed_evidence(self._own(evidence.fixed[rows]))
        chosen = evidence.select(rows)
        ragged = ragged_range(chosen, self.begins(chosen), self.lengths(chosen.fixed))
        return ragged._replace(fixed=self._own(chosen.fixed))

    def _own(self, fixed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        return np.ascontiguousarray(fixed[:, self.begin : self.begin + self.plan.width])

    def is_there(self, fixed: npt.NDArray[np.uint8], text_width: int) -> npt.NDArray[np.bool_]:
        """Return which documents have it, ``bool[n]``."""
        return (fixed[:, text_width] >> (self.number - 1) & 1).astype(np.bool_)


class SignalPlan(NamedTuple):
    """The resolved settings: those of texts, and the signals."""

    text: SetPlan
    parts: tuple[Part, ...]
    seconds: float
    model: str | None = None
    kind: str = "signals"

    @property
    def width(self) -> int:
        """Bytes of everything but the words of a text."""
        own = _TIME_BYTES + _MASK_BYTES
        return self.text.width + own + sum(part.width for part in self.parts)

    @property
    def ragged(self) -> Part | None:
        """The signal whose evidence has a ragged part."""
        return next((part for part in self.parts if part.row.is_ragged), None)

    @property
    def picture_bits(self) -> int | None:
        """Bits of the hash of a picture, if these are compared."""
        return next((cast(Any, part.plan).dimension for part in self.parts if part.name == "picture"), None)

    @property
    def tuning(self) -> Tuning:
        """Those of texts."""
        return self.text.tuning

    @property
    def novelty(self) -> str:
        """What a dropped text must not have."""
        return self.text.novelty

    @property
    def normal_form(self) -> NormalForm:
        """How texts are normalised."""
        return self.text.normal_form


def plan(parameters: Parameters, options: SignalOptions) -> SignalPlan:
    """Raises ``ConfigError`` for settings that contradict each other, and without a signal."""
    text = set_plan.plan(parameters, SetOptions())
    if text.kind != "text":
        raise ConfigError(f"scheme signals compares texts, but shingles={text.shingles} are of none: leave them out")
    parts, begin = list[Part](), text.width + _MASK_BYTES + _TIME_BYTES
    for number, (name, row) in enumerate(SIGNALS.items(), 1):
        threshold = getattr(options, name)
        if threshold is None:
            continue
        scheme = SCHEMES[row.scheme]
        settings = {"threshold": threshold, "seed": (parameters.seed + number) % 2**63, **row.settings(options)}
        own = scheme.plan(Parameters(**settings), scheme.options(**row.options(options)))
        parts.append(Part(number, name, own, begin))
        begin += parts[-1].width
    if not parts:
        raise ConfigError(
            f"scheme signals compares texts alone: set one of {', '.join(SIGNALS)}, as in signals:title=.6"
        )
    model = None if options.vector is None else options.model
    kind = "signals" if options.record is None else "record_signals"
    return SignalPlan(text, tuple(parts), options.hours * _SECONDS_AN_HOUR, model, kind)


def sign(scheme: AnyScheme, documents: Sequence[Document], plan: SignalPlan) -> Signing:
    """Sign the texts, then each signal of the documents that have it."""
    signing = sets.SCHEME.sign(sets.SCHEME, documents, plan.text)
    usable = [n for n in range(len(documents)) if n not in signing.refused]
    fixed, refused = _blank(signing.evidence.fixed, plan), dict(signing.refused)
    given = [documents[n] for n in usable]
    if plan.model is not None:
        given = _with_vectors(given, plan.model)
    times = [document.timestamp for document in given]
    seconds = np.array([np.nan if time is None else time for time in times], "<f8")
    at = plan.text.width + _MASK_BYTES
    fixed[:, at : at + _TIME_BYTES] = seconds[:, None].view(np.uint8)
    section = fixed_evidence(fixed)
    for part in plan.parts:
        found = [(row, value) for row, document in enumerate(given) if (value := part.row.of(document)) is not None]
        if not found:
            continue
        rows, values = zip(*found, strict=True)
        signed = part.scheme.sign(part.scheme, values, part.plan)
        said = _OF_PICTURES if part.name == "picture" else {}
        refused |= {usable[rows[n]]: said.get(why, why) for n, why in signed.refused.items() if why not in _ABSENT}
        there = np.array([row for n, row in enumerate(rows) if n not in signed.refused], np.int64)
        fixed[there, part.begin : part.begin + part.plan.width] = signed.evidence.fixed
        fixed[there, plan.text.width] |= np.uint8(1 << (part.number - 1))
        if part.row.is_ragged:
            lengths = np.zeros(len(fixed), np.int64)
            lengths[there] = np.diff(signed.evidence.starts)
            end = part.begin + part.width
            fixed[:, end - _LENGTH_BYTES : end] = lengths.astype("<u4")[:, None].view(np.uint8)
            padding = starts_of_lengths(-lengths % _LENGTH_BYTES)
            own = Evidence(fixed, signed.evidence.ragged, starts_of_lengths(lengths))
            section = with_first(own, Evidence(fixed, np.zeros(padding[-1], np.uint8), padding))
    kept = np.array([n not in refused for n in usable], np.bool_)
    evidence = with_first(signing.evidence, section)
    contents = signing.contents ^ _signal_contents(section, plan)
    if not kept.all():
        evidence, contents = evidence.select(kept), contents[kept]
    return signing._replace(contents=contents, evidence=evidence, refused=refused)


def _with_vectors(documents: list[Document], model: str) -> list[Document]:
    """Return documents of which those without a vector have the one that a model makes of their title, or of their text
    without one."""
    lacking = [n for n, document in enumerate(documents) if document.vector is None]
    vectors = model_of(model).vectors([documents[n].title or documents[n].text for n in lacking])
    out = documents.copy()
    for n, vector in zip(lacking, vectors, strict=True):
        out[n] = documents[n]._replace(vector=vector)
    return out


def _signal_contents(signals: Evidence, plan: SignalPlan) -> npt.NDArray[np.uint64]:
    """Return what the signals of each document add to the hash of its text, ``uint64[n, 2]``: a copy has the same ones,
    because it takes the place of what it repeats in the buckets of all."""
    fixed, out = signals.fixed, np.zeros((len(signals.fixed), 2), np.uint64)
    begin = plan.text.width + _MASK_BYTES + _TIME_BYTES
    for row in np.flatnonzero(fixed[:, plan.text.width]).tolist():
        whole = fixed[row, begin:].tobytes() + signals.ragged[signals.starts[row] : signals.starts[row + 1]].tobytes()
        out[row] = np.frombuffer(mmh3.mmh3_x64_128_digest(whole), "<u8")
    return out


def features(documents: Sequence[Document], plan: SignalPlan) -> Reading:
    """The shingles of the texts."""
    return sets.features(documents, plan.text)


def evidence(features: Features, plan: SignalPlan) -> Evidence:
    """The evidence of texts without another signal and without a time."""
    text = sets.one_permutation_evidence(features, plan.text)
    return text._replace(fixed=_blank(text.fixed, plan))


def keys(evidence: Evidence, plan: SignalPlan) -> Keys:
    """The keys of all signals that each document has, those of the text first."""
    n, width = len(evidence.fixed), plan.text.width
    columns = [_columns(sets.band_keys(_text(evidence, plan), plan.text), np.arange(n), n)]
    for part in plan.parts:
        rows = np.flatnonzero(part.is_there(evidence.fixed, width))
        own = part.evidence(evidence, rows)
        columns.append(_columns(part.scheme.keys(own, part.plan), rows, n))
    values, mask = map(np.hstack, zip(*columns, strict=True))
    return Keys(values[mask], starts_of_lengths(mask.sum(axis=1)), NO_PAYLOADS)


def _columns(keys: Keys, rows: npt.NDArray[np.int64], n: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Return the keys of some of n documents as columns, and where there is one, ``uint64`` and ``bool[n, most]``."""
    counts = np.zeros(n, np.int64)
    counts[rows] = np.diff(keys.starts)
    mask = np.arange(counts.max(initial=0)) < counts[:, None]
    values = np.zeros(mask.shape, np.uint64)
    values[mask] = keys.values
    return values, mask


def common(a: Evidence, b: Evidence, plan: SignalPlan) -> Common:
    """What the texts have in common, the keys of all signals, and the first signal that makes a pair."""
    text = sets.common(_text(a, plan), _text(b, plan), plan.text)
    keys, signals = text.keys.copy(), np.zeros(len(text.keys), np.uint8)
    strengths = np.zeros(len(signals))
    apart = np.abs(_times(a, plan) - _times(b, plan))
    is_near = ~(apart > plan.seconds)  # also without a time
    for part, rows, both in _compared(a, b, plan):
        keys[rows] += both.keys
        is_met = both.conditions & (both.similarity >= part.plan.tuning.score_min)
        is_open = is_near[rows] & (signals[rows] == 0)
        is_met &= is_open & (part.scheme.direct | (both.keys > 0))
        signals[rows[is_met]], strengths[rows[is_met]] = part.number, both.similarity[is_met]
        if part.name == "vector":
            strengths[rows[is_open & ~is_met]] = -1.0
    return Common(keys, text.conditions, text.similarity, signals, strengths)


def strengths(a: Evidence, b: Evidence, plan: SignalPlan) -> dict[str, npt.NDArray[np.float64]]:
    """The similarities of pairs by the text and by each signal, NaN where one of the two lacks it."""
    out = {"text": sets.common(_text(a, plan), _text(b, plan), plan.text).similarity}
    out |= {part.name: np.full(len(a.fixed), np.nan) for part in plan.parts}
    for part, rows, both in _compared(a, b, plan):
        out[part.name][rows] = both.similarity
    return out


def _compared(a: Evidence, b: Evidence, plan: SignalPlan) -> Iterator[tuple[Part, npt.NDArray[np.int64], Common]]:
    """Yield each signal, the pairs of which both sides have it, and what these have in common by it."""
    width = plan.text.width
    for part in plan.parts:
        rows = np.flatnonzero(part.is_there(a.fixed, width) & part.is_there(b.fixed, width))
        if len(rows):
            one, other = part.evidence(a, rows), part.evidence(b, rows)
            yield part, rows, part.scheme.common(one, other, part.plan)


def said(newer: Evidence, older: Evidence, plan: SignalPlan) -> Said | None:
    """What the newer texts say that the older ones have said: words stand first in the ragged part, and nothing else is
    read, as leads have no fixed part."""
    function = sets.SCHEME.said
    return None if function is None else function(newer, older, plan.text)


def signing(plan: SignalPlan) -> tuple[object, ...]:
    """Return what decides the keys and evidence of each signal."""
    parts = (value for part in plan.parts for value in (part.name, *part.scheme.signing(part.plan)))
    model = () if plan.model is None else (plan.model, *MODELS[plan.model])
    return (*sets.signing(plan.text), *parts, *model)


def scoring(plan: SignalPlan) -> tuple[object, ...]:
    """Return what decides which signals make a pair."""
    parts = (value for part in plan.parts for value in (part.plan.tuning.score_min, *part.scheme.scoring(part.plan)))
    return (*sets.scoring(plan.text), plan.seconds, *parts)


def sample(text: str, plan: SignalPlan) -> Document:
    """A text with a title, a vector, a picture and a record made of it."""
    document = Document("", text, title=text)
    for part in plan.parts:
        made: Any = part.scheme.sample(text, part.plan)
        if part.name == "vector":
            document = document._replace(vector=made.vector)
        elif part.name == "record":
            document = document._replace(fields=made.fields)
        elif part.name == "picture":
            document = document._replace(picture=np.packbits(np.array(made.vector, np.bool_)).tobytes())
    return document


def _text(evidence: Evidence, plan: SignalPlan) -> Evidence:
    """The evidence of the texts."""
    if (record := plan.ragged) is not None:
        evidence = ragged_range(evidence, np.zeros(len(evidence.fixed), np.int64), record.begins(evidence))
    return evidence._replace(fixed=np.ascontiguousarray(evidence.fixed[:, : plan.text.width]))


def _times(evidence: Evidence, plan: SignalPlan) -> npt.NDArray[np.float64]:
    at = plan.text.width + _MASK_BYTES
    times: npt.NDArray[np.float64] = np.ascontiguousarray(evidence.fixed[:, at : at + _TIME_BYTES]).view("<f8")[:, 0]
    return times


def _blank(text: npt.NDArray[np.uint8], plan: SignalPlan) -> npt.NDArray[np.uint8]:
    """Return the fixed part of documents with no signal but a text, and without a time."""
    fixed = np.zeros((len(text), plan.width), np.uint8)
    fixed[:, : plan.text.width] = text
    at = plan.text.width + _MASK_BYTES
    fixed[:, at : at + _TIME_BYTES] = np.full(1, np.nan, "<f8").view(np.uint8)
    return fixed


SCHEME = Scheme(
    plan, features, sets.bag_contents, evidence, keys, common, signing,
    by_content=True,
    exact=False,
    options=SignalOptions,
    guarantee=S_CURVE + ", of texts; of another signal that of its own scheme",
    scoring=scoring,
    sign=sign,
    sample=sample,
    examples=(
        {"scheme_options": {"title": 0.5, "vector": 0.7, "dimension": 24, "picture": 0.8}},
        {
            "scheme_options": {"title": 0.5, "record": 0.5, "fields": ("name", "phone"), "shingled": ("name",)},
            "novelty": "words",
        },
    ),
    probe_candidates_max=PROBE_CANDIDATES_MAX,
    said=said,
    signals=values.SIGNALS,
    strengths=strengths,
)  # fmt: skip
