"""The view of a deployment: verdicts and pairs from topics, in the store of the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_transport import MemoryTransport
from topics_world import TopicsWorld

from neardup_workers.doing.http.view.follower import GAP_SECONDS, Follower
from neardup_workers.outside.store.listing import Filters
from neardup_workers.outside.store.view import View, ViewReader
from neardup_workers.outside.topics.names import generation, topic_names
from neardup_workers.outside.topics.places import parse_place

TOPICS = topic_names("", generation("00" * 16, 2))
Line = dict[str, Any]


class Deployment(TopicsWorld):
    """Topics of two partitions in memory, and a view of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__({TOPICS.verdicts: 2, TOPICS.candidates: 2})
        self.folder, self.seconds = folder, 100.0
        self.answers: list[tuple[str, str | None]] = []
        self.follower: Follower | None = None
        self.window_seconds: float | None = None

    def publish(self, partition: int, *lines: Line) -> None:
        """Append a run of verdicts."""
        value = "".join(json.dumps({"content": "00", "timestamp": 0, **line}) + "\n" for line in lines)
        self.memory.append(TOPICS.verdicts, partition, value.encode(), b"")

    def pair(self, older: str, newer: str, similarity: float = 0.9) -> None:
        """Append a pair."""
        value = {"older": older, "newer": newer, "similarity": similarity, "buckets": 3, "newer_timestamp": 0}
        self.memory.append(TOPICS.candidates, 0, json.dumps(value).encode(), newer.encode())

    def follow(self) -> None:
        """Read what is in the topics; the first call opens the view."""
        if self.follower is None:
            self.view = View(self.folder, {"verdicts": TOPICS.verdicts}, "normal")
            self.reader = ViewReader(self.view.path)
            self.follower = Follower(
                MemoryTransport(self.memory), TOPICS, self.view, self.reader, self.window_seconds,
                lambda answers: self.answers.extend((answer.id, answer.verdict["status"]) for answer in answers),
                clock=lambda: self.seconds,
            )  # fmt: skip
        for _ in range(5):
            self.follower.turn(0.0)
            self.seconds += 1.0

    def restart(self) -> None:
        """Close the view, and open it again at the next ``follow``."""
        if self.follower is not None:
            self.follower.stop()
            self.view.close()
        self.follower = None

    def statuses(self, *ids: str) -> list[tuple[str, str | None, bool]]:
        """Status, original and whether it repeats, of the latest version of each id."""
        found = [self.reader.document(id_.encode()) for id_ in ids]
        return [(rows[0]["status"], rows[0]["duplicate_of"], rows[0]["repeated"]) for rows in found if rows]


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path / "view")
    yield deployment
    deployment.restart()


def original(offset: int, number: int, id_: str, place: str, **more: Any) -> Line:
    return {"offset": offset, "id": id_, "status": "original", "cluster": place, "arrival": number, **more}


def duplicate(offset: int, number: int, id_: str, of: str, place: str, **more: Any) -> Line:
    fields = {"duplicate_of": of, "original": place, "cluster": place, "similarity": 0.9}
    return {"offset": offset, "id": id_, "status": "duplicate", "arrival": number, **fields, **more}


def test_verdicts_of_all_partitions_are_added_in_the_order_of_arrival(deployment: Deployment) -> None:
    """A line waits for the lines before it; the place in the answers is the number of the arrival."""
    deployment.publish(1, duplicate(0, 1, "b", "a", "0-0"), original(3, 2, "c", "1-3"))
    deployment.follow()
    assert deployment.answers == []
    deployment.publish(0, original(0, 0, "a", "0-0"))
    deployment.follow()
    assert deployment.answers == [("a", "original"), ("b", "duplicate"), ("c", "original")]
    assert deployment.statuses("a", "b") == [("original", None, False), ("duplicate", "a", False)]
    [cluster], _ = deployment.reader.clusters("size", 10, Filters(size_min=2))
    assert (cluster["cluster"], cluster["size"], cluster["representative"]) == (0, 2, "a")
    assert [deployment.reader.document(id_)[0]["place"] for id_ in (b"a", b"b", b"c")] == [0, 1, 2]


