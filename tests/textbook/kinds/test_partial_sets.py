"""Schemes that leave out bands of small documents."""

from __future__ import annotations

import pytest

from neardup import Config, Deduplicator, Document


def test_a_deduplicator_warns_once_of_documents_that_are_too_small() -> None:
    """From a thousand documents on; of longer ones, and with another scheme, it says nothing."""
    small = [Document(str(n), f"a short title {n}") for n in range(1_200)]
    dedup = Deduplicator(Config(scheme="grouped"))
    dedup.process(small[:500])
    with pytest.warns(UserWarning, match="too small for scheme grouped, so the recall at the threshold is 0.*one_perm"):
        dedup.process(small[500:])
    dedup.process(small)
    Deduplicator(Config()).process(small)
    long = [Document(str(n), " ".join(f"word{n * i}" for i in range(300))) for n in range(1_200)]
    Deduplicator(Config(scheme="grouped")).process(long)
