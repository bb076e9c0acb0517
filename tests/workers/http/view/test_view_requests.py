"""Requests on a view of a deployment: topics in memory, and a test that plays the linker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_transport import MemoryCluster, MemoryTransport
from view_world import WAIT_SECONDS_MAX, Deployment, until

from neardup_workers.doing.http.view.server import serve_view
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.serve import ViewSettings

JSON_LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path / "view", verdict_seconds_max=WAIT_SECONDS_MAX)
    yield deployment
    deployment.close()


def test_a_check_is_answered_when_its_verdict_is_committed(deployment: Deployment) -> None:
    """The topic has the body as it came, keyed by id; the answer has the pairs that the deployment has found."""
    body = b'{"id": "a", "text": "some words", "source": "kept as it is"}'
    first = deployment.asking("POST", "/v1/check", content=body, headers={"Content-Type": "application/json"})
    [record] = deployment.documents(1)
    assert (record.key, record.value) == (b"a", body)
    assert not first.done()
    deployment.decide(record, "original")
    answer = first.result(WAIT_SECONDS_MAX).json()
    assert (answer["id"], answer["status"], answer["place"], answer["pairs"]) == ("a", "original", 0, [])
    second = deployment.asking("POST", "/v1/check", json={"id": "b", "text": "some words more"})
    [newer] = [each for each in deployment.documents(2) if each.key == b"b"]
    pair = {"older": "a", "newer": "b", "similarity": 0.91, "buckets": 7, "newer_timestamp": 5.0}
    deployment.memory.append(deployment.topics.candidates, 0, json.dumps(pair).encode(), b"b")
    place = f"{record.partition}-{record.offset}"
    deployment.decide(newer, "duplicate", duplicate_of="a", original=place, cluster=place, similarity=0.91)
    answer = second.result(WAIT_SECONDS_MAX).json()
    assert (answer["status"], answer["duplicate_of"], answer["cluster"]) == ("duplicate", "a", 0)
    until(lambda: deployment.running.events.figures.present()["latest"])
    [event] = deployment.running.events.figures.present()["latest"]
    assert (event["id"], event["time"]) == ("b", 5.0)
    assert answer["pairs"] == [{"id": "a", "similarity": 0.91, "buckets": 7}]
    assert deployment.ask("GET", "/v1/documents/b").json()["status"] == "duplicate"
    assert [pair["id"] for pair in deployment.ask("GET", "/v1/documents/a/near").json()["pairs"]] == ["b"]
    assert deployment.ask("GET", "/v1/clusters/0").json()["size"] == 2
    metrics = deployment.ask("GET", "/metrics").text
    assert 'neardup_service_answers_total{status="duplicate"} 1.0' in metrics
    assert "neardup_ready 1.0" in metrics


def test_a_verdict_that_takes_too_long_is_answered_by_202(tmp_path: Path) -> None:
    """The answer has the place in the topic; the verdict can be read when it is there."""
    deployment = Deployment(tmp_path / "view", verdict_seconds_max=0.05, fields=("collection=lang",))
    response = deployment.ask("POST", "/v1/check", json={"id": "a", "text": "some words"})
    [record] = deployment.documents(1)
    place = f"{record.partition}-{record.offset}"
    assert (response.status_code, response.json()) == (202, {"id": "a", "decided": False, "place": place})
    assert deployment.ask("GET", "/v1/documents/a").status_code == 404
    line = b'{"id": "b", "text": "x y z", "lang": "de"}'
    lines = deployment.ask("POST", "/v1/check:batch", content=line, headers=JSON_LINES).content.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(one.get("decided"), one.get("collection")) for one in found] == [(False, "de"), (None, None)]
    deployment.decide(record, "original")
    until(lambda: deployment.ask("GET", "/v1/documents/a").status_code == 200)
    deployment.close()


def test_a_batch_is_sent_in_order_and_each_line_is_answered(deployment: Deployment) -> None:
    """Bad lines and documents that a signer refuses get error lines."""
    lines = [b'{"id": "a", "text": "some words"}', b"{", b'{"id": "b", "text": " "}', b'{"id": "c", "text": "other"}']
    response = deployment.asking("POST", "/v1/check:batch", content=b"\n".join(lines), headers=JSON_LINES)
    records = {record.key: record for record in deployment.documents(3)}
    deployment.decide(records[b"a"], "original")
    deployment.decide(records[b"b"], "refused")
    deployment.decide(records[b"c"], "original")
    found = [json.loads(line) for line in response.result(WAIT_SECONDS_MAX).content.splitlines()]
    assert [line.get("status") or line.get("error", {}).get("reason") for line in found] == [
        "original", "not_json", "refused", "original", None,
    ]  # fmt: skip
    assert found[-1] == {"done": 4}


def test_a_removal_is_answered_when_it_is_committed(deployment: Deployment) -> None:
    """The topic gets a tombstone. An id without versions is unknown."""
    sent = deployment.asking("POST", "/v1/check", json={"id": "a", "text": "some words"})
    deployment.decide(deployment.documents(1)[0], "original")
    sent.result(WAIT_SECONDS_MAX)
    for status in (200, 404):
        count = len(deployment.documents(0))
        removed = deployment.asking("DELETE", "/v1/documents/a")
        tombstone = max(deployment.documents(count + 1), key=lambda record: record.offset)
        assert (tombstone.key, tombstone.value) == (b"a", None)
        deployment.decide(tombstone, "removed")
        assert removed.result(WAIT_SECONDS_MAX).status_code == status
    assert deployment.ask("GET", "/v1/documents/a").status_code == 404


def test_what_a_person_says_of_two_documents_goes_to_the_topic(deployment: Deployment) -> None:
    """The later one is sent again as it was, with a header that names the other id: the linker decides. What holds
    already is answered at once; what cannot be sent is refused."""
    sent = {}
    for n, status in enumerate(("original", "duplicate")):
        asked = deployment.asking("POST", "/v1/check", json={"id": "ab"[n], "text": "some words", "source": "wire"})
        record = next(one for one in deployment.documents(n + 1) if one.key == b"ab"[n : n + 1])
        first = sent.setdefault("place", f"{record.partition}-{record.offset}")
        more = {"duplicate_of": "a", "original": first, "cluster": first} if n else {}
        deployment.decide(record, status, content=f"0{n}", **more)
        asked.result(WAIT_SECONDS_MAX)
    for path, status, reason in (
        ("together?a=b&b=a", 200, None), ("apart?a=a&b=c", 404, "unknown_id"), ("apart?a=a", 422, "parameter"),
        ("apart?a=a&b=a", 409, "same_content"), ("apart?a=a&b=b&why=order", 501, "needs_window"),
    ):  # fmt: skip
        answer = deployment.ask("POST", f"/v1/{path}")
        assert (answer.status_code, answer.json().get("reason")) == (status, reason), path
    asked = deployment.asking("POST", "/v1/apart?a=a&b=b")
    again = max(deployment.documents(3), key=lambda one: (one.key, one.offset))
    assert (again.value, again.headers) == (record.value, (("neardup-apart", b"a"),))
    deployment.decide(again, "original", content="01", judged=True)
    assert asked.result(WAIT_SECONDS_MAX).json() == {"id": "b", "cluster": 2}
    assert deployment.ask("POST", "/v1/apart?a=a&b=b").json() == {"id": "b", "cluster": 2}
    deployment.memory.log(deployment.topics.documents, again.partition).trim(again.offset + 1)
    answer = deployment.ask("POST", "/v1/together?a=a&b=b")
    assert (answer.status_code, answer.json()["reason"]) == (404, "unknown_id")
    assert "header" in answer.json()["detail"]


def test_a_judged_document_whose_format_cannot_be_read_here_is_not_sent(tmp_path: Path) -> None:
    """The function that decodes it is installed with the signers alone: the answer names it."""
    deployment = Deployment(tmp_path / "view", decode="signers_only:decode")
    for n, id_ in enumerate("ab"):
        deployment.memory.append(deployment.topics.documents, 0, b"\x00", id_.encode())
        record = max(deployment.documents(n + 1), key=lambda one: one.offset)
        deployment.decide(record, "original", id=id_, content=f"0{n}")
        until(lambda: deployment.ask("GET", f"/v1/documents/{id_}").status_code == 200)  # noqa: B023
    answer = deployment.ask("POST", "/v1/together?a=a&b=b")
    assert (answer.status_code, answer.json()["reason"]) == (501, "needs_window")
    assert "decode='signers_only:decode'" in answer.json()["detail"]
    assert len(deployment.documents(0)) == 2
    deployment.close()


def test_a_judged_document_is_sent_if_it_fits_and_is_still_there(tmp_path: Path) -> None:
    """With the header it may be too large. A topic that was made again may have another document at its place: an id
    stands in the value, or else in the key."""
    deployment = Deployment(tmp_path / "view", verdict_seconds_max=0.05, fields=("collection=lang",))
    sent = 0
    most = deployment.settings.client.request_bytes_max - 1_000
    cases: list[tuple[bytes | None, dict[str, object], int, str | None]] = [
        (None, {"id": "a"}, 0, None),  # the older one
        (b"b", {"id": "b"}, 202, None),
        (b"c", {"id": "c", "text": "x" * (most - 25)}, 413, "message_too_large"),
        (b"d", {}, 202, None),
        (None, {"id": "e"}, 202, None),
        (b"f", {"id": "other"}, 404, "unknown_id"),
        (b"other", {}, 404, "unknown_id"),
        (None, {}, 404, "unknown_id"),
        (b"i", {"id": "i", "lang": "de"}, 404, "unknown_id"),
    ]
    for n, (key, fields, status, reason) in enumerate(cases):
        id_, value = "abcdefghi"[n], json.dumps({"text": "some words"} | fields).encode()
        deployment.memory.append(deployment.topics.documents, 0, value, key)
        record = max((one for one in deployment.documents(0) if one.partition == 0), key=lambda one: one.offset)
        deployment.decide(record, "original", id=id_, content=f"0{n}")
        until(lambda: deployment.ask("GET", f"/v1/documents/{id_}").status_code == 200)  # noqa: B023
        if not n:
            continue
        answer = deployment.ask("POST", f"/v1/together?a=a&b={id_}")
        assert (answer.status_code, answer.json().get("reason")) == (status, reason), id_
        sent += status == 202
        judged = [one for one in deployment.documents(0) if one.headers]
        assert len(judged) == sent
        assert status != 202 or any((one.key, one.value) == (id_.encode(), value) for one in judged)
    deployment.close()


def test_what_needs_signatures_is_not_implemented(deployment: Deployment) -> None:
    """Looks and reasons get 501, a block list is the signers': nothing is sent."""
    block = deployment.ask("DELETE", "/v1/documents/a?block=true")
    assert (block.status_code, block.json()["reason"]) == (409, "no_block_list")
    assert "signers" in block.json()["detail"]
    look = deployment.ask("POST", "/v1/check?add=false", json={"id": "a", "text": "some words"})
    assert (look.status_code, look.json()["reason"]) == (501, "needs_window")
    assert deployment.ask("GET", "/v1/why?a=a&b=b").status_code == 501
    assert deployment.documents(0) == []


