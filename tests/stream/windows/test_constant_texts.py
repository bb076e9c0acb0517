"""The constant texts tell a signer that signs the same settings otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.recall.canaries import SIGNERS
from cases import CASES, Case, parameters

from neardup import Config, Deduplicator, Document
from neardup.pairs.window_message import SIGNED_ELSEWHERE, WireError, encode_window
from neardup.schemes.kinds import sets
from neardup.stories.windows.constant_texts import TEXTS, samples, signature_of
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.store.log import Log


@pytest.mark.parametrize("case", parameters(CASES.values()))
def test_the_signature_follows_from_the_settings_of_signing_alone(case: Case) -> None:
    """Those of matching change nothing; most samples are signed, and equal ones equally."""
    config = case.config()
    other = config.model_copy(update={"window_seconds": 60.0, "window_documents": 9, "bucket_candidates_max": 7})
    assert signature_of(config) == signature_of(config) == signature_of(other)
    made = samples(config)
    assert len({document.id for document in made}) == len(made)
    assert made[-1]._replace(id=made[0].id) == made[0]


def test_texts_are_of_each_kind() -> None:
    """Sixteen, all different, with letters that a later version of Unicode changes."""
    assert len(set(TEXTS)) == 16
    assert any("\U0001e030" in text for text in TEXTS)


@pytest.fixture(params=SIGNERS)
def signs_otherwise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> object:
    """A function that makes signers of this process sign otherwise."""
    return lambda: monkeypatch.setattr(
        sets, "SCHEME", sets.SCHEME._replace(sign=SIGNERS[request.param](sets.SCHEME.sign))
    )


@pytest.mark.parametrize("shingles", ["chars", "words"])
def test_a_window_that_was_signed_otherwise_is_refused(signs_otherwise: object, shingles: str) -> None:
    """With a sentence that says what is wrong; the program that wrote it reads it."""
    config = Config(shingles=shingles)
    dedup = Deduplicator(config)
    dedup.process([Document("a", "some text of several words")])
    saved = dedup.save()
    Deduplicator(config).load(saved)
    signs_otherwise()  # type: ignore[operator]
    with pytest.raises(WireError, match=SIGNED_ELSEWHERE):
        Deduplicator(config).load(saved)


def test_a_store_that_was_signed_otherwise_is_refused(signs_otherwise: object, tmp_path: Path) -> None:
    """A store from before has no signature: it gets the one of its first start, and is refused after it changes."""
    config = Config()
    fingerprints = {"signing": config.signing_fingerprint}
    Log(tmp_path, fingerprints, "normal").close()
    for _ in range(2):
        log = Log(tmp_path, fingerprints, "normal", config)
        assert log.meta()["texts"] == signature_of(config)
        log.close()
    signs_otherwise()  # type: ignore[operator]
    with pytest.raises(Failure, match=SIGNED_ELSEWHERE) as failure:
        Log(tmp_path, fingerprints, "normal", config)
    assert failure.value.code == Exit.GENERATION


def test_a_window_without_a_signature_is_read() -> None:
    """One from before has none, and says nothing about its signer."""
    config = Config()
    Deduplicator(config).load(b"".join(encode_window([], 7, config)))
