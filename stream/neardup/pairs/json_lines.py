"""JSON lines: a line -> a document, or the reason why not; pairs -> lines. No input or output.

What a line must be: one JSON value in UTF-8 (RFC 8259), an object, at most 1,024 deep. Of a name that stands twice in
an object, the last value counts. Names that are not asked for are ignored.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.documents.dates import SECONDS_MAX, YEAR_1583_SECONDS, date_seconds
from neardup.documents.document import Document, Relation
from neardup.documents.ids import SEPARATOR
from neardup.documents.paths import has_field, text_at, value_at
from neardup.errors import Reason
from neardup.pairs.pair_rule import SIMILARITY_DIGITS, Matches, relations_of

# Characters of an address and of a title; more are cut off.
URL_CHARACTERS_MAX, TITLE_CHARACTERS_MAX = 2_000, 500
# Values of the field that ``origin`` names: documents of the old set are compared with nothing.
ORIGINS = OLD, _ = "old", "new"
# The parser gives up below this depth; the number is its own.
DEPTH_MAX = 1024
# Digits of a number of 64 bits at most, with its sign.
_WHOLE_DIGITS = 20
# Unit of a timestamp -> how many of it are a second.
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
# From this many seconds on, a number is more likely milliseconds (since 1973), microseconds or nanoseconds ...
_YEAR_5000_SECONDS = 95_617_584_000.0
# ... up to nanoseconds in the year 2262, where their 64 bits end.
_NANOSECONDS_MAX = 9.3e18
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*", re.ASCII)
_DATE = re.compile(r"\d{4}|\d{8}", re.ASCII)
# A number of milliseconds with a name around it, as serialisers of .NET write times.
_NAMED_MS = re.compile(r"/Date\((-?\d+)(?:[-+]\d{4})?\)/", re.ASCII)
# Texts that stand for no time.
_NO_TIMES = ("", "null")
# A JSON string, or what is left of one that does not end.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
# In UTF-8: what a terminal obeys, separators of lines and paragraphs, and invisible code points (``IGNORABLES``).
_UNPRINTABLE = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])"
    rb"|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xe3\x85\xa4"
    rb"|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb0-\xb8])"
    rb"|\xf0\x9b\xb2[\xa0-\xa3]|\xf0\x9d\x85[\xb3-\xba]|\xf3\xa0[\x80-\xbf]{2}"
)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Brackets that are counted at a time, so that a line of nothing else needs no more memory than itself.
_DEPTH_BLOCK = 1 << 20


# Is called with the reason and the value of a time that cannot be read.
Unread = Callable[[str, object], object]


class Fields(NamedTuple):
    """The names of the parts of a document in the input; what it must bring besides its id (``KINDS``); the unit of its
    timestamps (``UNITS``); the name of the number by which clusters rank it; that of its source, if source, URL and
    title are read; those of its collection and origin (``ORIGINS``); the bits of hashes of pictures, if compared."""

    id: str = "id"
    text: str = "text"
    timestamp: str = "timestamp"
    tokens: str = "tokens"
    vector: str = "vector"
    kind: str = "text"
    timestamp_unit: str = "s"
    rank: str | None = None
    source: str | None = None
    collection: str | None = None
    origin: str | None = None
    picture_bits: int | None = None


def decode_document(
    line: bytes,
    fields: Fields = Fields(),  # noqa: B008 - immutable
    id_default: str | None = None,
    unread: Unread | None = None,
) -> Document | Reason:
    """Decode one line to a document, or to the reason why not (a key of ``REASONS``). Never raises.

    Of the values of a document, only the one of ``fields.kind`` is read. Names of fields may be paths, and a text may
    be several (``documents.paths``). A timestamp is a number since the epoch in ``fields.timestamp_unit``, as a number
    or as digits in a string; or a date (``documents.dates``), UTC unless it names a zone (four or eight digits in a
    string are a year or a date of ISO 8601); or null or an empty text for no time. A number beyond the year 5000 in
    seconds that is a time of this age in a smaller unit is refused with ``timestamp_unit``. An id that is a whole
    number of 64 bits becomes its decimal text, and an empty text is no id, as an empty cell is none; ``id_default`` is
    the id of a line without one. With ``unread``, a document whose time is none has none; else it is refused.

    >>> decode_document(b'{"id": "a", "text": "hello", "timestamp": "1970-01-01T00:01:00Z"}')[:3]
    ('a', 'hello', 60.0)
    >>> decode_document(b'{"id": 7.5, "text": "hello"}')
    'id_type'
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _second_look(line)
        if isinstance(value, Reason):
            return value
    if type(value) is not dict:
        return Reason("not_object")
    id_ = value.get(fields.id)
    if type(id_) is not str or not id_:
        if (id_ is None and (id_ := value_at(value, fields.id)) is None) or id_ == "":
            id_ = id_default
        elif type(id_) is int or (type(id_) is float and id_.is_integer() and abs(id_) < 2.0**63):
            id_ = str(int(id_))
        if type(id_) is not str:
            return Reason("no_id") if id_ is None else Reason("id_type")
    timestamp = value.get(fields.timestamp)
    if timestamp is None and not fields.timestamp.isidentifier():  # a fast look: what is one is no path
        timestamp = value_at(value, fields.timestamp)
    if timestamp is not None:
        timestamp = event_seconds(given := timestamp, fields.timestamp_unit)
        if unread is not None and (reason := unread_time(timestamp)):
            unread(reason, given)
            timestamp = None
        if isinstance(timestamp, Reason):
            return timestamp
    document = KINDS[fields.kind](value, fields, id_, timestamp)
    if isinstance(document, Reason):
        return document
    if fields.rank is not None:
        document = document._replace(rank=_number(value_at(value, fields.rank)))
    if fields.source is not None:
        document = _with_source(document, value, fields.source)
    if fields.origin is not None:
        origin = value_at(value, fields.origin)
        if origin not in (None, *ORIGINS):
            return Reason("origin")
        document = document._replace(reference=origin == OLD)
    return document if fields.collection is None else _with_collection(document, value_at(value, fields.collection))


