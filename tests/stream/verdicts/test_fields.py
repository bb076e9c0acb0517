"""The values of fields, as lists."""

import numpy as np

from neardup.documents.pieces import NewWord
from neardup.stories.verdicts.fields import NAMES, blank_verdicts, values_of
from neardup.stories.verdicts.rule import DUPLICATE, ORIGINAL, REFUSED


def test_values_of_some_fields_are_those_of_all():
    """In the order of the fields, whatever was decided."""
    verdicts = blank_verdicts(3, ORIGINAL)._replace(statuses=np.array([ORIGINAL, DUPLICATE, REFUSED], np.uint8))
    verdicts.originals[1], verdicts.said[:] = 0, 0.5
    new = {0: (NewWord("Rome", 0, 4, False),)}
    every = dict(zip(NAMES, values_of(verdicts, ["a"], new), strict=True))
    assert every["duplicate_of"] == [None, "a", None]
    chosen = ("status", "said", "new")
    assert values_of(verdicts, ["a"], new, chosen) == [every[name] for name in NAMES if name in chosen]
