"""What stories hold of documents that have left the window."""

from __future__ import annotations

from neardup import Config, Deduplicator, Document
from neardup.stories.verdicts import saved


def test_a_story_holds_evidence_and_name_of_what_has_left_the_window():
    """Nothing is copied while the documents are in the window; what was copied goes with the story."""
    dedup, held = Deduplicator(Config(threshold=0.7, window_seconds=10, lateness_seconds=0)), []
    text = "a story that goes on and on, and that every source tells in nearly the same words as the first"
    for id_, time in (("first", 0), ("b", 1), ("c", 9), ("d", 18), ("e", 27)):
        verdict = dedup.decide([Document(id_, f"{text}. {id_}", time)])[0]
        assert verdict.duplicate_of == (None if id_ == "first" else "first")
        held.append(_held(dedup))
    assert held == [(0, b"")] * 3 + [(1, b"first")] * 2
    dedup.decide([Document("other", "nothing to do with the story", 100)])
    assert _held(dedup) == (0, b"")


def _held(dedup):
    """The number of contents that stories hold, and the names of originals, as a saved window has them."""
    held = saved.decode(list(dedup._decider.save())).held
    return len(held.rows), held.ids.tobytes()