def _with_collection(document: Document, collection: Any) -> Document | Reason:
    """Return a document with its collection: a string without the character that ends it, or a whole number."""
    if collection is None or collection == "":
        return document
    name = str(collection) if type(collection) is int else collection
    if type(name) is not str or SEPARATOR in name:
        return Reason("collection")
    return document._replace(collection=name)


def _with_source(document: Document, value: dict[str, Any], field: str) -> Document:
    """Return a document with its source, URL and title, as far as the object has them as strings."""
    source, url, title = value_at(value, field), value.get("url"), value.get("title")
    if source is None and url is None and title is None:
        return document
    # ``_replace`` takes three times as long
    id_, text, timestamp, tokens, vector, fields, rank, *_, picture, _ = document
    return Document(
        id_, text, timestamp, tokens, vector, fields, rank,
        source if type(source) is str else None,
        url[:URL_CHARACTERS_MAX] if type(url) is str else None,
        title[:TITLE_CHARACTERS_MAX] if type(title) is str else None,
        None, picture,
    )  # fmt: skip


def _text(value: dict[str, Any], fields: Fields, id_: str, timestamp: float | None) -> Document | Reason:
    text = value.get(fields.text)
    if type(text) is not str and (text := text_at(value, fields.text)) is None:
        return Reason("text_type") if has_field(value, fields.text) else Reason("no_text")
    return Document(id_, text, timestamp)


def _tokens(value: dict[str, Any], fields: Fields, id_: str, timestamp: float | None) -> Document | Reason:
    """The elements of a set or bag, strings or whole numbers; or ratings by item."""
    tokens = value_at(value, fields.tokens)
    if type(tokens) is list and set(map(type, tokens)) <= {str, int}:
        return Document(id_, timestamp=timestamp, tokens=tokens)
    if type(tokens) is dict and set(map(type, tokens.values())) <= {float, int}:
        return Document(id_, timestamp=timestamp, tokens=tokens)
    return Reason("tokens_type") if has_field(value, fields.tokens) else Reason("no_tokens")


def _vector(value: dict[str, Any], fields: Fields, id_: str, timestamp: float | None) -> Document | Reason:
    """Components as a list of numbers; or, in base64, as little-endian float32 or packed bits."""
    vector = value_at(value, fields.vector)
    if type(vector) is list and set(map(type, vector)) <= {float, int}:
        return Document(id_, timestamp=timestamp, vector=vector)
    if type(vector) is str:
        try:
            return Document(id_, timestamp=timestamp, vector=base64.b64decode(vector, validate=True))
        except ValueError:
            return Reason("vector_base64")
    return Reason("vector_type") if has_field(value, fields.vector) else Reason("no_vector")


def _record(value: dict[str, Any], fields: Fields, id_: str, timestamp: float | None) -> Document:
    """Every string of the object by its name, and every number as it is written, but for id, timestamp and
    collection."""
    known = {fields.id, fields.timestamp, fields.collection, fields.origin}
    named = {name: x for name, x in value.items() if name not in known and type(x) in (str, int, float)}
    named = {name: x if type(x) is str else repr(x) for name, x in named.items()}
    return Document(id_, timestamp=timestamp, fields=named)