def test_a_cluster_has_the_arrival_number_of_its_original(deployment: Deployment) -> None:
    """The topics name it by its place: the line of this original has both, so a reader finds one from the other."""
    head = original(3, 1, "b", "1-3")
    deployment.publish(0, original(0, 0, "a", "0-0"), duplicate(1, 2, "c", "b", "1-3"))
    deployment.publish(1, head)
    deployment.follow()
    [cluster], _ = deployment.reader.clusters("size", 10, Filters(size_min=2))
    assert (cluster["cluster"], head["cluster"], head["arrival"]) == (1, "1-3", 1)


def test_an_unchanged_version_has_the_status_of_the_version_before(deployment: Deployment) -> None:
    """No answer is ``unchanged``."""
    deployment.publish(0, original(0, 0, "a", "0-0"), duplicate(1, 1, "b", "a", "0-0"))
    again = {**duplicate(2, 2, "b", "a", "0-0", previous="0-1"), "status": "unchanged"}
    deployment.publish(0, again)
    deployment.follow()
    assert deployment.statuses("b") == [("duplicate", "a", True)]
    assert deployment.answers[-1] == ("b", "duplicate")


def test_a_removal_erases_the_versions_before_it(deployment: Deployment) -> None:
    """A version that arrives after the removal stays, also if the removal is read once more."""
    deployment.publish(0, original(0, 0, "a", "0-0"), duplicate(1, 1, "b", "a", "0-0"))
    deployment.pair("a", "b")
    removal = {"offset": 2, "id": "a", "status": "removed", "arrival": 2}
    deployment.publish(0, removal, original(3, 3, "a", "0-3"))
    deployment.follow()
    for _ in range(2):
        assert deployment.statuses("a", "b") == [("original", None, False), ("duplicate", None, False)]
        assert len(deployment.reader.document(b"a")) == 1
        assert deployment.reader.near(b"b") == ()
        deployment.publish(0, removal)
        deployment.follow()


def test_a_judged_verdict_takes_the_versions_before_it_out_of_the_view(deployment: Deployment) -> None:
    """The document has one version, which begins a story; its pairs are gone."""
    deployment.publish(0, original(0, 0, "a", "0-0"), duplicate(1, 1, "b", "a", "0-0"))
    deployment.pair("a", "b")
    deployment.follow()
    deployment.publish(0, original(2, 2, "b", "0-2", judged=True))
    deployment.follow()
    assert deployment.statuses("a", "b") == [("original", None, False), ("original", None, False)]
    assert len(deployment.reader.document(b"b")) == 1
    assert deployment.reader.near(b"b") == ()


def test_pairs_are_there_when_the_verdict_is(deployment: Deployment) -> None:
    """Earlier and later documents are near, the most similar first; a notice of removal drops the pairs of an id."""
    deployment.pair("a", "b", 0.8)
    deployment.pair("b", "c", 0.9)
    deployment.publish(0, *(original(n, n, id_, f"0-{n}") for n, id_ in enumerate("abc")))
    assert deployment.follower is None
    deployment.follow()
    near = deployment.reader.near(b"b")
    assert near is not None
    assert [(pair.older, pair.similarity) for pair in near] == [("c", 0.9), ("a", 0.8)]
    assert [pair.older for pair in deployment.reader.earlier(b"b")] == ["a"]
    assert deployment.reader.near(b"never") is None
    deployment.memory.append(TOPICS.candidates, 1, b'{"removed":"c"}', b"c")
    deployment.follow()
    assert deployment.reader.near(b"c") == ()


