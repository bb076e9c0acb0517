"""Input and output of the library: documents, pairs, refusals. Plain values, no behaviour.

Annotations are evaluated here: a named tuple gives them to readers of signatures without the module that explains them.
"""

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from neardup.documents.pieces import Marked, NewWord, Novelty, Passage

# The types of numbers in an array that is a vector; bytes and truth values are bits.
Component = (
    np.float16 | np.float32 | np.float64 | np.int8 | np.int16 | np.int32 | np.int64 | np.uint8 | np.uint16 | np.uint32
    | np.uint64 | np.bool_
)  # fmt: skip


class Document(NamedTuple):
    """One item of the stream. The scheme decides which of text, tokens, vector and fields it compares.

    Args:
        id: name of the document in every pair. A repeated id is a new version. A whole number becomes its decimal text.
        text: text to compare, of any length and script.
        timestamp: event time in seconds since 1970-01-01 UTC, or a date: a ``datetime`` (UTC without a zone), a
            ``datetime64``, a text as lines of JSON have it; ``None`` or NaN for the stream time at arrival.
        tokens: elements of a set or bag (strings or whole numbers of 64 bits), or ratings by item.
        vector: components; or their bytes (``float32``, little-endian); or packed bits, the first bit highest.
        fields: values of a record by field name, of schemes ``records`` and ``signals``.
        rank: a number: a cluster may show the member with the greatest one.
        source: who tells it, a name or a host; without one it is the host of ``url``, or of an id that is a URL.
        url: where it can be read.
        title: its headline.
        collection: documents of different collections never meet; ``Config.collection_field`` must be set.
        picture: the hash of its picture, of scheme ``signals``: bytes, or hexadecimal digits as ``imagehash`` writes.
        reference: of an old set: later documents are compared with it, and it is compared with nothing.

    A value that cannot be used raises nothing: ``Signer.sign`` refuses the document with a key of ``REASONS``.

    Example:
        >>> Document("a", "some text", timestamp=1_700_000_000.0).text
        'some text'
    """

    id: str
    text: str = ""
    timestamp: float | None = None
    tokens: Sequence[str | int] | Mapping[str, float] | None = None
    vector: Sequence[float] | npt.NDArray[Component] | bytes | None = None
    fields: Mapping[str, str] | None = None
    rank: float | None = None
    source: str | None = None
    url: str | None = None
    title: str | None = None
    collection: str | None = None
    picture: bytes | str | None = None
    reference: bool = False


# What a document has besides its text that can say which story it tells; a record is its fields.
SIGNALS = ("title", "vector", "picture", "record")
# The values of many documents: ``map`` with these takes a third of the time of a comprehension.
ID, TEXT, TIMESTAMP, COLLECTION, REFERENCE = map(attrgetter, ("id", "text", "timestamp", "collection", "reference"))


def check_type(value: object, kind: type | tuple[type, ...], rule: str) -> None:
    """Raise ``TypeError`` for an argument of another type: the type, and the rule."""
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} is given, but {rule}")


class Column(NamedTuple):
    """n strings as one array: string i is ``data[starts[i]:starts[i + 1]]``, in UTF-8.

    ``data`` is ``uint8[m]``, ``starts`` is ``int64[n + 1]``, as the buffers of an Arrow string array are.
    """

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]

    def at(self, i: int) -> bytes:
        """The bytes of string i."""
        return self.data[self.starts[i] : self.starts[i + 1]].tobytes()


class DocumentColumns(Sequence[Document]):
    """n documents with texts, as columns. Reading one of them makes a ``Document``; signing them makes none.

    Args:
        ids: the ids.
        times: event times in seconds since the epoch, ``float64[n]``; not a number where a document has none.
        texts: the texts.
        collections: their collections, empty where a document names none; ``None`` if none does.
    """

    def __init__(
        self, ids: Column, times: npt.NDArray[np.float64], texts: Column, collections: Column | None = None
    ) -> None:
        self.ids, self.times, self.texts, self.collections = ids, times, texts, collections

    def __len__(self) -> int:
        return len(self.times)

    @overload
    def __getitem__(self, i: int) -> Document: ...
    @overload
    def __getitem__(self, i: slice) -> list[Document]: ...
    def __getitem__(self, i: int | slice) -> Document | list[Document]:
        """One document, or a list of some; bytes that are not UTF-8 are replaced by U+FFFD."""
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        position = range(len(self))[i]
        time = float(self.times[position])
        id_, text = (column.at(position).decode(errors="replace") for column in (self.ids, self.texts))
        return Document(id_, text, None if math.isnan(time) else time, collection=self.collection(position))

    def collection(self, position: int) -> str | None:
        """The collection of a document."""
        return None if self.collections is None else self.collections.at(position).decode(errors="replace") or None


