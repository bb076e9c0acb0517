"""`neardup topics replay`: the topics that 0.1.0 left are gone on with, and a new ``signed`` gets a window."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench

from neardup_workers.outside.options.running import ReplayOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.topics.names import FILTER, LINK, ROLES, SIGN
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import Committed
from neardup_workers.running.commands.topics import replay as module
from neardup_workers.running.commands.topics.replay import replay

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "0.1.0" / "messages.json"
MADE: dict[str, Any] = json.loads(FIXTURE.read_bytes())
of_the_release = pytest.mark.skipif(
    MADE["unicode"] != unicodedata.unidata_version,
    reason=f"signed with Unicode {MADE['unicode']}: another Unicode version is another generation",
)
READ_ON = ("documents", "candidates", "links", "verdicts", "clusters", "unique")
GROUPS = {"signers": SIGN, "matchers": "match", "linkers": LINK, "filters": "filter"}


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def released() -> Bench:
    """What 0.1.0 left where signers were ahead of matchers, and matchers of the linker."""
    bench = Bench(
        threshold=0.6, recall=0.9, min_similarity=0.5, window_seconds=864_000.0, lateness_seconds=3600.0, shards=3,
        verdicts=True, representative="timestamp",
    )  # fmt: skip
    counts = Counter(name.partition("/")[0] for name in MADE["before"]["logs"])
    for field in READ_ON:
        made = bench.cluster._topics.pop(getattr(bench.names.topics, field))
        bench.cluster.create(getattr(bench.names.topics, field), counts[field], made.configs)
    for name, kept in MADE["before"]["logs"].items():
        field, _, partition = name.partition("/")
        if field in READ_ON:
            log = bench.cluster.log(getattr(bench.names.topics, field), int(partition))
            log.first = kept["first"]
            for offset, timestamp_ms, key, value, headers in kept["records"]:
                log.end = offset
                named = tuple((k, decoded(v) or b"") for k, v in headers)
                log.append(decoded(value), decoded(key), timestamp_ms, None, named)
            log.end = kept["end"]
    for name, offsets in MADE["before"]["offsets"].items():
        kind, _, field = name.partition("/")
        if field in READ_ON:
            role, topic = GROUPS[kind], getattr(bench.names.topics, field)
            group = bench.cluster.group(bench.names.group(role), _read_by(bench, role))
            group.offsets_of(topic).update({int(p): Committed(*committed) for p, committed in offsets.items()})
    return bench


def _read_by(bench: Bench, role: str) -> str:
    topics = bench.names.topics
    return {SIGN: topics.documents, "match": topics.links, LINK: topics.signed, "filter": topics.verdicts}[role]


def replayed(bench: Bench, capsys: pytest.CaptureFixture[str], *, window: bool = True, **changes: object) -> str:
    """Run the command; what it prints."""
    settings = bench.settings.model_copy(update=changes)
    replay(ReplayOptions(window=window), MemoryTransport(bench.cluster), settings)
    return capsys.readouterr().out


def work(bench: Bench) -> None:
    """Every role takes all that there is."""
    bench.cluster.session_seconds = 5.0
    for role in ROLES:
        bench.cluster.advance(60.0)
        bench.run(role, lambda role=role: bench.has_taken_all(role))  # type: ignore[misc]


def verdicts(bench: Bench) -> dict[tuple[int, int], dict[str, Any]]:
    """The verdicts by place, each of which occurs once."""
    records = bench.cluster.records(bench.names.topics.verdicts)
    found = [((record.partition, line["offset"]), line) for record in records for line in parse_run(record.value)]
    assert len(found) == len(dict(found))
    return dict(found)


def pairs(bench: Bench) -> list[tuple[str, str]]:
    """The pairs in the order of their partitions, without notices of removals."""
    values = [json.loads(record.value or b"") for record in bench.cluster.records(bench.names.topics.candidates)]
    return [(value["older"], value["newer"]) for value in values if "older" in value]


def places(bench: Bench) -> set[tuple[int, int]]:
    return {(record.partition, record.offset) for record in bench.cluster.records(bench.names.topics.documents)}


@of_the_release
@pytest.mark.parametrize("window", [True, False])
def test_what_0_1_0_signed_and_did_not_decide_gets_one_verdict(
    window: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a window, also the verdict that it would have had; nothing is decided or forwarded a second time."""
    bench = released()
    before, old_pairs = verdicts(bench), pairs(bench)
    forwarded = Counter(record.key for record in bench.cluster.records(bench.names.topics.unique))
    open_ = places(bench) - before.keys()
    assert before
    assert open_
    with pytest.raises(Failure, match=r"run neardup topics replay"):
        bench.run(SIGN, lambda: False)
    assert bench.cluster.records(bench.names.topics.signed) == []
    bench.cluster.advance(60.0)  # the session of that signer ends
    group, topic = bench.names.group(FILTER), bench.names.topics.verdicts
    old_filters = bench.cluster.offsets(group, topic)
    said = replayed(bench, capsys, window=window)
    assert "No document gets a second verdict" in said
    # Filters of 0.1.0 know version 1 only.
    assert bench.cluster.offsets(group, topic) == {
        partition: Committed(at.offset, at.metadata.replace('"version":1', '"version":2'))
        for partition, at in old_filters.items()
    }
    work(bench)
    after = verdicts(bench)
    assert {place: after[place] for place in before} == before
    assert after.keys() == places(bench)
    now = Counter(record.key for record in bench.cluster.records(bench.names.topics.unique)) - forwarded
    kept = [after[place] for place in open_ if after[place]["status"] in (*bench.settings.forward, "removed")]
    assert now == Counter(line["id"].encode() for line in kept)
    by_0_1_0 = {
        (int(name.partition("/")[2]), line["offset"]): line["status"]
        for name, log in MADE["after"]["logs"].items()
        if name.startswith("verdicts/")
        for record in log["records"]
        for line in parse_run(decoded(record[3]))
    }
    named = {"update": "original"}  # 0.1.0 knew no updates
    found = {place: named.get(status := after[place]["status"], status) for place in open_}
    assert {place: by_0_1_0[place] for place in open_} == found or not window
    # The pairs of a window are published again, and each of them once more.
    again = Counter(old_pairs) & Counter(pairs(bench)[len(old_pairs) :])
    assert len(again) == (3 if window else 1)
    assert set(again.values()) <= {1}


