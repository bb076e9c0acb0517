"""The schemas of what requests and responses hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, get_args, get_type_hints

from neardup.documents.document import RELATIONS, Explanation
from neardup.pairs.json_lines import TITLE_CHARACTERS_MAX, URL_CHARACTERS_MAX
from neardup.stories.sources.accounts import COUNTS, LAG_NAMES
from neardup.stories.verdicts.fields import FIELDS, NAMES, RELATION_FIELDS, TEXT_FIELDS, schema_of
from neardup_workers.doing.http.feeds import bounds_of_report
from neardup_workers.outside.feeds.condition import STATES

Schema = Mapping[str, Any]
# Type of Python -> of JSON.
_KINDS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def link(name: str, kind: str = "schemas") -> dict[str, Any]:
    """Return a reference to a component of the description."""
    return {"$ref": f"#/components/{kind}/{name}"}


def listed(schema: Schema, description: str | None = None) -> dict[str, Any]:
    """Return the schema of a list."""
    return _with({"type": "array", "items": schema}, description)


def record(members: Mapping[str, Schema], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an object: what must be there, and what may be."""
    required = [name for name in members if name not in optional]
    return {"type": "object", **({"required": required} if required else {}), "properties": dict(members)}


def _exact(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has no other members."""
    return {**schema, "additionalProperties": False}


def typed(kind: type, *names: str) -> dict[str, Schema]:
    """Return the schemas of fields of a class, by their types."""
    types: dict[str, Any] = {name: hint for name, hint in get_type_hints(kind).items() if name in names}
    found = {name: [_KINDS[one] for one in get_args(hint) or (hint,)] for name, hint in types.items()}
    return {name: {"type": kinds[0] if len(kinds) == 1 else kinds} for name, kinds in found.items()}


def _with(schema: dict[str, Any], description: str | None) -> dict[str, Any]:
    return {**schema, "description": description} if description else schema


def _text(description: str | None = None) -> dict[str, Any]:
    return _with({"type": "string"}, description)


def _whole(description: str | None = None) -> dict[str, Any]:
    return _with({"type": "integer"}, description)


def _or_null(kind: str, description: str | None = None) -> dict[str, Any]:
    return _with({"type": [kind, "null"]}, description)


_FLAG, _SECONDS = {"type": "boolean"}, {"type": "number"}
_COLLECTION = _text("Of a document that has one: documents of different collections never meet.")
# What an answer and a stored version say of a document.
_VERDICT: dict[str, Schema] = {
    **{field.name: schema_of(field, nullable=True) for field in FIELDS},
    "place": _or_null("integer"),
    "repeated": _with(
        _FLAG, "The same id with the same content was checked before; the status is that of the first time."
    ),
    "source": _or_null("string", "Who tells it: its field source, else the host of its url, or of an id that is one."),
    "url": _or_null("string", "As the document has it, also where it is no address of the web."),
    "title": _or_null("string"),
    "collection": _COLLECTION,
}
_VERSION: dict[str, Schema] = {
    "id": _text(),
    **_VERDICT,
    "time": _SECONDS,
    "date": _or_null("number", "The document's own timestamp in seconds, where time is that of its arrival."),
    "expired": {
        "type": "boolean",
        "description": "The document has left the window; history_seconds keeps its verdict.",
    },
    **{
        name: listed(link("Quote"), f"In a cluster, with scheme parts or passages: {what}, the newest first.")
        for name, what in (
            ("quotes", "documents of other clusters that it has passages of"),
            ("quoted_by", "the later ones that have passages of it"),
        )
    },
}
_NEIGHBOUR = record(
    {
        "id": _text(),
        "similarity": {"type": "number"},
        "probability": {"type": "number", "description": "That a document of this similarity is found."},
    }
)
_NO_STRING = "A string; another value counts as none."
_DOCUMENT: dict[str, Schema] = {
    "id": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 64) - 1},
        ],
        "description": "Name of the document; the same id again is a new version.",
    },
    "text": {
        "type": "string",
        "pattern": "\\S",
        "description": "Text to compare; scheme signals reads title, vector, picture and the fields of a record, too, "
        "schemes of other things tokens, vector or the fields of a record.",
    },
    "timestamp": {
        "description": "Event time: seconds since the epoch, ISO 8601 or RFC 2822; the time of the server by default, "
        "and for any other value."
    },
    "source": {"description": f"Who tells it; the setting fields names another field. {_NO_STRING}"},
    "url": {"description": f"Where it can be read; {URL_CHARACTERS_MAX:,} characters at most are kept. {_NO_STRING}"},
    "title": {"description": f"Its headline; {TITLE_CHARACTERS_MAX} characters at most are kept. {_NO_STRING}"},
}
_CLUSTER: dict[str, Schema] = {
    "cluster": _whole(),
    "size": _whole(),
    "representative": _or_null("string"),
    "preview": _or_null("string", "The first words of the representative, if texts are stored."),
    **{name: _or_null("string", "Of the representative.") for name in ("source", "url", "title")},
    "collection": _COLLECTION,
    "others": listed(_text(), "Ids of the members behind the representative, four at most."),
    "other_sources": listed(_or_null("string"), "The sources of these members."),
    "sources": _whole("How many sources its members have; in a list those of the first 1,000 members."),
    "original_removed": _FLAG,
    "first_time": _SECONDS,
    "last_time": _SECONDS,
    "first_date": _or_null("number", "Of its documents, the time of those without a date; as sources, in a list."),
    "last_date": _or_null("number"),
    "related": _or_null("integer"),
    "muted": _with(_FLAG, "Lists, the Atom feed and the web hook leave it out."),
    "followed": _with(_FLAG, "Each new document of it is an event joined."),
    "members": listed(link("Version")),
    "strip": listed(
        _whole(),
        "How many members arrived in each of equal spans from the first time to the last; of a large cluster an "
        "estimate.",
    ),
    "next": _or_null("integer", "The place to continue behind, if there are more members."),
    "updates": listed(link("Version"), "The newest updates of the cluster, twenty at most, the newest first."),
}
_SOURCE_COUNTS: dict[str, Schema] = {
    **{name: _whole() for name in COUNTS},
    "own": _whole("Duplicates of other ids of the same source."),
    "first_by_arrival": _whole("Stories that other sources tell as well, in which it arrived first."),
    "first_by_date": _whole("Stories that other sources tell as well, in which it has the first date."),
    "uncertain": _whole("How many of documents may belong to sources that were forgotten."),
}
_LAGS: dict[str, Schema] = {
    name: _or_null("number", f"Median of the seconds by which its duplicates {what} after originals of other sources.")
    for name, what in zip(LAG_NAMES, ("arrived", "are dated"), strict=True)
}
_SOURCE_HOUR = record(
    {"hour": _or_null("integer", "Its begin; null for documents without a time."), **_SOURCE_COUNTS, **_LAGS},
    (*_SOURCE_COUNTS, *_LAGS),
)
_PARTNER = record({"source": _or_null("string"), "documents": _whole()})
_SOURCE: dict[str, Schema] = {
    "source": _or_null("string", "null for documents without a source."),
    **_SOURCE_COUNTS,
    **_LAGS,
    "earlier_in": listed(_PARTNER, "Sources that had its duplicates earlier, by order of arrival, the most first."),
    "later_in": listed(_PARTNER, "Sources that had duplicates of its originals later, the most first."),
    "hours": listed(_SOURCE_HOUR, "The hours in which documents arrived, the oldest first; counts above zero alone."),
}
_REPEATING: dict[str, Schema] = {
    "source": _text(),
    "hour": _or_null("integer", "Its begin."),
    "documents": _whole("Of the source in the hour."),
    "repeated": _whole("Of them, duplicates of other ids of the same source."),
}
_PASSAGE = record({"kind": {"enum": ["both", "first", "second"]}, "text": _text()}, ("kind", "text"))
_SHARED = {field.name: schema_of(field) for field in RELATION_FIELDS if field.name != "relation_to"}
_MARKED = record({"text": _text(), "passage": _or_null("integer", "Number of the passage."), "exact": _FLAG})
_NOVELTY = _with(
    record(
        {
            "said": {"type": "number"},
            "said_min": _or_null("number"),
            "new_numbers": _whole(),
            "is_new": _FLAG,
            "new": schema_of(TEXT_FIELDS[0]),
        }
    ),
    "With novelty: the part of the newer text that the older one has said, of at least said_min of a copy; how many of "
    "its numbers are new; whether it says something new; and what, where both texts are stored.",
)
_EXPLANATION: dict[str, Schema] = {
    **typed(Explanation, "older", "newer", "reason"),
    "sentence": _text(),
    **typed(Explanation, "about", "similarity", "buckets", "candidate_probability", "pair_probability", "signal"),
    "by_signal": {
        "type": ["object", "null"],
        "additionalProperties": {"type": "number"},
        "description": "With scheme signals: the similarity by the text and by each signal that both have.",
    },
    "passages": listed(link("Passage")),
    "shared": record(_SHARED),
    "sides": listed(listed(_MARKED), "The older and the newer text in pieces, where both are stored."),
    "novelty": _NOVELTY,
    "judged": _with(
        record({"did": {"enum": ["together", "apart"]}, "time": _SECONDS, "who": _text()})
        | {"type": ["object", "null"]},
        "Of two ids: what a person said last of them, which holds whatever the reason says.",
    ),
}
_ANSWER: dict[str, Schema] = {
    "id": _text(),
    "added": _FLAG,
    **_VERDICT,
    "pairs": listed(link("Pair"), "Earlier documents that it is near, the most similar first, or those that cover it."),
    "nearest": listed(_NEIGHBOUR, "The most similar documents, best first, if nearest requests them."),
}
_PROBLEM: dict[str, Schema] = {
    "type": _text(),
    "title": _text("The rule."),
    "status": _whole(),
    "detail": _text("The remedy."),
    "reason": _text(),
    "field": _text(),
}
# How a feed is, as a process that watches it reports it.
_CONDITION: dict[str, Schema] = {
    "failures": _whole("Requests in a row that failed."),
    "newest": _or_null("number", "Date of its newest item."),
    "gap_seconds": _or_null("number", "Usual time between two of its items."),
    "asked": _or_null("number", "When it was asked last."),
    "succeeded": _or_null("number", "When it was last read, or had not changed."),
    "brought": _or_null("number", "When its last new item came."),
    "status": _or_null("integer", "HTTP status of the last answer, null if there was none."),
    "reason": _text("Why the last request failed; empty if it did not."),
    "address": _text("Where it is now, after redirects; empty before it was read."),
    "wait_seconds": _or_null("number", "To the next request or report, null if there is none."),
}
# The same in a report, with the bounds of its values.
_REPORT = {
    name: {**schema, **bounds_of_report(name)}
    for name, schema in {"url": _text("Its address, as it was given."), **_CONDITION}.items()
}
_FEED: dict[str, Schema] = {
    "url": _text("Its address, as it was given."),
    **_CONDITION,
    "reported": _with(_SECONDS, "When that was reported."),
    "state": {
        "enum": list(STATES),
        "description": "gone: for good, by its server. failing: the last request failed. unreported: nothing was heard "
        "of its watcher for three waits. silent: nothing new for three usual gaps and half a day.",
    },
    "meaning": _text("What the last request brought."),
}

SCHEMAS: dict[str, Schema] = {
    "Document": record(_DOCUMENT, ("text", "timestamp", "source", "url", "title")),
    "Pair": record({"id": _text(), "similarity": {"type": "number"}, "buckets": _whole(), **_SHARED}, tuple(_SHARED)),
    "Answer": record(_ANSWER, (*_VERDICT, "nearest")),
    "Version": record(_VERSION, (
        "repeated", "date", "expired", "collection", "quotes", "quoted_by",
        *(name for name in NAMES if name not in ("status", "cluster")),
    )),
    "Quote": record({
        "id": _text(), "cluster": _whole(), **{name: _or_null("string") for name in ("source", "url", "title")},
        "relation": _with({"enum": list(RELATIONS)}, "What the later document is to the earlier one."),
    }),
    "Versions": {"allOf": [link("Version"), record({"versions": listed(link("Version"))})]},
    "Source": record(_SOURCE, ("hours",)),
    "Repeating": record(_REPEATING),
    "Documents": record({
        "documents": listed(link("Version")), "next": _or_null("string", "The cursor of the next page."),
    }),
    "Cluster": record(_CLUSTER, ("members", "strip", "next", "updates", "collection")),
    "Explanation": record(
        _EXPLANATION, [name for name in _EXPLANATION if name not in ("older", "newer", "reason", "sentence")]
    ),
    "Letter": record({
        "number": _whole(), "created": _SECONDS, "attempts": _whole(), "failure": _text("Why it was not taken."),
        "event": _with({"type": "object"}, "What was sent."),
    }),
    "Audited": record({
        "number": _whole(), "time": _SECONDS,
        "who": _text("The name of the token; anyone, where none is needed; start, of settings."),
        "did": {"enum": ["remove", "together", "apart", "mark", "settings"]}, "what": {"type": "object"},
        "why": _or_null("string"),
    }),
    "Feed": record(_FEED),
    "FeedReports": _exact(record({
        "feeds": listed(_exact(record(_REPORT, tuple(_CONDITION)))),
        "unlisted": listed(_REPORT["url"], "Addresses of feeds that are watched no longer."),
    }, ("feeds", "unlisted"))),
    "Passage": _PASSAGE,
    "Problem": record(_PROBLEM, ("field",)),
    "Undecided": record({
        "id": _text(), "decided": _with(_FLAG, "False."),
        "place": _text("Partition and offset in the topic of documents."),
    }),
}  # fmt: skip
