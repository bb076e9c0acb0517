"""A deployment whose matchers worked without ``verdicts``, and gets linkers later."""

from __future__ import annotations

import json
import logging

import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench

from neardup_workers.outside.options.running import StatusOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.running.commands.topics.status import status

DAY = 86_400
FIRST = [("a", f"{TEXT} in all"), ("b", f"{TEXT} in all, today"), ("c", "another one")]
# Copies of what matchers knew before: a pair of copies is not looked for, because that of their contents was found.
LATER = [("copy of a", FIRST[0][1]), ("copy of b", FIRST[1][1]), ("d", "a third one")]


def work(bench: Bench, *roles: str, **changes: object) -> None:
    """One role after the other takes what there is, with these settings in force."""
    bench.agree(**changes)
    for role in roles:
        bench.run(role, lambda role=role: bench.has_taken_all(role), **changes)


def verdicts(bench: Bench) -> dict[str, tuple[str, str | None]]:
    """The status of each document, and of which one it is a duplicate."""
    lines = [line for record in bench.cluster.records(bench.names.topics.verdicts) for line in parse_run(record.value)]
    assert not any(line.get("incomplete") for line in lines)
    return {line["id"]: (line["status"], line.get("duplicate_of")) for line in lines}


@pytest.mark.parametrize("order", [(MATCH, LINK), (LINK, MATCH, LINK)])
def test_verdicts_of_a_window_that_was_matched_without_them_are_complete(
    order: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Whether matchers or linkers start first: each document has the verdict that it has if they were there from the
    beginning, and no pair is published twice."""
    bench, other = Bench(verdicts=True), Bench(verdicts=True)
    other.add(*FIRST)
    work(other, SIGN, MATCH, LINK)
    other.add(*LATER)
    work(other, SIGN, MATCH, LINK)
    bench.add(*FIRST)
    work(bench, SIGN, MATCH, verdicts=False)
    before = bench.pairs()
    bench.add(*LATER)
    work(bench, SIGN)
    with caplog.at_level(logging.WARNING):
        for role in order[:-1]:
            if role == LINK:
                bench.run(LINK, lambda: "waits for matchers with verdicts" in caplog.text)
            else:
                work(bench, role)
        work(bench, order[-1], FILTER)
    assert "has worked without verdicts: it matches" in caplog.text
    assert verdicts(bench) == verdicts(other)
    assert verdicts(bench)["copy of b"] == ("duplicate", "a")
    assert bench.pairs() == other.pairs()
    assert len(before) < len(set(bench.pairs())) == len(bench.pairs())
    assert len(bench.cluster.records(bench.names.topics.unique)) == 3


def test_documents_before_the_window_get_no_verdict_and_are_counted(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Matchers do not match them again; the log of the linker and ``status`` say how many they are."""
    bench = Bench(verdicts=True, window_seconds=DAY, lateness_seconds=3_600.0)
    bench.add(*FIRST)
    work(bench, SIGN, MATCH, verdicts=False)
    bench.add(*LATER[:2], timestamp=1_600_000_000 + 9 * DAY)
    work(bench, SIGN, MATCH, verdicts=False)
    bench.agree()
    with caplog.at_level(logging.WARNING):
        shards = range(bench.cluster.partitions(bench.names.topics.links))
        begun = lambda: all(bench.cluster.log(bench.names.topics.links, shard).end for shard in shards)  # noqa: E731
        bench.run(MATCH, lambda: begun() and bench.has_taken_all(MATCH))
        work(bench, LINK)
    assert verdicts(bench) == {"copy of a": ("original", None), "copy of b": ("duplicate", "copy of a")}
    assert f"of {bench.names.topics.signed}: 3 documents before it get no verdict" in caplog.text
    transport = MemoryTransport(bench.cluster, wait=lambda seconds: None)
    status(StatusOptions(as_json=True), transport, bench.settings)
    (note,) = [one for one in json.loads(capsys.readouterr().out)["problems"] if "no verdict" in one["what"]]
    assert (note["what"].startswith("3 documents of "), note["code"]) == (True, Exit.SUCCESS)