def stream(**changes: object) -> Bench:
    """A deployment that has signed six documents, of 20,000, 18,500, ... seconds ago, in turns in two partitions."""
    bench = Bench(**{"window_seconds": 400.0, "skew_seconds": 0.0, **changes})
    add(bench, range(20_000, 11_000, -1_500))
    bench.run(SIGN, lambda: bench.has_taken_all(SIGN))
    bench.cluster.advance(60.0)
    return bench


def add(bench: Bench, ages: range) -> None:
    for i, age in enumerate(ages):
        value = json.dumps({"id": f"d{age}", "text": f"{TEXT} {age}"}).encode()
        at = int((bench.cluster.now_seconds - age) * 1000)
        bench.cluster.append(bench.names.topics.documents, i % 2, value, b"d%d" % age, at)


def emptied(bench: Bench) -> Bench:
    """The same with a new ``signed``."""
    name = bench.names.topics.signed
    made = bench.cluster._topics.pop(name)
    bench.cluster.create(name, 1, made.configs)
    return bench


def begins(bench: Bench) -> dict[int, int]:
    """Where signers go on."""
    offsets = bench.cluster.offsets(bench.names.group(SIGN), bench.names.topics.documents)
    return {partition: at.offset for partition, at in sorted(offsets.items())}


def test_signers_go_on_at_the_first_document_of_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    """The window ends at the last document that was signed, and not now."""
    bench = emptied(stream())
    assert begins(bench) == {0: 3, 1: 3}
    said = replayed(bench, capsys)
    assert begins(bench) == {0: 2, 1: 1}  # 14,000, and 15,500 and 12,500 seconds ago
    assert "documents partition 1: from offset 3 back to 1\n3 offsets are signed again" in said
    bench.run(SIGN, lambda: bench.has_taken_all(SIGN))
    bench.run("match", lambda: bench.has_taken_all("match"))
    bench.cluster.advance(60.0)
    assert replayed(bench, capsys, window=False).startswith("documents partition 0: from offset 3 back to 3\n")


