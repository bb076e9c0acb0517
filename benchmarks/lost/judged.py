"""Streams of which people read pairs: of some the newer document repeats the older one (label C), others say something
new. The pairs stay in the folder of the sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from neardup import Document

COPY = "C"
# Label -> what a reader loses if the newer document is dropped.
LOST = {"K": "corrections", "U": "updates", "L": "longer", "O": "others"}


class Judged(NamedTuple):
    """Pairs of a stream that people judged: the folder of the stream, and the file of pairs in it."""

    title: str
    folder: str
    pairs: str


# The pairs were drawn at random from what ``dedup --preset news`` did before it asked what is new: two sets from what
# it dropped for its overlap, one from what it kept and what shares runs with an older report.
SETS: tuple[Judged, ...] = (
    Judged("wire", "reuters_wire", "dropped.jsonl"),
    Judged("blurbs", "itn_multilingual", "judged.jsonl"),
    Judged("cut copies", "reuters_wire", "kept.jsonl"),
)


def documents_of(path: Path) -> list[Document]:
    """The documents of a stream, in their order. Raises ``FileNotFoundError``."""
    return [Document(row["id"], row["text"], row.get("timestamp")) for row in rows_in(path)]


def rows_in(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of JSON Lines. Raises ``FileNotFoundError``."""
    return map(json.loads, path.read_text(encoding="utf-8").rstrip("\n").split("\n"))