# What a text is to another one: part of it, from half of itself on; what contains it; or one that shares something.
RELATIONS = ("part_of", "contains", "shares")
HALF = 0.5


class Relation(NamedTuple):
    """What a document has in common with an earlier one, of scheme ``passages``.

    Attributes:
        kind: ``part_of`` if at least half of the document stands in the earlier one, else ``contains`` if at least
            half of the earlier one stands in the document, else ``shares``.
        id: the id of the earlier document.
        older_fraction, newer_fraction: the estimated part of the earlier text and of the document, in [0, 1].
        passages: begin and end in the earlier text, then in the document, in normalised code points.
    """

    kind: str
    id: str
    older_fraction: float
    newer_fraction: float
    passages: tuple[tuple[int, int, int, int], ...]


class Pair(NamedTuple):
    """Two documents that are nearly the same.

    Args:
        older, newer: ids in order of event time; ties and documents without a time in order of arrival.
        similarity: in [0, 1]: an estimate or the true value, as the scheme says. 1 for identical content.
        buckets: number of common bucket keys (bands, for most schemes), at least 1.

    Attributes:
        collection: of both documents, no part of the tuple; ``None`` without one.
        relation: of scheme ``passages``, of the newer document to the older one; no part of the tuple.
        signal: of scheme ``signals``: the one of ``SIGNALS`` that makes the pair; no part of the tuple.

    Example:
        >>> Pair("a", "b", similarity=0.93, buckets=11).newer
        'b'
    """

    older: str
    newer: str
    similarity: float
    buckets: int

    @property
    def collection(self) -> str | None:
        """The collection of both documents."""
        value: str | None = getattr(self, "collection_", None)
        return value

    @property
    def relation(self) -> Relation | None:
        """What the newer document is to the older one."""
        value: Relation | None = getattr(self, "relation_", None)
        return value

    @property
    def signal(self) -> str | None:
        """Of scheme ``signals``: the one of ``SIGNALS`` that makes the pair; ``None`` if the texts do."""
        value: str | None = getattr(self, "signal_", None)
        return value


class CollectionPair(Pair):
    """A pair with a collection or a relation: it unpacks like any other, and equals pairs of its collection alone."""

    def __new__(
        cls, older: str, newer: str, similarity: float, buckets: int, collection: str | None = None,
        relation: Relation | None = None, signal: str | None = None,
    ) -> "CollectionPair":  # fmt: skip
        """Make a pair of these."""
        pair = super().__new__(cls, older, newer, similarity, buckets)
        pair.__dict__.update(collection_=collection, relation_=relation, signal_=signal)
        return pair

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair) and self.collection == other.collection and tuple(self) == tuple(other)

    __hash__ = Pair.__hash__

    def __repr__(self) -> str:
        named = {"collection": self.collection, "relation": self.relation, "signal": self.signal}
        more = "".join(f", {name}={value!r}" for name, value in named.items() if value is not None)
        return f"{super().__repr__()[:-1]}{more})"


class Neighbour(NamedTuple):
    """A document that is similar to another one.

    Args:
        id: of the neighbour.
        similarity: in [0, 1]: an estimate or the true value, as the scheme says. 1 for identical content.
        probability: that a neighbour of this similarity is found, in [0, 1].

    Example:
        >>> Neighbour("a", similarity=0.93, probability=0.999).id
        'a'
    """

    id: str
    similarity: float
    probability: float


