"""A signer of a scheme that omits bands of small documents says that its recall is not kept."""

from __future__ import annotations

import logging

import pytest
from sign_world import SignWorld, plan_of

from neardup import Config

DOCUMENTS = 1_200


@pytest.mark.parametrize(
    ("scheme", "words", "warned"),
    [("grouped", 4, 1), ("partial_minhash", 1, 1), ("grouped", 400, 0), ("one_permutation", 4, 0)],
)
def test_a_signer_warns_once_of_documents_that_are_too_small(
    scheme: str, words: int, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    """After a thousand of them; large documents and schemes with every band are silent."""
    world = SignWorld(plan_of(Config(scheme=scheme)))
    for number in range(DOCUMENTS):
        text = " ".join(f"{number * 7919 + word}" for word in range(words))
        world.document(str(number), text=text)
    worker = world.worker()
    with caplog.at_level(logging.WARNING):
        assert sum(worker.turn(0.0, 100) for _ in range(60)) == DOCUMENTS
    said = [record.getMessage() for record in caplog.records if "too small for scheme" in record.getMessage()]
    assert len(said) == warned
    assert all(f"too small for scheme {scheme}, so the recall at the threshold is 0." in line for line in said)
