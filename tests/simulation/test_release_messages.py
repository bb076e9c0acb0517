"""Messages and offsets that the release 0.1.0 wrote are read, restored and continued by this program."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from make_messages import BREWERY, Row, decoded, made_cluster, send, settings
from sim_cluster import Cluster

from neardup.schemes.config import Config
from neardup_workers.outside.topics.links import decode_links
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import Committed

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
MADE: dict[str, Any] = json.loads((FIXTURES / "0.1.0" / "messages.json").read_bytes())
pytestmark = pytest.mark.skipif(
    MADE["unicode"] != unicodedata.unidata_version,
    reason=f"signed with Unicode {MADE['unicode']}: another Unicode version is another generation",
)


def values(moment: str, topic: str) -> list[bytes]:
    """The values of a topic in the fixture."""
    logs = [log for name, log in MADE[moment]["logs"].items() if name.partition("/")[0] == topic]
    return [decoded(record[3]) or b"" for log in logs for record in log["records"]]


def continued(config: Config) -> Cluster:
    """A cluster with the logs and the committed offsets that the release left, which had nothing unread, and workers of
    this program."""
    cluster: Cluster = made_cluster(config, "shards")
    memory, before = cluster.memory, MADE["after"]
    memory.now_seconds = before["now_seconds"]
    for name, kept in before["logs"].items():
        field, _, partition = name.partition("/")
        if field not in cluster.topics._fields:
            continue
        log = memory.log(getattr(cluster.topics, field), int(partition))
        log.first = kept["first"]
        for offset, timestamp_ms, key, value, headers in kept["records"]:
            log.end = offset
            log.append(
                decoded(value), decoded(key), timestamp_ms, None, tuple((k, decoded(v) or b"") for k, v in headers)
            )
        log.end = kept["end"]
    own = {"signers": "documents", "linkers": "signed", "filters": "verdicts"}
    for name, offsets in before["offsets"].items():
        group, _, field = name.partition("/")
        if field not in cluster.topics._fields:
            continue
        topic = getattr(cluster.topics, field)
        known = memory.group(group, getattr(cluster.topics, own[group])).offsets_of(topic)
        # As ``neardup topics replay --no-window`` commits them again: signers of 0.1.0 wrote no ``signed``.
        forget = group == "signers"
        for partition, (offset, metadata) in offsets.items():
            known[int(partition)] = Committed(offset, "" if forget else metadata)
    return cluster


def test_the_settings_of_the_release_sign_the_same() -> None:
    """The same settings have the fingerprint of the release, so its generation goes on."""
    assert Config(**settings()).signing_fingerprint == MADE["fingerprint"]  # type: ignore[arg-type]


def test_every_message_that_is_read_on_is_decoded() -> None:
    """Each topic has messages, and the decoders accept every one. ``links`` of the release says nothing any more."""
    print_ = MADE["fingerprint"]
    assert values("after", "links")
    assert all(not len(decode_links(value, print_).links.later) for value in values("after", "links"))
    lines = [line for value in values("after", "verdicts") for line in parse_run(value)]
    statuses = {line["status"] for line in lines}
    assert statuses == {"original", "duplicate", "unchanged", "removed", "refused"}
    for topic in ("candidates", "dead"):
        assert all(json.loads(value) for value in values("after", topic))
    assert all(values("after", topic) for topic in ("documents", "candidates", "clusters", "dead", "unique"))


def lines_of(cluster: Cluster) -> list[dict[str, Any]]:
    """The verdicts in the order of arrival, with their partitions."""
    lines = [
        {"partition": record.partition, **line}
        for record in cluster.memory.records(cluster.topics.verdicts)
        for line in parse_run(record.value)
    ]
    return sorted(lines, key=lambda line: int(line["arrival"]))


def test_this_program_goes_on_where_the_release_stopped() -> None:
    """The log begins empty behind the committed offsets of ``documents``; verdicts and what follows them go on, and
    nothing is decided twice."""
    cluster = continued(Config(**settings()))  # type: ignore[arg-type]
    before = lines_of(cluster)
    forwarded = Counter(record.key for record in cluster.memory.records(cluster.topics.unique))
    pairs = len(cluster.memory.records(cluster.topics.candidates))
    piano = BREWERY.replace("a new piano", "an old organ")
    cellar = "The cellar of the library is dry again; the readers carry the last of nine thousand books upstairs."
    rows: list[Row] = [
        ("piano", {"id": "piano", "text": piano}, ()),
        ("cellar", {"id": "cellar", "text": cellar}, ()),
        ("wet-cellar", {"id": "wet-cellar", "text": cellar.replace("nine", "eight")}, ()),
        ("cellar", None, ()),
        ("k", b"[1]", ()),
    ]
    send(cluster, rows)
    cluster.settle()
    after = lines_of(cluster)
    assert after[: len(before)] == before
    assert [line["arrival"] for line in after] == list(range(len(after)))
    found = sorted((str(line.get("id")), line["status"]) for line in after[len(before) :])
    assert found == [
        ("None", "refused"), ("cellar", "original"), ("cellar", "removed"), ("piano", "original"),
        ("wet-cellar", "duplicate"),
    ]  # fmt: skip
    # The matchers know no document of the release; the linker knows its verdicts.
    assert next(line["previous"] for line in after[len(before) :] if line.get("id") == "piano") == "0-12"
    places = [(line["partition"], line["offset"]) for line in after]
    assert len(places) == len(set(places)) == sum(
        len(cluster.memory.log(cluster.topics.documents, partition).read(0, 1 << 30)[0]) for partition in (0, 1)
    )  # fmt: skip
    keys = Counter(record.key for record in cluster.memory.records(cluster.topics.unique)) - forwarded
    assert keys == {b"piano": 1, b"cellar": 2}
    assert len(cluster.memory.records(cluster.topics.candidates)) == pairs + 2