def test_a_restart_goes_on_where_the_last_commit_was(deployment: Deployment) -> None:
    """Lines that waited are read again, and no line is added twice."""
    deployment.publish(0, original(0, 0, "a", "0-0"))
    deployment.publish(1, original(0, 2, "c", "1-0"))
    deployment.follow()
    deployment.restart()
    deployment.publish(0, original(1, 1, "b", "0-1"))
    deployment.follow()
    deployment.restart()
    deployment.follow()
    assert [id_ for id_, _ in deployment.answers] == ["a", "b", "c"]


def test_a_gap_that_retention_left_does_not_stop_the_view(deployment: Deployment) -> None:
    """After some seconds the lines behind the gap are added; a cluster without its original has the number of its
    first document."""
    deployment.publish(0, duplicate(7, 5, "b", "a", "0-0"), duplicate(8, 9, "c", "a", "0-0"))
    deployment.follow()
    assert deployment.answers == []
    deployment.seconds += GAP_SECONDS
    deployment.follow()
    assert deployment.statuses("b", "c") == [("duplicate", None, False)] * 2
    [cluster], _ = deployment.reader.clusters("recent", 10, Filters(size_min=2))
    assert (cluster["cluster"], cluster["size"]) == (5, 2)


def test_documents_leave_the_view_when_they_leave_the_window(deployment: Deployment) -> None:
    """A cluster keeps its number after its original has left."""
    deployment.window_seconds = 60.0
    deployment.publish(0, original(0, 0, "a", "0-0", timestamp=0), duplicate(1, 1, "b", "a", "0-0", timestamp=50))
    deployment.pair("a", "b")
    deployment.follow()
    deployment.publish(0, duplicate(2, 2, "c", "a", "0-0", timestamp=100))
    deployment.publish(0, duplicate(3, 3, "d", "a", "0-0", timestamp=101))
    deployment.follow()
    assert [deployment.reader.document(id_) == [] for id_ in (b"a", b"b", b"c")] == [True, False, False]
    assert [deployment.reader.document(id_)[0]["cluster"] for id_ in (b"b", b"c", b"d")] == [0, 0, 0]
    assert deployment.reader.near(b"b") == ()


def test_partitions_that_are_added_are_followed(deployment: Deployment) -> None:
    """They are looked for every some seconds."""
    deployment.publish(0, original(0, 0, "a", "0-0"))
    deployment.follow()
    deployment.memory.add_partitions(TOPICS.verdicts, 3)
    deployment.publish(2, original(0, 1, "b", "2-0"))
    deployment.seconds += GAP_SECONDS
    deployment.follow()
    assert deployment.statuses("b") == [("original", None, False)]


def test_a_request_gets_the_verdict_about_its_place(deployment: Deployment) -> None:
    """The answer has the pairs with earlier documents; a refusal has its reason; a removal counts versions."""
    deployment.publish(0, original(0, 0, "a", "0-0"), original(1, 1, "x", "0-1"))
    deployment.follow()
    assert deployment.follower is not None
    places = [parse_place(place) for place in ("1-4", "1-6", "0-2", "0-3")]
    decided, refused, removed, forgotten = deployment.follower.expect(places)
    deployment.follower.forget(places[3:])
    deployment.pair("a", "b")
    deployment.publish(1, duplicate(4, 2, "b", "a", "0-0"), {"offset": 6, "status": "refused", "arrival": 3})
    deployment.publish(0, {"offset": 2, "id": "x", "status": "removed", "arrival": 4}, original(3, 5, "e", "0-3"))
    deployment.follow()
    answer = decided.result(0).answer
    names = ("status", "duplicate_of", "place", "cluster")
    assert [answer.verdict[name] for name in names] == ["duplicate", "a", 2, 0]
    assert [pair.older for pair in answer.pairs] == ["a"]
    assert refused.result(0).answer.refused == "refused"
    assert removed.result(0).removed == 1
    assert not forgotten.done()
