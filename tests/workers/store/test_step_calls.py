"""A step of one document makes few calls: each is a microsecond that every check waits."""

import sys

from service_world import opened

from neardup import Document
from neardup_workers.outside.settings.serve import ServeSettings

# Calls of Python and of C: what a step makes, and a twentieth.
CALLS_MAX = 289


def test_a_document_alone_is_decided_and_stored_in_few_calls(tmp_path):
    """A document that repeats nothing: signed, decided, counted for its source and committed."""
    keeper = opened(tmp_path / "state", ServeSettings(threshold=0.7))
    documents = [Document(f"d{n:03}", " ".join(f"w{n * 31 + k}" for k in range(40)), 100.0) for n in range(60)]
    for document in documents[:40]:
        keeper.check([document])
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    for document in documents[40:]:
        sys.setprofile(count)
        try:
            [answer] = keeper.check([document])
        finally:
            sys.setprofile(None)
        assert answer.verdict["status"] == "original"
    keeper.log.close()
    assert calls / 20 <= CALLS_MAX
