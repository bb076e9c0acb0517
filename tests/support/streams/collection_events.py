"""A stream of collections, of an old and a new set, with sources, as records of a topic, and its verdicts."""

from __future__ import annotations

import json
import random
from typing import Any

from neardup import Config, Deduplicator, Document, Verdict
from neardup.pairs.json_lines import Fields, decode_document
from neardup.stories.sources.names import shown_by
from neardup_workers.outside.topics.messages import full_id_of_key, key_of

COLLECTIONS = ("en", "de", None)
FIELDS = Fields(source="said_by", collection="lang", origin="set")
NAMES = ("id", "status", "duplicate_of", "collection", "similarity", "source", "url", "title")
PLACES = ("cluster", "related", "previous", "matched")
# Two common buckets make a pair, so that only pairs decide, as on topics.
SETTINGS: dict[str, Any] = {
    "threshold": 0.7, "recall": 0.5, "bands": 8, "rows": 4, "min_similarity": 0.5, "buckets_shared_min": 2,
    "window_seconds": 600.0, "lateness_seconds": 60.0, "collection_field": "lang",
}  # fmt: skip


def texts_of(rng: random.Random) -> list[str]:
    """Stories in some variants each, of which many are pairs."""
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(120)]
    stories = [rng.choices(words, k=40) for _ in range(4)]
    return [
        " ".join(rng.choice(words) if rng.random() < 0.05 else word for word in rng.choice(stories)) for _ in range(20)
    ]


class CollectionEvents:
    """Documents of an old and a new set with equal ids and texts in several collections, versions and removals among
    them."""

    def __init__(self, seed: int, count: int = 60) -> None:
        rng = random.Random(seed)
        texts = texts_of(rng)
        self.values: list[dict[str, Any]] = []
        self.keys: list[bytes] = []
        for n in range(count):
            collection, id_ = rng.choice(COLLECTIONS), f"d{rng.randrange(count // 4)}"
            value = {"id": id_, "text": rng.choice(texts), "timestamp": 1_000.0 + n}
            value |= {"lang": collection} if collection else {}
            value |= {"set": rng.choice(("old", "new", "new", None))}
            url = f"https://www.host{n % 2}.example/{n}"
            value |= {"said_by": f"www.Paper-{n % 3}.example"} if n % 4 else {"url": url}
            value |= {"title": f'The {n}th "story"'} if n % 5 else {"note": "\u00e9"}
            self.values.append(value if rng.random() > 0.1 else {"removed": True, "collection": collection})
            self.keys.append(key_of(f"{collection or ''}\x1f{id_}".encode(), separate=True))

    def lines(self) -> list[bytes | None]:
        """The values of the records."""
        return [None if "removed" in value else json.dumps(value).encode() for value in self.values]

    def expected(self, partition: int = 0) -> list[dict[str, Any]]:
        """What the lines of verdicts say, by one process; offsets are numbers of events."""
        dedup, places, out = Deduplicator(Config(**SETTINGS)), list[str](), list[dict[str, Any]]()
        for n, (line, key) in enumerate(zip(self.lines(), self.keys, strict=True)):
            if line is None:
                collection, id_ = full_id_of_key(key).decode().split("\x1f")
                dedup.remove(id_, collection or None)
                out.append({"id": id_, "status": "removed"} | ({"collection": collection} if collection else {}))
                continue
            document = decode_document(line, FIELDS)
            assert isinstance(document, Document)
            places.append(f"{partition}-{n}")
            out.append(_said(dedup.decide([document])[0], document, places))
        return out


def _said(verdict: Verdict, document: Document, places: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(verdict, name) for name in ("id", "status", "duplicate_of", "collection")}
    fields["similarity"] = verdict.similarity and round(verdict.similarity, 4)
    numbers = {name: getattr(verdict, name) for name in PLACES}
    fields |= {name: places[number] for name, number in numbers.items() if number is not None}
    fields |= zip(("source", "url", "title"), shown_by(document), strict=True)
    return {name: one for name, one in fields.items() if one is not None}


def said(line: dict[str, Any]) -> dict[str, Any]:
    """A line of verdicts as ``expected`` has it."""
    return {name: line[name] for name in (*NAMES, *PLACES) if name in line}