def test_an_aborted_transaction_is_sent_again_and_a_lost_one_is_reported(deployment: Deployment) -> None:
    """After a lost response the client gets 503: the document is there or not, and may be sent again."""
    deployment.memory.fail_next("flush")
    first = deployment.asking("POST", "/v1/check", json={"id": "a", "text": "some words"})
    [record] = deployment.documents(1)
    deployment.decide(record, "original")
    assert first.result(WAIT_SECONDS_MAX).status_code == 200
    deployment.memory.fail_next("commit_after")
    lost = deployment.ask("POST", "/v1/check", json={"id": "b", "text": "some words"})
    assert (lost.status_code, lost.json()["reason"], lost.headers["retry-after"]) == (503, "unsent", "1")
    assert len(deployment.documents(2)) == 2
    again = deployment.asking("POST", "/v1/check", json={"id": "b", "text": "some words"})
    for record in sorted(deployment.documents(3), key=lambda each: each.offset):
        if record.key == b"b":
            deployment.decide(record, "original")
    assert again.result(WAIT_SECONDS_MAX).json()["status"] == "original"


def test_an_id_that_no_message_can_hold_is_refused(deployment: Deployment) -> None:
    """So is a document that is larger than a message may be."""
    large = {"id": "a", "text": "x" * 1_000_000}
    response = deployment.ask("POST", "/v1/check", json=large)
    assert (response.status_code, response.json()["reason"]) == (413, "message_too_large")
    body = b'{"id": "\\ud800", "text": "x"}'
    response = deployment.ask("POST", "/v1/check", content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["reason"]) == (422, "id_surrogate")


