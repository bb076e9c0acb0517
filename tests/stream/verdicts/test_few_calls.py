"""One document a call makes few calls of Python and of C: they are most of its time."""

from __future__ import annotations

import sys

import pytest

from neardup import Config, Deduplicator, Document

TEXTS = [" ".join(f"w{n * 31 + k}" for k in range(40)) for n in range(60)]
# What a call makes, and a twentieth: of a new document, and of one that repeats an earlier one.
CALLS_MAX = {
    ("off", "process"): (41, 55),
    ("off", "decide"): (54, 82),
    ("words", "process"): (200, 215),
    ("words", "decide"): (214, 456),
}


def calls_of(dedup: Deduplicator, call: str, document: Document) -> int:
    calls, documents = 0, [document]

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        getattr(dedup, call)(documents)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(("novelty", "call"), CALLS_MAX)
def test_one_document_makes_few_calls(novelty: str, call: str) -> None:
    """Alone in its call, whether it is new or repeats an earlier one."""
    most = []
    for is_repeated in (False, True):
        dedup = Deduplicator(Config(threshold=0.7, novelty=novelty))
        if is_repeated:
            getattr(dedup, call)([Document(f"o{n}", f"{text} more") for n, text in enumerate(TEXTS)])
        documents = [Document(f"d{n}", text) for n, text in enumerate(TEXTS)]
        for document in documents[:40]:
            getattr(dedup, call)([document])
        most.append(max(calls_of(dedup, call, document) for document in documents[40:]))
    assert all(made <= at_most for made, at_most in zip(most, CALLS_MAX[novelty, call], strict=True)), most
