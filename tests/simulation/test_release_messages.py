"""Messages and offsets that the release 0.1.0 wrote are read, restored and continued by this program."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from make_messages import LAST, decoded, made_cluster, send, settings, state
from sim_cluster import Cluster

from neardup.stream.bands_message import decode
from neardup.stream.config import Config
from neardup.workers.topics.arrivals import decode_arrivals
from neardup.workers.topics.links import decode_links
from neardup.workers.topics.verdicts import parse_run
from neardup.workers.transport.protocol import Committed

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


# What this program decides otherwise: the removal of ``choir`` ends its story, so ``piano`` begins one, and
# ``choir-late`` joins it. The release let the story go on.
AFTER_REMOVAL = {"piano": ("0-12", "original", "0-12"), "choir-late": ("1-13", "duplicate", "0-12")}
REMOVED_ARRIVAL = 24


def contents(name: str, records: list[Any]) -> list[tuple[bytes | None, Any]]:
    """Keys and values of a log as far as both programs decide alike, without what the release did not write: the
    earliest member of a cluster, what a verdict was compared with."""
    found: list[tuple[bytes | None, Any]] = []
    for _, _, key, value, _ in records:
        read: Any = decoded(value)
        if name.startswith("verdicts/"):
            read = [
                {field: one for field, one in line.items() if field not in ("matched", "equal")}
                for line in map(json.loads, read.splitlines())
                if _place(name, line) not in {place for place, *_ in AFTER_REMOVAL.values()}
            ]
        elif name.startswith("clusters/") and read is not None:
            read = {field: one for field, one in json.loads(read).items() if not field.startswith("earliest")}
            if read["arrival"] >= REMOVED_ARRIVAL:
                continue
        elif name.startswith("unique/") and (decoded(key) or b"").decode() in AFTER_REMOVAL:
            continue
        found.append((decoded(key), read))
    return found


def _place(name: str, line: dict[str, Any]) -> str:
    return f"{name.removeprefix('verdicts/')}-{line['offset']}"


def otherwise(logs: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Places, statuses and clusters of the documents of ``AFTER_REMOVAL`` in logs of verdicts."""
    lines = [
        (_place(name, line), line)
        for name, log in logs.items() if name.startswith("verdicts/")
        for _, _, _, value, _ in log["records"]
        for line in map(json.loads, (decoded(value) or b"").splitlines())
    ]  # fmt: skip
    places = {place for place, *_ in AFTER_REMOVAL.values()}
    return {line["id"]: (place, line["status"], line["cluster"]) for place, line in lines if place in places}


def continued(config: Config) -> Cluster:
    """A cluster with the logs and the committed offsets that the release left, and workers of this program."""
    cluster: Cluster = made_cluster(config)
    memory, before = cluster.memory, MADE["before"]
    memory.now_seconds = before["now_seconds"]
    for name, kept in before["logs"].items():
        field, _, partition = name.partition("/")
        log = memory.log(getattr(cluster.topics, field), int(partition))
        log.first = kept["first"]
        for offset, timestamp_ms, key, value, headers in kept["records"]:
            log.end = offset
            log.append(
                decoded(value), decoded(key), timestamp_ms, None, tuple((k, decoded(v) or b"") for k, v in headers)
            )
        log.end = kept["end"]
    own = {"signers": "documents", "matchers": "bands", "linkers": "arrivals", "filters": "verdicts"}
    for name, offsets in before["offsets"].items():
        group, _, field = name.partition("/")
        topic = getattr(cluster.topics, field)
        known = memory.group(group, getattr(cluster.topics, own[group])).offsets_of(topic)
        known.update({int(partition): Committed(*committed) for partition, committed in offsets.items()})
    return cluster


def test_the_settings_of_the_release_sign_the_same() -> None:
    """The same settings have the fingerprint of the release, so its generation goes on."""
    assert Config(**settings()).signing_fingerprint == MADE["fingerprint"]  # type: ignore[arg-type]


def test_every_message_of_the_release_is_decoded() -> None:
    """Each topic has messages, and the decoders accept every one."""
    print_ = MADE["fingerprint"]
    assert sum(decode(value, print_).batch.size for value in values("after", "bands")) > 10
    assert sum(len(decode_arrivals(value, print_).places) for value in values("after", "arrivals")) > 10
    assert sum(len(decode_links(value, print_).links.ones) for value in values("after", "links")) > 5
    lines = [line for value in values("after", "verdicts") for line in parse_run(value)]
    statuses = {line["status"] for line in lines}
    assert statuses == {"original", "duplicate", "unchanged", "removed", "refused"}
    for topic in ("candidates", "dead"):
        assert all(json.loads(value) for value in values("after", topic))
    assert all(values("after", topic) for topic in ("documents", "candidates", "clusters", "dead", "unique"))


def test_this_program_goes_on_where_the_release_stopped() -> None:
    """From the topics and offsets of the release, every topic gets the messages that the release itself wrote next,
    except for the rule of removals."""
    cluster = continued(Config(**settings()))  # type: ignore[arg-type]
    send(cluster, LAST)
    cluster.settle()
    found: dict[str, Any] = json.loads(json.dumps(state(cluster)))
    for name, log in MADE["after"]["logs"].items():
        # Progress is repeated at other moments by another number of turns; what it covers shows in the verdicts.
        if not name.startswith("links"):
            assert contents(name, found["logs"][name]["records"]) == contents(name, log["records"]), name
    assert otherwise(found["logs"]) == AFTER_REMOVAL
    for name, committed in MADE["after"]["offsets"].items():
        if name in ("signers/documents", "filters/verdicts"):
            assert {p: c[0] for p, c in found["offsets"][name].items()} == {p: c[0] for p, c in committed.items()}
