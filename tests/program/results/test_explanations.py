"""Why two documents are a pair, or why not."""

from __future__ import annotations

import json

from command import Run

EXPLAINED = """
import json
from neardup import Config, Deduplicator, Document
text = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."
near = text.replace("Sunday", "Monday")
dedup = Deduplicator(Config(threshold=0.7))
rows = [("a", text), ("copy", text), ("b", near), ("later", text), ("c", near)]
pairs = dedup.process([Document(*row) for row in rows])
why = [dedup.explain(older, newer)[2:4] for older, newer in [("a", "b"), ("copy", "b"), ("a", "c")]]
print(json.dumps([[pair[:2] for pair in pairs], why]))
"""


def test_a_copy_that_a_later_copy_replaced_is_named(python: Run) -> None:
    """No probe reached a limit: the copy made the pair, and a later copy stands in the buckets for both today."""
    pairs, why = json.loads(python("-c", EXPLAINED).stdout)
    assert pairs == [["a", "copy"], ["copy", "b"], ["copy", "later"], ["b", "c"]]
    assert why == [["copy", "copy"], ["pair", None], ["copy", "b"]]