def test_a_deployment_without_verdicts_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the missing topic. With a folder for the view no temporary one is made."""
    monkeypatch.setattr("tempfile.TemporaryDirectory", None)
    settings = ViewSettings(window_seconds=1e9, port=0)
    with pytest.raises(Failure, match=r"verdicts-.* does not exist") as failure:
        serve_view(settings, str(tmp_path / "view"), MemoryTransport(MemoryCluster()))
    assert failure.value.code == Exit.TOPIC


def test_the_view_is_ready_when_it_has_what_was_committed_before_it_began(tmp_path: Path) -> None:
    """A broken topic ends it."""
    deployment = Deployment(tmp_path / "view")
    until(lambda: deployment.ask("GET", "/readyz").status_code == 200)
    deployment.memory.append(deployment.topics.verdicts, 0, b"no verdict", b"")
    until(lambda: bool(deployment.ended))
    assert deployment.ask("GET", "/readyz").status_code == 503
    assert "no linker wrote it" in str(deployment.running.error())
    deployment.close()


def test_a_view_has_collections_sources_urls_and_titles(tmp_path: Path) -> None:
    """A key is the collection, U+001F and the id; a removal, pairs and lists are those of the collection alone."""
    deployment = Deployment(tmp_path / "view", verdict_seconds_max=WAIT_SECONDS_MAX, fields=("collection=lang",))
    shown = {"source": "wire", "url": "https://a.example/1", "title": "One"}
    firsts = {}
    for n, name in enumerate(("de", "fr", None, "de")):
        id_, named = "ab"[n == 3], {"collection": name} if name else {}
        asked = deployment.asking("POST", "/v1/check", json={"id": id_, "text": "some words", "lang": name})
        record = {each.key: each for each in deployment.documents(n + 1)}[f"{name}\x1f{id_}".encode() if name else b"a"]
        place = f"{record.partition}-{record.offset}"
        copy = (
            {"status": "original"} if n < 3 else {"status": "duplicate", "duplicate_of": "a", "original": firsts["de"]}
        )
        if n == 3:
            pair = {"older": "a", "newer": "b", "similarity": 1.0, "buckets": 7, "newer_timestamp": 5.0, **named}
            deployment.memory.append(deployment.topics.candidates, 0, json.dumps(pair).encode(), record.key)
        deployment.decide(record, **copy, id=id_, cluster=firsts.get(name, place), **named, **shown)
        firsts.setdefault(name, place)
        answer = asked.result(WAIT_SECONDS_MAX).json()
        assert {key: answer[key] for key in shown} == shown
        assert (answer["id"], answer.get("collection"), answer["status"]) == (id_, name, copy["status"])
    assert [pair["id"] for pair in answer["pairs"]] == ["a"]
    near = deployment.ask("GET", "/v1/documents/a/near?collection=de").json()["pairs"]
    assert [pair["id"] for pair in near] == ["b"]
    assert deployment.ask("GET", "/v1/documents/a/near?collection=fr").json()["pairs"] == []
    [story] = deployment.ask("GET", "/v1/clusters?collection=de").json()["clusters"]
    assert (story["representative"], story["others"], story["source"], story["title"]) == ("a", ["b"], "wire", "One")
    for query, count in (("q=One", 4), ("collection=de&q=One", 2), ("q=Two", 0)):
        found = deployment.ask("GET", f"/v1/documents?{query}").json()
        assert len(found["documents"]) == count
    removal = deployment.asking("DELETE", "/v1/documents/a?collection=de")
    record = next(each for each in deployment.documents(5) if each.value is None)
    assert record.key == b"de\x1fa"
    deployment.decide(record, "removed", id="a", collection="de")
    assert removal.result(WAIT_SECONDS_MAX).json() == {"id": "a", "removed": 1, "collection": "de"}
    assert deployment.ask("GET", "/v1/documents/a?collection=de").status_code == 404
    assert deployment.ask("GET", "/v1/documents/a?collection=fr").json()["collection"] == "fr"
    assert deployment.ask("GET", "/v1/documents/a").json()["source"] == "wire"
    deployment.close()