class Verdict(NamedTuple):
    """The decision about one document, made once.

    Attributes:
        id: the id of the document.
        status: ``original`` (keep it), ``update`` (keep it: a new version in the story that its id began, or
            something new), ``duplicate`` (drop it: its content was compared with that of a kept version), ``unchanged``
            (the latest version of its id has the same content) or ``refused``.
        duplicate_of: the id of the original, of a duplicate and of an unchanged version of one.
        similarity: to the version ``matched``, in [0, 1].
        cluster: the place of the original of its story: the number of documents that were decided before it.
        related: for an original, the cluster of the most similar document that it was compared with, or of the version
            before.
        previous: the place of the latest version of the same id in the window.
        matched: the place of the kept version that its content was compared with, or is equal to.
        late: whether it came after its window: it was compared, and has no further effect.
        collection: of the document, and of the original.
        relation: of scheme ``passages``, to the earlier document that it shares most with; ``None`` without one.
        against: with ``novelty``, for an original, the place of the kept version that it is most similar to and says
            something new to.
        said: with ``novelty``, the part of the text that the version ``matched`` or ``against`` has said, in [0, 1].
        new_numbers: how many numbers of the text that version lacks; ``None`` for none.
        signal: of scheme ``signals``, of an update: one of ``SIGNALS`` that joins it to ``matched``; or ``None``.
        new: what the text says that that version does not say, numbers first, at most 16; of an original and an update.
        reason: why the document was refused, a key of ``REASONS``.
    """

    id: str
    status: str
    duplicate_of: str | None = None
    similarity: float | None = None
    cluster: int | None = None
    related: int | None = None
    previous: int | None = None
    matched: int | None = None
    late: bool = False
    collection: str | None = None
    relation: Relation | None = None
    against: int | None = None
    said: float | None = None
    new_numbers: int | None = None
    signal: str | None = None
    new: tuple[NewWord, ...] = ()
    reason: str | None = None


class Explanation(NamedTuple):
    """Why two documents are a pair, or why not.

    Attributes:
        older, newer: ids in order of arrival.
        reason: a key of ``EXPLANATIONS``, which has a sentence for each; ``pair`` if they are a pair.
        about: the id that the reason is about, where it names one: the document that is unknown, removed or refused,
            or the copy that makes the pair instead.
        similarity: in [0, 1], as a pair would have it; ``None`` without the evidence of both.
        buckets: number of common bucket keys; ``None`` without the evidence of both.
        candidate_probability: of a pair of this similarity, to share enough buckets; ``None`` if it is not known.
        pair_probability: of a pair of this similarity, to be emitted. ``None`` where the scheme does not say.
        passages: what the texts share and in what they differ, if both documents were given with their texts.
        relation: of scheme ``passages``, of the newer document to the older one.
        sides: with a relation and both texts, the older and the newer text in pieces, of which the common ones have
            numbers.
        novelty: with ``novelty``, what the newer document adds to the older one.
        signal: of scheme ``signals``: the one of ``SIGNALS`` that makes the pair; ``None`` if the texts do.
        by_signal: of scheme ``signals``: the similarity by the text and by each signal that both have.
    """

    older: str
    newer: str
    reason: str
    about: str | None = None
    similarity: float | None = None
    buckets: int | None = None
    candidate_probability: float | None = None
    pair_probability: float | None = None
    passages: tuple[Passage, ...] = ()
    relation: Relation | None = None
    sides: tuple[tuple[Marked, ...], ...] = ()
    novelty: Novelty | None = None
    signal: str | None = None
    by_signal: Mapping[str, float] | None = None


class Refusal(NamedTuple):
    """A document that cannot be used.

    Args:
        position: in the input of the call, from 0.
        id: its id.
        reason: a key of ``REASONS``, which has a sentence for each.

    Example:
        >>> REASONS[Refusal(0, "a", "empty").reason]
        'the text is empty after normalisation'
    """

    position: int
    id: str
    reason: str


class Features(NamedTuple):
    """The compared values of n documents; those of document i are ``values[starts[i]:starts[i + 1]]``.

    ``values`` are hashed shingles (``uint64``), components (``float32``) or bytes (``uint8``); ``starts`` is
    ``int64[n + 1]``.
    """

    values: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]


