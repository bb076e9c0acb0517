"""A window that is signed again with other settings: ``serve migrate``.

Every document keeps its place, its verdict and its story. Its stored text is signed with the new settings, and the new
window has the new evidence. A document whose text was not stored, or that the new settings refuse, becomes anonymous:
it keeps its place and its verdict without id and content, as a removed one. So does the content of a story; a story
without a content ends. Events for the web hook, reports of feeds and the ids of the Atom feed go along. The old window
stays as it is.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neardup.documents.document import Document
from neardup.pairs.batches import CONTENT_HALF
from neardup.pairs.signing import Signer
from neardup.schemes.config import Config
from neardup.stories.verdicts.kept import KeptStories
from neardup.stories.verdicts.records import (
    BYTES_MASK,
    CONTENT,
    CONTENT_BYTES,
    CONTENT_HASH,
    CONTENT_PLACE,
    CONTENTS,
    HEAD,
    PLACE,
    RECORD_FIELDS,
    SIZE,
    STORY_BYTES,
)
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.store import stories
from neardup_workers.outside.store.disk.folder import damaged, locked, unusable
from neardup_workers.outside.store.extra import copying, sources
from neardup_workers.outside.store.log import Log, StoreFull
from neardup_workers.outside.store.rows import FIELDS, StoredRow, erased_name, meta_of

# Documents that are signed together.
_ROWS = 512


class _Signed(NamedTuple):
    """What the new settings make of a text: 16 bytes of content, the evidence, the hash that verdicts compare."""

    content: bytes
    evidence: bytes
    hash: int


def migrate(settings: Config, old: Path, new: Path) -> Exit:
    """Make the window of ``old`` again in the folder ``new``, signed with ``settings``; say how much was kept.

    Raises:
        Failure: there is no window, another process uses it, it is damaged, or ``new`` holds a window already.
    """
    if not (old / "window.sqlite").exists():
        raise Failure(Exit.USAGE, f"there is no window in {old}: name the folder of one as --state")
    if (new / "window.sqlite").exists():
        raise Failure(Exit.USAGE, f"{new} holds a window already: name another folder as --to")
    if settings.plan.kind != "text":
        raise Failure(Exit.USAGE, f"the scheme {settings.scheme} signs no texts, and a window stores nothing else")
    fingerprints = {"signing": settings.signing_fingerprint, "matching": settings.matching_fingerprint}
    with locked(old), closing(sqlite3.connect(old / "window.sqlite", isolation_level=None)) as source:
        if not source.execute("SELECT 1 FROM texts").fetchone():
            raise Failure(Exit.USAGE, f"{old} stores no text: only a window of serve --keep-texts can be signed again")
        stored = source.execute("SELECT value FROM meta WHERE name = 'settings'").fetchone()
        if settings.separate or (stored and json.loads(stored[0]).get("collection_field") is not None):
            raise Failure(Exit.USAGE, "a window with collections is not signed again: start with an empty one")
        target = Log(new, fingerprints, "full", settings)
        try:
            kept, anonymous, lost = _copied(source, target, settings)
        except BaseException as error:
            target.close()
            for path in new.glob("window.sqlite*"):
                path.unlink()
            if isinstance(error, StoreFull):
                raise unusable(new, error) from None
            if isinstance(error, sqlite3.DatabaseError):
                raise damaged(old / "window.sqlite", str(error)) from None
            raise
        target.close()
    sys.stderr.write(f"{kept:,} documents are signed again, {anonymous:,} are anonymous: no text, or refused now\n")
    if lost:
        sys.stderr.write(f"{copying.said(lost)}\n")
    return Exit.SUCCESS


def _copied(source: sqlite3.Connection, target: Log, settings: Config) -> tuple[int, int, dict[str, int]]:
    signer, meta = Signer(settings), meta_of(source)
    kept = anonymous = 0
    with target.transaction():
        for rows, texts in _rows(source):
            signed = _signed(
                signer, {row.place: text for row, text in zip(rows, texts, strict=True) if text is not None}
            )
            new = [_row(row, signed.get(row.place), settings.plan.width) for row in rows]
            target.append(
                [row._replace(gone=0) for row in new],
                [(row.place, text) for row, text in zip(new, texts, strict=True) if text is not None and not row.gone],
                meta["places"], meta["stream_time"],
            )  # fmt: skip
            for row in new:
                if row.gone:
                    target.erase(row.id)
            anonymous += sum(row.gone and not before.gone for before, row in zip(rows, new, strict=True))
            kept += sum(not row.gone for row in new)
        if meta.get("oldest"):
            target.expire(meta["oldest"], 0)
        target.follow(*_stories(source, signer))
        lost = copying.copy(source, target.writer)
        waiting = sources.first_waiting(meta)
        target.writer.execute(sources.COUNTED, (meta["places"] if waiting is None else waiting,))
    return kept, anonymous, lost


def _rows(source: sqlite3.Connection) -> Iterator[tuple[list[StoredRow], list[str | None]]]:
    text = "(SELECT text FROM texts t WHERE t.place = d.place)"
    cursor = source.execute(f"SELECT {FIELDS}, {text} FROM documents d ORDER BY place")
    while rows := cursor.fetchmany(_ROWS):
        yield [StoredRow(*values[:-1]) for values in rows], [values[-1] for values in rows]


def _signed(signer: Signer, texts: dict[int, str]) -> dict[int, _Signed]:
    """Sign texts by place; those that the settings refuse have no entry."""
    places = list(texts)
    signed = signer.sign([Document(str(place), texts[place], 0.0) for place in places])
    refused = {refusal.position for refusal in signed.refusals}
    batch, out = signed.batch, dict[int, _Signed]()
    starts = batch.ragged_starts.tolist()
    for n, place in enumerate(place for i, place in enumerate(places) if i not in refused):
        evidence = batch.fixed[n].tobytes() + batch.ragged[starts[n] : starts[n + 1]].tobytes()
        hash_ = int(batch.contents[n, CONTENT_HALF].astype(np.int64))
        out[place] = _Signed(batch.contents[n].astype("<u8").tobytes(), evidence, hash_)
    return out


def _row(row: StoredRow, signed: _Signed | None, width: int) -> StoredRow:
    if signed is None or row.gone:
        name = row.id if row.gone else erased_name()
        return row._replace(id=name, content=secrets.token_bytes(16), evidence=bytes(width), gone=1)
    return row._replace(content=signed.content, evidence=signed.evidence)


def _stories(source: sqlite3.Connection, signer: Signer) -> tuple[KeptStories, dict[int, str]]:
    """Return the stories with the evidence that the new settings make of their contents; and the texts of these."""
    kept = stories.load(source)
    texts: dict[int, str] = dict(source.execute("SELECT place, text FROM contents WHERE text NOTNULL"))
    signed = _signed(signer, texts)
    records = kept.records.copy()
    for record in records:
        contents = record[HEAD:].reshape(-1, CONTENT)[: record[CONTENTS]]
        left = [content for content in contents.copy() if int(content[CONTENT_PLACE]) in signed]
        for content, made in zip(contents, left, strict=False):
            content[:] = made
            content[CONTENT_HASH] = signed[int(made[CONTENT_PLACE])].hash
            content[CONTENT_BYTES] = made[CONTENT_BYTES] & ~BYTES_MASK | len(signed[int(made[CONTENT_PLACE])].evidence)
        record[CONTENTS] = len(left)
        record[SIZE] = STORY_BYTES + int((contents[: len(left), CONTENT_BYTES] & BYTES_MASK).sum())
    lives = records[:, CONTENTS] > 0
    used = {
        int(place)
        for record in records[lives]
        for place in record[HEAD:].reshape(-1, CONTENT)[: record[CONTENTS], CONTENT_PLACE]
    }
    ids = {int(place): kept.ids[int(place)] for place in records[lives, PLACE] if int(place) in kept.ids}
    evidence = {place: signed[place].evidence for place in used}
    return KeptStories(records[lives].reshape(-1, RECORD_FIELDS), ids, evidence, kept.ended), texts