def _signals(
    value: dict[str, Any], fields: Fields, id_: str, timestamp: float | None, named: Mapping[str, str] | None = None
) -> Document | Reason:
    """A text; its title, vector, the hash of its picture (hexadecimal digits), if it has them; a record, if given."""
    document, title, picture = _text(value, fields, id_, timestamp), value.get("title"), value.get("picture")
    vector = None if value_at(value, fields.vector) is None else _vector(value, fields, id_, timestamp)
    if isinstance(document, Reason) or isinstance(vector, Reason):
        return document if isinstance(document, Reason) else vector  # type: ignore[return-value]
    title = title[:TITLE_CHARACTERS_MAX] if type(title) is str else None
    picture = picture if type(picture) is str else None
    return Document(id_, document.text, timestamp, None, vector and vector.vector, named, title=title, picture=picture)


# What a document brings in addition to id and time -> the function that reads it: a document, or the reason why not.
KINDS: dict[str, Callable[[dict[str, Any], Fields, str, float | None], Document | Reason]] = {
    "text": _text,
    "tokens": _tokens,
    "vector": _vector,
    "record": _record,
    "signals": _signals,
    "record_signals": lambda x, names, id_, time: _signals(x, names, id_, time, _record(x, names, id_, time).fields),
}
# The kinds whose documents have a text, and those that have fields of a record.
OF_TEXTS, OF_RECORDS = ("text", "signals", "record_signals"), ("record", "record_signals")


def encode_matches(matches: Matches, older_collections: Sequence[str | None] | None = None) -> bytes:
    """Pairs as lines of compact JSON, one each: older, newer, similarity (rounded to 4 digits), buckets; and, if they
    are known, the fraction of each text that they share, the passages and the collection (``shared_values``).
    Pairs across collections have that of the older document, too.

    They are safe to show, see ``escape_unprintable``.
    """
    if not matches.older:
        return b""
    shared = shared_values(matches)
    if older_collections is not None:
        shared = (more | {"older_collection": name} for more, name in zip(shared, older_collections, strict=True))
    ends = [b",%b\n" % orjson.dumps(more)[1:] if more else b"}\n" for more in shared]
    # Numbers a column at a time: an object for each pair takes ten times as long.
    older, newer = (map(orjson.dumps, ids) for ids in (matches.older, matches.newer))
    numbers = np.round(matches.similarity, SIMILARITY_DIGITS), matches.buckets
    similarity, buckets = (orjson.dumps(column.tolist())[1:-1].split(b",") for column in numbers)
    rows = zip(older, newer, similarity, buckets, ends, strict=True)
    lines = [b'{"older":%b,"newer":%b,"similarity":%b,"buckets":%b%b' % row for row in rows]
    return escape_unprintable(b"".join(lines))


def named_collection(collection: str | None) -> dict[str, str]:
    """Return a collection as a part of JSON; nothing for the empty one."""
    return {"collection": collection} if collection else {}


def shared_values(matches: Matches) -> Iterator[dict[str, Any]]:
    """Yield what each pair shares, as a part of its JSON: passages and the collection; empty if it is not known.

    ``older_fraction`` and ``newer_fraction`` have 4 digits. Begin and end of a passage are normalised code points.
    ``relation`` says what the newer text is: ``part_of`` the older one if half of it stands there, else one that
    ``contains`` it if half of the older one stands in the newer, else one that ``shares`` something. ``cover`` says
    whether the pair is in the cover of the newer text (``neardup.pairs.quotes``), where that is known.
    """
    if matches.collections is not None:
        apart = matches._replace(collections=None)
        for more, collection in zip(shared_values(apart), matches.collections, strict=True):
            yield more | named_collection(collection)
        return
    if matches.shared is None:
        yield from ({"signal": name} if name else {} for name in matches.signal_names())
        return
    cover = [{}] * len(matches.older) if matches.cover is None else [{"cover": one} for one in matches.cover.tolist()]
    relations = map(relation_values, relations_of(matches.shared, matches.older))
    yield from (one | more for one, more in zip(relations, cover, strict=True))


def relation_values(relation: Relation) -> dict[str, Any]:
    """Return a relation as values of JSON, without the id of the earlier document."""
    passages = [{"older": [a, b], "newer": [c, d]} for a, b, c, d in relation.passages]
    fractions = {"older_fraction": relation.older_fraction, "newer_fraction": relation.newer_fraction}
    return {"relation": relation.kind, **fractions, "passages": passages}


def relation_line(relation: Relation) -> dict[str, Any]:
    """Return a relation as values of JSON."""
    return {"relation_to": relation.id} | relation_values(relation)


