"""A stream and settings for each scheme, and the JSON form of a document's values."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from cases import CASES, PARTIAL, SKETCHED, long_stream, rating_stream, token_stream, url_stream

from neardup import Config, Deduplicator, Document
from neardup.schemes.rows import SCHEMES

# All cases of schemes that do not compare sets; and the schemes of sets with the most code of their own.
OTHERS = set(SCHEMES) - {*SKETCHED, *PARTIAL}
ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (case.stream, case.settings) for name, case in CASES.items() if case.scheme in OTHERS},
    **{scheme: (long_stream, {"scheme": scheme}) for scheme in ("permutation", *PARTIAL)},
    "exact": (long_stream, {"verify": "exact", "scheme_options": {"shingle_bytes": 4}}),
    "urls": (url_stream, {"shingles": "urls", "threshold": 0.6, "recall": 0.8}),
    "tokens": (token_stream, {"shingles": "tokens", "verify": "exact"}),
    "stars": (rating_stream, {"shingles": "tokens", "scheme_options": {"ratings": "stars"}, "measure": "jaccard_bag"}),
    "containment": (long_stream, {"verify": "exact", "measure": "containment"}),
    "buckets shared": (long_stream, {"buckets_shared_min": 2}),
}


def usable(documents: list[Document], settings: Config) -> list[Document]:
    """The documents that are not refused, with distinct times."""
    dedup = Deduplicator(settings)
    dedup.process(documents)
    refused = {refusal.position for refusal in dedup.refusals}
    kept = [document for i, document in enumerate(documents) if i not in refused]
    return [document._replace(timestamp=1_600_000_000.0 + i) for i, document in enumerate(kept)]


def brought(document: Document) -> dict[str, Any]:
    """The JSON form of a document's values other than id and text."""
    if document.title is None and document.picture is None and document.vector is None:
        return {"tokens": document.tokens} if document.tokens else dict(document.fields or {})
    picture = document.picture.hex() if isinstance(document.picture, bytes) else document.picture
    out: dict[str, Any] = {**(document.fields or {}), "title": document.title, "picture": picture}
    if document.vector is not None:
        vector = np.asarray(document.vector)
        packed = vector.dtype == np.uint8  # bits
        out["vector"] = base64.b64encode(vector.tobytes()).decode() if packed else vector.tolist()
    return {name: value for name, value in out.items() if value is not None}
