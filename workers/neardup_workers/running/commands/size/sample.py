"""Bytes of a document, from a sample that is signed under the settings and put into a table.

The bytes depend on scheme, threshold, shingles and ``verify``; so they are measured, not computed. Texts are made of
random words. A table of few documents has pages that it does not fill, so signed documents are added several times,
each time with other keys: what is added is unrelated, as most of a stream is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neardup.documents.document import Document
from neardup.errors import ConfigError
from neardup.pairs.batches import Batch, kinds_of, stream_rows
from neardup.pairs.pipeline import Matcher, Signer
from neardup.pairs.shards import WHOLE_STREAM
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts.representatives import NO_RANK
from neardup.stories.verdicts.rule import DOCUMENT
from neardup.window.steps import step
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.signed import SignedRows, encode_signed

_SEED = 25
_SAMPLE_BYTES, _SIGNED_MIN, _SIGNED_MAX = 4 << 20, 200, 2_000
# Rows of the table: enough to fill its pages, few enough for a second and a fraction of a gigabyte.
_ROWS_MAX, _TABLE_BYTES = 100_000, 128 << 20
_POOL_WORDS, _LETTERS_MIN, _LETTERS_MAX = 20_000, 3, 9


class Sample(NamedTuple):
    """Bytes of a document with its id: used in one table, counted by ``evidence_bytes_max``, and in ``signed`` before
    compression."""

    table: float
    counted: float
    signed: float


def sampled(settings: StreamSettings, text_bytes: int, id_bytes: int) -> Sample:
    """Sign texts of ``text_bytes`` with ids of ``id_bytes``, and put them into a table.

    Raises:
        ConfigError: the scheme compares no texts, or refuses all of them.
    """
    if settings.plan.kind != "text":
        raise ConfigError(
            f"scheme={settings.scheme} compares {settings.plan.kind}, and a sample has texts: size a scheme of texts, "
            "or fill a window with your documents and read the metric neardup_table_bytes"
        )
    batch = Signer(settings).sign(_documents(text_bytes, id_bytes)).batch
    if not batch.size:
        raise ConfigError(f"text_bytes={text_bytes}: every text is refused as too short; give the bytes of real texts")
    counted = (len(batch.ids) + len(batch.ragged)) / batch.size
    return Sample(_table_bytes(settings, batch), counted, _signed_bytes(settings, batch))


def _documents(text_bytes: int, id_bytes: int) -> list[Document]:
    rng = np.random.default_rng(_SEED)
    letters = rng.choice(np.frombuffer(b"etaoinshrdlcumwfgypbvk", np.uint8), (_POOL_WORDS, _LETTERS_MAX))
    lengths = rng.integers(_LETTERS_MIN, _LETTERS_MAX + 1, _POOL_WORDS).tolist()
    pool = [word.tobytes()[:length].decode() for word, length in zip(letters, lengths, strict=True)]
    count = min(max(_SAMPLE_BYTES // text_bytes, _SIGNED_MIN), _SIGNED_MAX)
    words = text_bytes // (_LETTERS_MIN + 1) + 1
    return [
        Document(f"{i:0{id_bytes}d}"[:id_bytes], " ".join([pool[n] for n in row])[:text_bytes])
        for i, row in enumerate(rng.integers(_POOL_WORDS, size=(count, words)).tolist())
    ]


def _table_bytes(settings: StreamSettings, batch: Batch) -> float:
    matcher, scheme = Matcher(settings), SCHEMES[settings.scheme]
    items = stream_rows(batch, settings).items._replace(kinds=kinds_of(batch, WHOLE_STREAM, scheme.by_content))
    evidence = len(batch.ragged) / batch.size + settings.plan.width
    rows = min(_ROWS_MAX, int(_TABLE_BYTES / evidence))
    rng = np.random.default_rng(_SEED)
    with step(matcher.table):
        for _ in range(max(1, rows // batch.size)):
            other = rng.integers(1 << 63, dtype=np.uint64)
            again = items._replace(keys=items.keys ^ other, contents=items.contents ^ other)
            matcher.table.probe_add(again, probe=False)
    return matcher.table.memory_bytes()[0] / matcher.table.documents


def _signed_bytes(settings: StreamSettings, batch: Batch) -> float:
    n = batch.size
    rows = SignedRows(
        np.full(n, DOCUMENT, np.uint8), np.arange(n, dtype=np.int64), batch.ids, batch.id_starts, np.full(n, NO_RANK),
        batch.times, batch.contents, batch.evidence,
    )  # fmt: skip
    return sum(map(len, encode_signed(rows, settings.signing_fingerprint))) / n