def escape_unprintable(json_lines: bytes) -> bytes:
    """The same JSON with escapes for characters that a terminal obeys, or that are invisible.

    The values stay the same. Other letters, also those that are not ASCII, stay as they are.

    >>> escape_unprintable('{"id":"\u202ea\x9b é"}'.encode()).decode()
    '{"id":"\\\\u202ea\\\\u009b é"}'
    """
    if json_lines.isascii() and b"\x7f" not in json_lines:
        return json_lines
    return _UNPRINTABLE.sub(lambda found: json.dumps(found.group().decode())[1:-1].encode(), json_lines)


def _second_look(line: bytes) -> Any:
    """Return the value of a line that the fast parser refused, or the reason why it has none.

    JSON can spell a lone surrogate (``"\\ud800"``) and numbers beyond the range of a double. In an unused field they
    do no harm; in a text or an id they are refused later, with their own reason. NaN and Infinity, which Python writes,
    are null. Joined files have byte order marks before lines, text sequences (RFC 7464) record separators.
    """
    try:
        text = line.decode().lstrip("\ufeff\x1e")
    except UnicodeDecodeError:
        return Reason("not_utf8")
    if _is_too_deep(line):
        return Reason("too_deep")
    try:
        return json.loads(text, parse_constant=lambda name: None, parse_int=_whole)
    except RecursionError:
        return Reason("too_deep")
    except json.JSONDecodeError as error:
        is_more = error.msg == "Extra data" and text.startswith(("{", "["), error.pos)
        return Reason("several_values") if is_more else Reason("not_json")
    except ValueError:
        return Reason("not_json")


def _whole(digits: str) -> float:
    """Return a whole number as the fast parser does: one of more than 64 bits is a float, infinite if it must be."""
    number = int(digits) if len(digits) <= _WHOLE_DIGITS else 1 << 64
    return number if -(1 << 63) <= number < 1 << 64 else float(digits)


def _is_too_deep(line: bytes) -> bool:
    """Whether the brackets outside of strings are nested deeper than ``DEPTH_MAX``."""
    if line.count(b"[") + line.count(b"{") <= DEPTH_MAX:
        return False
    brackets = _STRING.sub(b"", line).translate(None, _NOT_BRACKETS)
    depth = 0
    for start in range(0, len(brackets), _DEPTH_BLOCK):
        codes = np.frombuffer(brackets, np.uint8, min(_DEPTH_BLOCK, len(brackets) - start), start)
        depths = depth + np.cumsum(np.where((codes == ord("[")) | (codes == ord("{")), 1, -1))
        if depths.max() > DEPTH_MAX:
            return True
        depth = int(depths[-1])
    return False


def _number(value: Any) -> float | None:
    """A finite number, as a number or as digits in a string; ``None`` for any other value."""
    if type(value) not in (int, float) and (type(value) is not str or not _NUMBER.fullmatch(value)):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def event_seconds(value: Any, unit: str) -> float | Reason | None:
    """A timestamp as seconds since the epoch (infinite if no double holds it), ``None`` for an empty text, or the
    reason why it is none.

    ``unit``: the unit of numbers (``UNITS``). See ``decode_document``.
    """
    if type(value) is dict and len(value) == 1 and "$date" in value:  # MongoDB: milliseconds, or a date
        value, unit = value["$date"], "ms"
        if type(value) is dict and len(value) == 1:
            value = value.get("$numberLong")
    if type(value) is str:
        if (named := _NAMED_MS.fullmatch(value)) is not None:
            value, unit = named[1], "ms"
        if not _NUMBER.fullmatch(value) or _DATE.fullmatch(value):
            if value.strip().lower() in _NO_TIMES:
                return None
            seconds = date_seconds(value)
            return Reason("timestamp_type") if seconds is None or seconds < YEAR_1583_SECONDS else seconds
        value = float(value)
    elif type(value) is not float and type(value) is not int:
        return Reason("timestamp_type")
    seconds = float(value) / UNITS[unit]
    return Reason("timestamp_unit") if _YEAR_5000_SECONDS <= seconds < _NANOSECONDS_MAX else seconds


def unread_time(seconds: float | Reason | None) -> str:
    """Return why what ``event_seconds`` returns is no time of a document that has none then; empty if it is one, or a
    number of another unit: a setting is wrong there, and all times are."""
    if isinstance(seconds, Reason):
        return "" if seconds == "timestamp_unit" else seconds
    return "" if seconds is None or abs(seconds) < SECONDS_MAX else "timestamp_range"


def is_other_unit(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Of numbers read as seconds, which are times of this age in a smaller unit, as ``event_seconds`` refuses them."""
    return np.asarray((seconds >= _YEAR_5000_SECONDS) & (seconds < _NANOSECONDS_MAX))