def _join(bench: Bench, role: str = SIGN) -> None:
    topic = _read_by(bench, role)
    MemoryTransport(bench.cluster).consumer(topic, bench.names.group(role), "works").poll(0.0, 1)


def _retained(bench: Bench) -> None:
    bench.cluster.log(bench.names.topics.documents, 1).trim(2)


def _forget(bench: Bench) -> None:
    bench.cluster._groups.clear()


REFUSALS = {
    "a signer works": (_join, Exit.USAGE, r"1 signers are members of group neardup-sign-"),
    "a filter works": (partial(_join, role=FILTER), Exit.USAGE, r"1 filters are members of group neardup-filter-"),
    "no signer ever worked": (_forget, Exit.USAGE, r"nothing to set back: start signers with --from earliest"),
    "documents of the window are gone": (
        _retained, Exit.GAP, r"of the window, .* the log begins at offset 2 of partition 1\. .*--allow-gap goes on",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_replayed_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is changed."""
    incident, code, sentence = REFUSALS[name]
    bench = emptied(stream(verdicts=True))
    incident(bench)
    before = begins(bench)
    with pytest.raises(Failure, match=sentence) as refused:
        replayed(bench, capsys)
    assert refused.value.code == code
    assert begins(bench) == before
    if code == Exit.GAP:
        replayed(bench, capsys, allow_gap=True)
        assert begins(bench) == {0: 2, 1: 2}


def test_a_window_is_not_put_behind_documents_that_are_signed(capsys: pytest.CaptureFixture[str]) -> None:
    """They would all be late."""
    bench = stream()
    with pytest.raises(Failure, match=r"has documents, and those of a window before them would be late: --no-window"):
        replayed(bench, capsys)
    assert begins(bench) == {0: 3, 1: 3}


def test_a_signer_that_joins_meanwhile_is_not_set_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is that of a member of the group, so one of two members cannot make it."""
    bench = emptied(stream())
    _join(bench)
    monkeypatch.setattr(module, "_JOIN_SECONDS", 0.2)
    monkeypatch.setattr(MemoryTransport, "members", lambda self, group: 0)
    with pytest.raises(Failure, match=r"nothing was changed, because a member joined group neardup-sign-"):
        replayed(bench, capsys)
    assert begins(bench) == {0: 3, 1: 3}


def test_documents_without_a_verdict_that_are_gone_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Retention is longer than verdicts can be late, or they get none."""
    bench = stream(verdicts=True)
    bench.run("match", lambda: bench.has_taken_all("match"))
    bench.run(LINK, lambda: bench.has_taken_all(LINK))
    add(bench, range(11_000, 5_000, -1_500))
    bench.cluster.advance(60.0)
    bench.run(SIGN, lambda: bench.has_taken_all(SIGN))
    bench.cluster.advance(60.0)
    emptied(bench)
    bench.cluster.log(bench.names.topics.documents, 0).trim(4)
    with pytest.raises(Failure, match=r"documents without a verdict may be gone: the log begins at offset 4 of part"):
        replayed(bench, capsys, window=False)
    replayed(bench, capsys, window=False, allow_gap=True)
    assert begins(bench) == {0: 4, 1: 3}
