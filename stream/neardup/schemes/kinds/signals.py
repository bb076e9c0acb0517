"""Several signals of a document: its text, its title, a vector and the hash of its picture.

Each signal is signed, keyed and compared by a scheme that exists for it alone (``SIGNALS``). A document has the keys of
all of its signals, so that candidates of each meet in one table; the keys of different signals are drawn from different
seeds. Evidence is that of the text, then a number of bits that say which signals there are, the time, and the evidence
of each signal, zeros where a document lacks it.

The text decides what is a duplicate. Another signal makes a pair if it reaches its own least similarity and the times
of the two documents differ by at most ``hours``: then they tell the same story, and no document is dropped for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import mmh3
import numpy as np
import numpy.typing as npt
from pydantic import Field

from neardup.documents import document as values
from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.features.meaning.static_model import DIMENSION, MODELS, model_of
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
    starts_of_lengths,
)
from neardup.schemes.kinds import set_plan, sets
from neardup.schemes.kinds.set_options import PROBE_CANDIDATES_MAX, S_CURVE, SetOptions
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.parameters import Parameters, SchemeOptions, one_of
from neardup.schemes.rows import SCHEMES
from neardup.schemes.theory.tuning import Tuning

# Bytes of the time, seconds as ``float64``, and of the bits.
_TIME_BYTES, _MASK_BYTES = 8, 1
_SECONDS_AN_HOUR = 3_600.0
# Reasons why a value of a signal has nothing to compare; others refuse the document.
_ABSENT = ("empty", "no_shingles", "vector_zero")


class SignalOptions(SchemeOptions):
    """From which similarity each signal makes a pair; a signal without one is not compared."""

    title: float | None = Field(
        default=None,
        ge=0.05,
        le=1.0,
        description="similarity from which two titles tell one story, of their characters",
    )
    vector: float | None = Field(
        default=None, ge=0.05, le=1.0, description="cosine from which two vectors tell one story"
    )
    dimension: int | None = Field(default=None, ge=1, le=65_536, description="components of a vector")
    model: Annotated[str | None, one_of(None, *MODELS)] = Field(
        default=None, description="makes a vector of the title, or of a text without one: " + ", ".join(MODELS)
    )
    picture: float | None = Field(
        default=None, ge=0.55, le=1.0, description="share of equal bits from which two hashes are of one picture"
    )
    picture_bits: int = Field(default=64, ge=8, le=4_096, description="bits of the hash of a picture")
    hours: float = Field(
        default=48.0, gt=0, le=1e7, description="hours within which title, vector and picture tell one story"
    )


class Signal(NamedTuple):
    """A row of ``SIGNALS``: the scheme that signs it, its settings and those of the scheme by the options of signals,
    and what it compares of a document, ``None`` if that lacks it."""

    scheme: str
    settings: Callable[[Any], Mapping[str, object]]
    options: Callable[[Any], Mapping[str, object]]
    of: Callable[[Document], Document | None]


def _dimension(options: Any) -> int | None:
    model, dimension = options.model, options.dimension
    if model is not None and dimension not in (None, DIMENSION):
        raise ConfigError(f"dimension={dimension}, but vectors of model={model} have {DIMENSION}: leave dimension out")
    return dimension if model is None else DIMENSION


def _picture(document: Document) -> Document | None:
    picture = document.picture
    if not isinstance(picture, str):
        return None if picture is None else Document("", vector=picture)
    try:
        return Document("", vector=bytes.fromhex(picture))
    except ValueError:
        return Document("", vector=b"")  # refused by its length


# Name of a signal, and of the option with its threshold -> how it is compared. The first that makes a pair names it.
SIGNALS: dict[str, Signal] = {
    "title": Signal(
        "one_permutation",
        lambda o: {"k": 3, "sketch_bits": 16, "rows_max": 256},
        lambda o: {},
        lambda document: Document("", document.title) if document.title else None,
    ),
    "vector": Signal(
        "hyperplane",
        lambda o: {},
        lambda o: {"dimension": _dimension(o), "evidence": "float16"},
        lambda document: None if document.vector is None else Document("", vector=document.vector),
    ),
    "picture": Signal("bit_sampling", lambda o: {}, lambda o: {"dimension": o.picture_bits}, _picture),
}


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

    def evidence(self, fixed: npt.NDArray[np.uint8]) -> Evidence:
        """Return its evidence of n documents, of their ``uint8[n, width]``."""
        return fixed_evidence(np.ascontiguousarray(fixed[:, self.begin : self.begin + self.plan.width]))

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
        return self.text.width + own + sum(part.plan.width for part in self.parts)

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
        begin += own.width
    if not parts:
        raise ConfigError(
            f"scheme signals compares texts alone: set one of {', '.join(SIGNALS)}, as in signals:title=.6"
        )
    model = None if options.vector is None else options.model
    return SignalPlan(text, tuple(parts), options.hours * _SECONDS_AN_HOUR, model)


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
    for part in plan.parts:
        found = [(row, value) for row, document in enumerate(given) if (value := part.row.of(document)) is not None]
        if not found:
            continue
        rows, values = zip(*found, strict=True)
        signed = part.scheme.sign(part.scheme, values, part.plan)
        refused |= {usable[rows[n]]: why for n, why in signed.refused.items() if why not in _ABSENT}
        there = np.array([row for n, row in enumerate(rows) if n not in signed.refused], np.int64)
        fixed[there, part.begin : part.begin + part.plan.width] = signed.evidence.fixed
        fixed[there, plan.text.width] |= np.uint8(1 << (part.number - 1))
    kept = np.array([n not in refused for n in usable], np.bool_)
    evidence = signing.evidence._replace(fixed=fixed)
    contents = signing.contents ^ _signal_contents(fixed, plan)
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


def _signal_contents(fixed: npt.NDArray[np.uint8], plan: SignalPlan) -> npt.NDArray[np.uint64]:
    """Return what the signals of each document add to the hash of its text, ``uint64[n, 2]``: a copy has the same ones,
    because it takes the place of what it repeats in the buckets of all."""
    out = np.zeros((len(fixed), 2), np.uint64)
    begin = plan.text.width + _MASK_BYTES + _TIME_BYTES
    for row in np.flatnonzero(fixed[:, plan.text.width]).tolist():
        out[row] = np.frombuffer(mmh3.mmh3_x64_128_digest(fixed[row, begin:].tobytes()), "<u8")
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
    fixed, width = evidence.fixed, plan.text.width
    of_text = sets.keys(_text(evidence, plan), plan.text)
    n = len(fixed)
    columns = [of_text.values.reshape(n, plan.text.tuning.bands)]
    is_there = [np.ones(columns[0].shape, np.bool_)]
    for part in plan.parts:
        columns.append(part.scheme.keys(part.evidence(fixed), part.plan).values.reshape(n, part.plan.tuning.bands))
        is_there.append(np.broadcast_to(part.is_there(fixed, width)[:, None], columns[-1].shape))
    mask = np.hstack(is_there)
    return Keys(np.hstack(columns)[mask], starts_of_lengths(mask.sum(axis=1)), NO_PAYLOADS)


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
        is_met &= is_near[rows] & (signals[rows] == 0)
        signals[rows[is_met]], strengths[rows[is_met]] = part.number, both.similarity[is_met]
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
            one, other = part.evidence(a.fixed[rows]), part.evidence(b.fixed[rows])
            yield part, rows, part.scheme.common(one, other, part.plan)


def said(newer: Evidence, older: Evidence, plan: SignalPlan) -> Said | None:
    """What the newer texts say that the older ones have said."""
    function = sets.SCHEME.said
    return None if function is None else function(_text(newer, plan), _text(older, plan), plan.text)


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
    """A text with a title, a vector and a picture made of it."""
    document = Document("", text, title=text)
    for part in plan.parts:
        made: Any = part.scheme.sample(text, part.plan).vector
        if part.name == "vector":
            document = document._replace(vector=made)
        elif part.name == "picture":
            document = document._replace(picture=np.packbits(np.array(made, np.bool_)).tobytes())
    return document


def _text(evidence: Evidence, plan: SignalPlan) -> Evidence:
    """The evidence of the texts."""
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
        {"scheme_options": {"title": 0.5}, "novelty": "words"},
    ),
    probe_candidates_max=PROBE_CANDIDATES_MAX,
    said=said,
    signals=values.SIGNALS,
    strengths=strengths,
)  # fmt: skip
