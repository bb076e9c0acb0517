"""The signals of a document but its text: one row each, and the options that they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from neardup.documents.document import Document
from neardup.errors import ConfigError
from neardup.features.meaning.static_model import DIMENSION, MODELS
from neardup.schemes.parameters import SchemeOptions, one_of


class SignalOptions(SchemeOptions):
    """From which similarity each signal makes a pair; a signal without one is not compared."""

    title: float | None = Field(default=None, ge=0.05, le=1.0, description=
        "similarity from which two titles tell one story, of their characters")  # fmt: skip
    vector: float | None = Field(default=None, ge=0.05, le=1.0, description=
        "cosine from which two vectors tell one story")  # fmt: skip
    dimension: int | None = Field(default=None, ge=1, le=65_536, description="components of a vector")
    model: Annotated[str | None, one_of(None, *MODELS)] = Field(default=None, description=
        "makes a vector of the title, or of a text without one: " + ", ".join(MODELS))  # fmt: skip
    picture: float | None = Field(default=None, ge=0.55, le=1.0, description=
        "share of equal bits from which two hashes are of one picture")  # fmt: skip
    picture_bits: int = Field(default=64, ge=8, le=4_096, description="bits of the hash of a picture")
    record: float | None = Field(default=None, ge=0.05, le=1.0, description=
        "score from which two records tell one story, as scheme records has it")  # fmt: skip
    fields: tuple[str, ...] = Field(default=(), description=
        "fields of a record that are scored, as name, name:weight or name:weight:penalty")  # fmt: skip
    keys: tuple[str, ...] = Field(default=(), description=
        "fields whose equal values bring records together, as field or field+field; "
        "by default each field, or none where shingled names one")  # fmt: skip
    shingled: tuple[str, ...] = Field(default=(), description=
        "fields of a record whose similar values bring records together")  # fmt: skip
    penalty: float = Field(default=4.0, ge=0, le=1e6, description=
        "points lost for each square of the edit distance of a field of a record")  # fmt: skip
    missing: float | None = Field(default=None, ge=0, le=1, description=
        "share of a weight that a field earns which only one record has")  # fmt: skip
    hours: float = Field(default=48.0, gt=0, le=1e7, description=
        "hours within which signals other than the text tell one story")  # fmt: skip


class Signal(NamedTuple):
    """A row of ``SIGNALS``: the scheme that signs it, its settings and those of the scheme by the options of signals,
    what it compares of a document, ``None`` if that lacks it, and the form of its evidence."""

    scheme: str
    settings: Callable[[Any], Mapping[str, object]]
    options: Callable[[Any], Mapping[str, object]]
    of: Callable[[Document], Document | None]
    is_ragged: bool = False  # whether its evidence has a ragged part


def _dimension(options: Any) -> int | None:
    model, dimension = options.model, options.dimension
    if model is not None and dimension not in (None, DIMENSION):
        raise ConfigError(f"dimension={dimension}, but vectors of model={model} have {DIMENSION}: leave dimension out")
    return dimension if model is None else DIMENSION


def _picture(document: Document) -> Document | None:
    picture = document.picture
    if picture is None or (isinstance(picture, str | bytes) and not picture):
        return None
    if not isinstance(picture, str):
        return Document("", vector=picture)
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
    "record": Signal(
        "records",
        lambda o: {},
        lambda o: {name: getattr(o, name) for name in ("fields", "keys", "shingled", "penalty", "missing")},
        lambda document: Document("", fields=document.fields) if document.fields else None,
        is_ragged=True,
    ),
}
