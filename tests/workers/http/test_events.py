"""Verdicts as server-sent events: order, resumption, limits, slow readers, and the end of the service."""

import asyncio
import json
import socket

import httpx
import pytest
from command import without_compilation
from service_process import Serving
from service_world import NEAR, TEXT, listening, world_in
from starlette.requests import Request

from neardup_workers.doing.http.bodies import Refused
from neardup_workers.outside.process.exits import Exit


@pytest.fixture
def world(tmp_path):
    with world_in(tmp_path / "state") as world:
        yield world


def events_of(parts):
    """The events of a stream: (number, values), without comments."""
    found = []
    for block in "".join(parts).split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((int(fields["id"]), json.loads(fields["data"])))
    return found


class Client:
    """A reader of the stream without a socket: it takes parts when it wants to; ``ends`` counts aborted connections."""

    def __init__(self, world, after=None, **headers):
        self.ends = []
        query = b"" if after is None else b"after=%d" % after
        listed = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        state = {"abort": lambda: self.ends.append(1)}
        scope = {"type": "http", "method": "GET", "query_string": query, "headers": listed, "state": state}
        self.parts, self.body = [], world.events.response(Request(scope)).body_iterator

    async def events(self, count):
        """The first ``count`` events."""
        while len(events_of(self.parts)) < count:
            self.parts.append((await anext(self.body)).decode())
        return events_of(self.parts)

    async def rest(self):
        """All events to the end of the stream."""
        self.parts += [part.decode() async for part in self.body]
        return events_of(self.parts)


def test_an_event_has_the_verdict_as_the_store_returns_it(world):
    """Its number is the place; a refused document makes no event, a repeated one does."""

    async def run():
        client = Client(world)
        await anext(client.body)
        for id_, text in (("a", TEXT), ("b", NEAR), ("c", " "), ("b", NEAR)):
            await asyncio.to_thread(world.check, id_, text)
        found = await client.events(3)
        await client.body.aclose()
        return found

    found = asyncio.run(run())
    assert [number for number, _ in found] == [0, 1, 2]
    assert [(e["id"], e["status"], e["duplicate_of"], e["repeated"]) for _, e in found] == [
        ("a", "original", None, False),
        ("b", "duplicate", "a", False),
        ("b", "duplicate", "a", True),
    ]
    stored = {
        version["place"]: version
        for id_ in "ab"
        for version in world.ask("GET", f"/v1/documents/{id_}").json()["versions"]
    }
    assert dict(found) == stored
    assert world.events.readers == 0


def test_a_reader_that_returns_gets_what_it_missed_from_the_store(world):
    """No event is missing or repeated where store and buffer meet, however the steps fall."""

    async def run():
        for n in range(5):
            await asyncio.to_thread(world.check, f"d{n}", f"{TEXT} {n}")
        clients = [Client(world, last_event_id="1"), Client(world, after=-1), Client(world, after=99)]
        for n in range(5, 9):
            await asyncio.to_thread(world.check, f"d{n}", f"{TEXT} {n}")
        found = [await client.events(count) for client, count in zip(clients, (7, 9, 4), strict=True)]
        for client in clients:
            await client.body.aclose()
        return [[number for number, _ in events] for events in found]

    assert asyncio.run(run()) == [[*range(2, 9)], [*range(9)], [*range(5, 9)]]


def test_a_reader_far_behind_reads_page_by_page(world):
    """1,500 stored verdicts arrive once each, while further ones are made."""

    async def run():
        lines = "\n".join(json.dumps({"id": f"d{n}", "text": f"{TEXT} {n % 7}"}) for n in range(1500))
        headers = {"Content-Type": "application/x-ndjson"}
        ask = {"content": lines, "headers": headers}
        await asyncio.to_thread(world.ask, "POST", "/v1/check:batch", **ask)
        client = Client(world, after=-1)
        await client.events(500)
        await asyncio.to_thread(world.check, "last", TEXT)
        return [number for number, _ in await client.events(1501)]

    assert asyncio.run(run()) == [*range(1501)]


def test_a_removed_document_is_not_sent(world):
    """Neither from the store nor from the buffer; its duplicates do not name it."""

    async def run():
        await asyncio.to_thread(world.check, "z", "Words of its own, which nothing else has.")
        late = Client(world)  # it makes the buffer keep events
        early = Client(world, after=-1)
        await asyncio.to_thread(world.check, "a", TEXT)
        await asyncio.to_thread(world.check, "b", NEAR)
        for id_ in ("a", "z"):
            await asyncio.to_thread(world.ask, "DELETE", f"/v1/documents/{id_}")
        return await late.events(1), await early.events(1)

    for found in asyncio.run(run()):
        assert [(values["id"], values["duplicate_of"]) for _, values in found] == [("b", None)]


