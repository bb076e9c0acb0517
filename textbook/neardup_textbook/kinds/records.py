"""Records: entity resolution. Records with a common blocking key are scored field by field.

A record is a mapping of field names to strings. Blocking keys (``neardup_textbook.records.blocking``) decide which
pairs are scored: equal values of one field, equal values of several fields together, or a common band of the signatures
of a field's shingles, for values with many spellings. A record without a key is refused, because it could never have a
candidate. The similarity is the score (``neardup_textbook.records.scoring``) divided by the weights of the scored
fields.

The evidence of a record is its normalised values in the order of the fields, with 0x1F between them, as UTF-8, and the
sketches of its shingled fields. Keys, score and conditions follow from the evidence.

Guarantee: records with a common exact key are always scored, unless a bucket is truncated, and emitted if their
similarity is at or above the threshold. Records without a common key are never emitted. If the Jaccard similarity of a
shingled field is s, a pair is scored with probability 1 - (1 - s^r)^b. Equal records may be two entities, so they are
compared like any others.

Source: Mining of Massive Datasets, 3.8.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import mmh3
import numpy as np
import numpy.typing as npt
from pydantic import Field as Option

from neardup.documents.document import Document, Features
from neardup.errors import Reason
from neardup.features.texts.normalize import FOLD_RULES, NormalForm, normalize_any
from neardup.schemes.interface import NO_PAYLOADS, Common, Evidence, Keys, Reading, Scheme, ragged_evidence
from neardup.schemes.parameters import Parameters, SchemeOptions
from neardup.schemes.theory.tuning import Tuning, keyed
from neardup_textbook.records import blocking, scoring
from neardup_textbook.records.blocking import SEPARATOR, Blocking, Values
from neardup_textbook.records.scoring import Field, Nicknames


class RecordOptions(SchemeOptions):
    """What is scored of a record, and what brings two records together."""

    fields: tuple[str, ...] = Option(
        default=("name", "address", "phone"),
        description="fields of a record that are scored, as name, name:weight or name:weight:penalty",
    )
    keys: tuple[str, ...] = Option(
        default=(),
        description="fields whose equal values bring records together, as field or field+field; "
        "by default each field, or none where shingled names one",
    )
    shingled: tuple[str, ...] = Option(
        default=(), description="fields whose similar values bring records together, by bands of their shingles"
    )
    shingle_k: int = Option(default=3, ge=1, le=100, description="characters a shingle of shingled")
    bands: int = Option(default=16, ge=1, le=64, description="bands of a field of shingled")
    rows: int = Option(default=4, ge=2, le=64, description="rows a band of a field of shingled")
    penalty: float = Option(
        default=4.0, ge=0, le=1e6, description="points lost for each square of the edit distance of a field"
    )
    missing: float | None = Option(
        default=None,
        ge=0,
        le=1,
        description="share of a weight that a field earns which only one record has; by default it is left out",
    )
    compared: float = Option(
        default=0.4,
        ge=0,
        le=1,
        description="share of the weights of all fields that two records must both have to be a pair, so that a nearly "
        "empty record is like none",
    )
    placeholders: tuple[str, ...] = Option(
        default=("n/a", "#n/a", "<na>", "null", "none", "nan", "nil", "-", "--", "?", "unknown"),
        description="values that mean that there is none, in any case",
    )
    nicknames: tuple[str, ...] = Option(
        default=("english",),
        description="words that count as one edit, in groups as william=bill=will; english stands for a list of names",
    )


class RecordPlan(NamedTuple):
    """The resolved parameters of the records scheme."""

    fields: tuple[Field, ...]
    blocking: Blocking
    missing: float | None
    compared: float
    placeholders: frozenset[str]
    nicknames: Nicknames
    normal_form: NormalForm
    text_characters_max: int
    tuning: Tuning
    kind: str = "record"

    @property
    def width(self) -> int:
        """Bytes of the sketches."""
        return self.blocking.width


def plan(p: Parameters, o: RecordOptions) -> RecordPlan:
    """Raises ``ConfigError`` for fields, keys and nicknames that cannot be read or do not fit together."""
    fields = scoring.parse_fields(o.fields, o.penalty)
    names = [field.name for field in fields]
    shape = o.shingle_k, o.bands, o.rows
    return RecordPlan(
        fields=fields,
        blocking=blocking.parse_blocking(names, o.keys, o.shingled, *shape, p.seed),
        missing=o.missing,
        compared=o.compared,
        placeholders=frozenset(map(str.casefold, o.placeholders)),
        nicknames=scoring.parse_nicknames(o.nicknames),
        normal_form=NormalForm.of(p.fold),
        text_characters_max=p.text_characters_max,
        tuning=keyed(p.threshold, p.min_similarity),
    )


def features(documents: Sequence[Document], plan: RecordPlan) -> Reading:
    """The normalised values of records that have a key, are not too long and can be encoded."""
    refused: dict[int, str] = {}
    usable: list[Values] = []
    characters = 0
    for i, document in enumerate(documents):
        values = _values(document.fields or {}, plan)
        if isinstance(values, Reason):
            refused[i] = values
        else:
            usable.append(values)
            characters += sum(map(len, values))
    return Reading(Features(*blocking.join_values(usable)), refused, characters)


def _values(record: Mapping[str, str], plan: RecordPlan) -> Values | Reason:
    """Normalised values in the order of the fields, empty for a missing field; or the reason of the refusal."""
    raw = [record.get(field.name, "") for field in plan.fields]
    if sum(map(len, raw)) > plan.text_characters_max:
        return Reason("text_too_long")
    normal = (normalize_any(value, plan.normal_form).replace(SEPARATOR, " ") for value in raw)
    values = tuple("" if value.strip().casefold() in plan.placeholders else value for value in normal)
    try:
        "".join(values).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return Reason("surrogate")
    keys = [*plan.blocking.exact, *((field,) for field in plan.blocking.shingled)]
    return values if any(all(values[field] for field in key) for key in keys) else Reason("no_key")


def contents(features: Features) -> npt.NDArray[np.uint64]:
    """Content hashes ``uint64[n, 2]``: equal for records with the same values."""
    data, bounds = features.values.tobytes(), features.starts.tolist()
    digests = [mmh3.mmh3_x64_128_digest(data[a:b]) for a, b in pairwise(bounds)]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64).reshape(-1, 2)


def evidence(features: Features, plan: RecordPlan) -> Evidence:
    """The values as they are, and the sketches of the shingled fields."""
    values = blocking.split_values(features.values, features.starts)
    return ragged_evidence(features.values, features.starts, blocking.sketches(values, plan.blocking))


def keys(evidence: Evidence, plan: RecordPlan) -> Keys:
    """The exact keys in their order, then the bands of each shingled field."""
    columns = evidence.ragged, evidence.starts, evidence.fixed
    return Keys(*blocking.keys(*columns, len(plan.fields), plan.blocking), NO_PAYLOADS)


def common(a: Evidence, b: Evidence, plan: RecordPlan) -> Common:
    """The common keys of two records, and their score divided by the weights of the scored fields."""
    one, other = keys(a, plan), keys(b, plan)
    shared = blocking.shared_keys(one.values, one.starts, other.values, other.starts)
    left, right = (blocking.split_values(side.ragged, side.starts) for side in (a, b))
    points, weights = scoring.score(left, right, plan.fields, plan.nicknames, plan.missing)
    least = plan.compared * sum(field.weight for field in plan.fields)
    return Common(shared, np.ones(len(shared), np.bool_), scoring.similarity(points, weights, least))


def signing(plan: RecordPlan) -> tuple[object, ...]:
    """Return the parameters that decide values and keys, and the shape of the bands if there are bands."""
    names = tuple(field.name for field in plan.fields)
    block = plan.blocking
    shape = (block.k, block.bands, block.rows) if block.shingled else ()
    parts = (FOLD_RULES, *plan.normal_form, plan.text_characters_max, tuple(sorted(plan.placeholders)))
    return (*parts, names, block.exact, block.shingled, shape, block.seed)


def score_settings(plan: RecordPlan) -> tuple[object, ...]:
    """Return what decides a score in addition to the values: weights, penalties, missing points, what must be
    compared, nicknames."""
    groups = tuple(sorted((word, *sorted(numbers)) for word, numbers in plan.nicknames.groups.items()))
    return (plan.fields, plan.missing, plan.compared, plan.nicknames.names, groups)


def sample(text: str, plan: RecordPlan) -> Document:
    """Every second field is the text; the other fields are its beginning, equal if two texts begin alike."""
    names = sorted(field.name for field in plan.fields)
    return Document("", fields={name: text if n % 2 else text[:12] for n, name in enumerate(names)})


SCHEME = Scheme(
    plan, features, contents, evidence, keys, common, signing,
    by_content=False,
    direct=False,  # keys are a part of its precision
    exact=False,
    options=RecordOptions,
    guarantee="scored if two records share an exact key, or a band of a shingled field with 1 - (1 - s^r)^b",
    scoring=score_settings,
    sample=sample,
    examples=({"scheme_options": {"penalty": 0.01}}, {"scheme_options": {"shingled": ("name",)}, "threshold": 0.3}),
)  # fmt: skip