# Every reason to refuse an input, and the sentence for users. Metrics and rejects carry the key.
REASONS: dict[str, str] = {
    "empty": "the text is empty after normalisation",
    "no_shingles": "the text holds no shingle of the configured kind",
    "surrogate": "the text holds a lone surrogate, which no Unicode encoding can carry",
    "text_not_utf8": "the text is not UTF-8",
    "text_too_long": "the text, or its normalised form, is longer than text_characters_max",
    "id_too_long": "the id, with its collection, is longer than 1,024 bytes in UTF-8",
    "id_surrogate": "the id holds a lone surrogate, which no Unicode encoding can carry",
    "timestamp_range": "the timestamp is not a finite number of seconds within 146,000 years of the epoch",
    "not_utf8": "the line is not UTF-8",
    "not_json": "the line is not JSON",
    "several_values": "the line holds several values of JSON, one behind the other: jq -c . FILE makes lines of them",
    "too_deep": "the JSON is nested too deep",
    "not_object": "the JSON value is not an object",
    "no_text": "the text field is missing",
    "text_type": "the text field is not a string",
    "fields_type": "the fields are no mapping of names to strings",
    "no_tokens": "the field of tokens is missing",
    "tokens_type": "the tokens are neither a list of strings and whole numbers nor ratings by item",
    "no_key": "the record has no value in the fields of any blocking key, so it could never meet another",
    "no_square": "the set of squares is empty",
    "square_range": "a token is no square of the grid: a whole number of at least 0 and below grid_squares",
    "tokens_empty": "there are no tokens, or none whose rating counts",
    "tokens_too_many": "the tokens are more than 1,000,000",
    "token_range": "a token is a whole number beyond 64 bits with a sign",
    "rating_range": "a rating is not in the range of the rule of ratings, or no whole number of stars",
    "no_vector": "the field of the vector is missing",
    "vector_type": "the vector is neither a list of numbers nor a string in base64",
    "vector_base64": "the vector is a string that is not base64",
    "vector_length": "the vector or list of symbols is not as long as dimension says",
    "vector_range": "a component of the vector is not finite, or beyond 1e30 in size",
    "vector_zero": "every component of the vector is zero, so it has no direction",
    "vector_sparse": "the length of the vector lies in too few components for planes of signs: set planes to normal",
    "vector_norm": "the vector is longer than norm_max",
    "vector_component": "a component of the vector is not a whole number from 0 to component_max",
    "vector_bit": "a component of a vector of bits is neither 0 nor 1",
    "vector_half": "a component of the vector is beyond 65,504 times distance_scale, which float16 cannot keep",
    "vector_padding": "a bit beyond the last component of the vector is set",
    "picture": "the picture is damaged, has more than 89 million pixels, or is none of BMP, GIF, JPEG, PNG, TIFF, WebP",
    "picture_length": "the hash of the picture does not have picture_bits bits as hexadecimal digits or bytes",
    "picture_file": "the picture is no hash, base64 or file (from the folder of its line on) of line_bytes_max at most",
    "picture_package": "the hash of a picture needs Pillow, not installed here: pip install pillow, or bring the hash",
    "no_id": "the id field is missing",
    "id_not_utf8": "the id (on Kafka the message key) is not UTF-8",
    "id_type": "the id field is neither a string nor a whole number of 64 bits",
    "timestamp_type": "the timestamp field is neither a number nor a date whose time is certain, as 2026-11-30 is",
    "timestamp_unit": "the timestamp lies beyond the year 5000: for milliseconds, --set timestamp_unit=ms (or us, ns)",
    "no_time": "neither the document nor the message that brought it has a time",
    "line_too_long": "the line is longer than line_bytes_max",
    "evidence_too_large": "the evidence of the document does not fit a message",
    "file_too_large": "the file is larger than line_bytes_max",
    "blocked": "the id or the content stands in the block list",
    "collection": "the collection is neither a string without the character U+001F nor a whole number of 64 bits",
    "origin": "the origin is neither old nor new",
    "collection_off": "the document names a collection, but collection_field is not set",
}
