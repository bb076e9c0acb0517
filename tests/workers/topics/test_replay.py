"""`neardup topics replay`: a new ``signed`` gets the documents of a window, and what has no verdict gets one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench

from neardup_workers.doing.stages.agreement import agree
from neardup_workers.outside.options.running import ReplayOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.topics.names import LINK, ROLES, SIGN
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.running.commands.topics import replay as module
from neardup_workers.running.commands.topics.replay import replay


def replayed(bench: Bench, capsys: pytest.CaptureFixture[str], *, window: bool = True, **changes: object) -> str:
    """Run the command; what it prints."""
    settings = bench.settings.model_copy(update=changes)
    replay(ReplayOptions(window=window), MemoryTransport(bench.cluster), settings, bench.limits)
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


def emptied(bench: Bench, name: str = "") -> Bench:
    """The same with a new ``signed``, or another topic, that the administrator has made."""
    name = name or bench.names.topics.signed
    before = bench.cluster._topics.pop(name)
    bench.cluster.create(name, len(before.logs), before.configs)
    agree(MemoryTransport(bench.cluster), bench.settings, made=[name])
    return bench


@pytest.mark.parametrize("window", [True, False])
def test_what_was_signed_and_not_decided_gets_one_verdict(window: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """After ``signed`` and ``links`` were deleted; nothing is decided or forwarded a second time."""
    bench = stream(verdicts=True, window_seconds=1_400.0)
    work(bench)
    before, old_pairs = verdicts(bench), pairs(bench)
    forwarded = Counter(record.key for record in bench.cluster.records(bench.names.topics.unique))
    add(bench, range(12_300, 12_000, -100))
    bench.cluster.advance(60.0)
    bench.run(SIGN, lambda: bench.has_taken_all(SIGN))
    bench.cluster.advance(60.0)
    open_ = places(bench) - before.keys()
    assert (len(before), len(open_)) == (6, 3)
    emptied(bench)
    emptied(bench, bench.names.topics.links)
    for role in ("match", LINK):
        del bench.cluster._groups[bench.names.group(role)]
    said = replayed(bench, capsys, window=window)
    assert "No document gets a second verdict" in said
    work(bench)
    after = verdicts(bench)
    assert {place: after[place] for place in before} == before
    assert after.keys() == places(bench)
    found = Counter(after[place]["status"] for place in open_)
    assert found == ({"duplicate": 3} if window else {"original": 1, "duplicate": 2})
    now = Counter(record.key for record in bench.cluster.records(bench.names.topics.unique)) - forwarded
    kept = [after[place] for place in open_ if after[place]["status"] in bench.settings.forward]
    assert now == Counter(line["id"].encode() for line in kept)
    assert old_pairs == []
    assert len(pairs(bench)) == (6 if window else 3)


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


def _join(bench: Bench) -> None:
    topic, group = bench.names.topics.documents, bench.names.group(SIGN)
    MemoryTransport(bench.cluster).consumer(topic, group, "works").poll(0.0, 1)


def _retained(bench: Bench) -> None:
    bench.cluster.log(bench.names.topics.documents, 1).trim(2)


def _forget(bench: Bench) -> None:
    bench.cluster._groups.clear()


REFUSALS = {
    "a signer works": (_join, Exit.USAGE, r"1 signers are members of group neardup-sign-"),
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
