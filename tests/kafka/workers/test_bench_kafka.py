"""The measurements on a broker run at their smallest size and count correctly; no test judges a time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.kafka import capacity, matcher, signer, takeover, verdicts
from benchmarks.kafka.deploy import Bench, Process, deployment, drained, load
from benchmarks.kafka.latency import _candidate
from benchmarks.kafka.reader import TopicReader
from benchmarks.report import Result

from neardup import Deduplicator
from neardup_workers.outside.topics.names import names_of
from neardup_workers.running.service.roles import ROLES

DOCUMENTS = 200


@pytest.fixture
def bench(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name in [name for name in os.environ if name.startswith("NEARDUP_")]:
        monkeypatch.delenv(name)
    return Bench(bootstrap_servers, None, "smoke")


def test_signer_and_bare_loop_read_every_document(bench: Bench) -> None:
    """Both sides of the comparison read all documents of the topic once."""
    settings = deployment(bench, "test")
    ROLES["sign"].warm(settings)
    assert load(settings, DOCUMENTS, 1) > DOCUMENTS * 3_000
    assert min(signer.bare(settings, DOCUMENTS)) > 0
    _, _, tally = drained("sign", settings, settings.documents_partitions, DOCUMENTS)
    assert tally.sums["documents"] == DOCUMENTS
    assert {"poll", "decode", "sign", "send", "flush", "commit"} <= tally.stages().keys()


def test_matcher_finds_the_pairs_of_the_library_in_memory_and_on_the_broker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measured matcher finds every pair, in memory and on the broker."""
    monkeypatch.setitem(matcher._DOCUMENTS, "smoke", DOCUMENTS)
    expected = len(Deduplicator().process(matcher.documents(DOCUMENTS)))
    results: list[Result] = list(matcher.run(bench))
    assert [result.scenario for result in results] == [matcher.BYTES_ID] + 4 * [matcher.ID]
    assert results[0].value is not None
    assert 170 < results[0].value < 200
    assert [result.details["pairs"] for result in results[1::2]] == [expected, expected]


def test_the_constants_of_size_are_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every role takes time for a document, and every topic has bytes."""
    for sizes in (capacity._DOCUMENTS, capacity._IN_MEMORY, capacity._TABLE_DOCUMENTS):
        monkeypatch.setitem(sizes, "smoke", DOCUMENTS)
    found = {result.name: result.value or 0.0 for result in capacity.run(bench)}
    times = ("restore_of_match", "linker_document", "filter_document")
    assert min(found[name] for name in (*times, *(name for name in found if name.endswith("_bytes")))) > 0


def test_a_takeover_with_a_standby_reads_nothing_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, the survivor reads the window again: a linker, and a matcher for each of two shards."""
    monkeypatch.setitem(takeover._DOCUMENTS, "smoke", (DOCUMENTS,))
    found = [result.details["documents read"] for result in takeover.run(bench)]
    assert found[0] == found[2] == 0 < min(found[1], found[3])


def test_worker_processes_report_their_turns_and_end_in_order(bench: Bench) -> None:
    """A process reports its turns, and ends on request."""
    settings = deployment(bench, "test")
    load(settings, DOCUMENTS, 2)
    reader = TopicReader(settings, names_of(settings).topics.candidates, settings.documents_partitions, _candidate)
    with Process("sign", settings, "8") as signer, Process("match", settings, "8") as matcher:
        signer.start()
        matcher.start()
        signer.wait(lambda: signer.documents == DOCUMENTS, "all are signed")
        matcher.wait(lambda: bool(reader.seen), "a pair is committed")
        assert signer.stop()["transactions"] >= 1
        assert matcher.stop()["stages"]["match"] > 0
    reader.close()
    assert {newer[:9] for *_, newer in reader.seen} == {"doc-0002-"}


def test_a_filter_and_a_bare_loop_forward_every_document(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides of the comparison send on all documents once."""
    monkeypatch.setitem(verdicts._FILTERED, "smoke", DOCUMENTS)
    (result,) = verdicts.filters(bench)
    assert result.details["documents"] == DOCUMENTS
    assert result.value is not None
    assert result.value > 0


def test_a_verdict_is_measured_from_the_last_report_of_a_matcher(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict is readable before the report that it waits for."""
    monkeypatch.setitem(verdicts._BACKLOG, "smoke", DOCUMENTS)
    (result,) = verdicts.latency(bench)
    assert result.details["verdicts"] >= 1
    assert result.value is not None
    assert result.value > 0