def test_a_reader_that_the_buffer_leaves_behind_is_disconnected(tmp_path):
    """It is counted; it returns with its last number and has everything; a quick reader goes on."""
    with world_in(tmp_path, events={"buffer_events": 4}) as world:

        async def run():
            slow, quick = Client(world), Client(world)
            await asyncio.to_thread(world.check, "d0", TEXT)
            await slow.events(1)  # now it is live, and reads no more
            for n in range(1, 9):
                await asyncio.to_thread(world.check, f"d{n}", f"{TEXT} {n}")
                await quick.events(n + 1)
            first = await slow.rest()
            back = Client(world, last_event_id=str(first[-1][0]))
            return slow.ends, quick.ends, first, await back.events(9 - len(first))

        slow_ends, quick_ends, first, rest = asyncio.run(run())
        assert (bool(slow_ends), bool(quick_ends)) == (True, False)
        assert [number for number, _ in first + rest] == [*range(9)]
        assert "neardup_service_event_readers_slow_total 1.0" in world.ask("GET", "/metrics").text


def test_a_quiet_stream_has_heartbeats(tmp_path):
    """A comment, which no client takes for an event."""
    with world_in(tmp_path, events={"heartbeat_seconds": 0.001}) as world:

        async def run():
            client = Client(world)
            return [(await anext(client.body)).decode() for _ in range(3)]

        assert asyncio.run(run()) == ["retry: 1000\n\n", ": heartbeat\n\n", ": heartbeat\n\n"]


def test_the_number_of_readers_is_bounded(tmp_path):
    """One more is refused; when one leaves, another may come; after the end no client may."""
    with world_in(tmp_path, event_readers_max=2) as world:

        async def run():
            first, _ = Client(world), Client(world)
            await anext(first.body)
            with pytest.raises(Refused, match="too_many_readers"):
                Client(world)
            await first.body.aclose()
            third = Client(world)
            world.events.close()
            with pytest.raises(Refused, match="ended"):
                Client(world)
            return await third.rest()

        assert asyncio.run(run()) == []


@pytest.mark.parametrize("value", ["x", "-2", "1.5", "9" * 30, ""])
def test_a_wrong_number_is_refused(world, value):
    """The problem names the header or the parameter."""
    answers = world.ask_all(
        [("GET", "/v1/events", {"headers": {"Last-Event-ID": value}}), ("GET", f"/v1/events?after={value}", {})]
    )
    assert [(answer.status_code, answer.json()["field"]) for answer in answers] == [
        (422, "Last-Event-ID"),
        (422, "after"),
    ]


def _original(id_, place):
    return {"id": id_, "place": place, "status": "original", "duplicate_of": None}


def test_a_client_that_reads_nothing_loses_its_connection(tmp_path):
    """The socket is closed in the middle of the stream; memory does not follow the events."""
    with (
        world_in(tmp_path, events={"buffer_events": 8}) as world,
        listening(world.app) as address,
        socket.socket() as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(60)
        client.connect(address)
        client.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = client.recv(9)
        world.events.publish([_original("first", 0)])
        while b"first" not in got:  # from here on the reader is live: it reads the buffer, not the store
            got += client.recv(1 << 16)
        place = 1
        while not world.observer.value("service_event_readers_slow"):
            assert place < 20_000, "the reader took a gigabyte"
            world.events.publish([_original("x" * 50_000, place)])
            place += 1
        while part := client.recv(1 << 16):
            got = got[-100:] + part
        assert not got.endswith(b"\r\n0\r\n\r\n"), "it ended as if nothing were missing"


@pytest.mark.processes
def test_the_real_service_sends_events_and_ends_at_once(tmp_path):
    """SIGTERM does not wait for clients that read events."""
    serving = Serving(tmp_path, "--durability", "normal")
    with (
        httpx.Client(base_url=serving.url, timeout=60) as client,
        client.stream("GET", "/v1/events", params={"after": -1}) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        client.post("/v1/check", json={"id": "a", "text": TEXT}).raise_for_status()
        data = next(line for line in lines if line.startswith("data: "))
        assert json.loads(data.removeprefix("data: "))["id"] == "a"
        assert serving.stop() == Exit.TERMINATED
        assert not [line for line in lines if line.startswith("data")]
    assert without_compilation(serving.log.splitlines()) == []
