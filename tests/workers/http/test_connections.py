"""Connections without a request: closed after a time, and the longest waiting one when there are too many."""

import asyncio

import pytest
from connection_world import FOREVER, HEAD, REQUEST, answered, application, check, closed, echo, listening, responded
from starlette.responses import Response

from neardup_workers.doing.http import connections


@pytest.mark.long
def test_a_head_that_does_not_end_is_waited_for_a_limited_time():
    """Nothing is sent, a part of a head, or a part of a second head."""

    async def run():
        async with listening(waiting_max=9, head_seconds_max=2.0) as connect:
            nothing, _ = await connect()
            part, _ = await connect(HEAD)
            second, _ = await connect(REQUEST + HEAD)
            assert await answered(second)
            for reader in (nothing, part, second):
                assert await closed(reader)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_request_may_take_longer_than_its_head():
    """Its body has limits of its own; after the response the connection waits again."""

    async def run():
        async with listening(waiting_max=1, head_seconds_max=FOREVER) as connect:
            reader, writer = await connect(b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n1")
            others = [await connect(REQUEST) for _ in range(3)]
            for other, _ in others:
                assert await answered(other)
            writer.write(b"2")
            assert await answered(reader)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_of_too_many_idle_connections_the_longest_waiting_is_closed():
    """The newest ones are answered."""

    async def run():
        async with listening(waiting_max=3, head_seconds_max=FOREVER) as connect:
            idle = [await connect() for _ in range(10)]
            for reader, _ in idle[:7]:
                assert await closed(reader)
            for reader, writer in idle[7:]:
                writer.write(REQUEST)
                assert await answered(reader)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_requests_that_are_sent_together_are_all_answered():
    """A client may send its next request before it has the response."""

    async def run():
        async with listening(waiting_max=1, head_seconds_max=FOREVER) as connect:
            reader, _ = await connect(REQUEST * 3)
            for _ in range(3):
                assert await answered(reader)

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(
    "data",
    [
        check(b"x", line="POST /v1/check HTTP/9.1"),
        check(b"x", "Transfer-Encoding: chunked"),
        check(b"x", "Transfer-Encoding : chunked"),
        check(b"x", "Content-Length: 2"),
        check(b"x", "host: other"),
        check(b"x", "X: \x00"),
        check(b"x", "X: a\rY: b"),
        check(b"x", ": a"),
        check(b"x", "a b"),
        check(b"x", length="+1"),
        check(b"x", length="1, 1"),
        check(b"x", length="0x1"),
        check(b"x", length=""),
        check(b"x").replace(b"Host: localhost\r\n", b""),
        HEAD + b"X: " + b"a" * 70_000,
        HEAD + b"X: a\r\n" * 11_500,
    ],
)  # fmt: skip
def test_a_request_that_two_readers_may_read_differently_is_refused(data):
    """And its connection ends: a proxy may have found its end elsewhere. A head has an end."""

    async def run():
        async with listening(9, FOREVER, echo) as connect:
            reader, _ = await connect(data)
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            other, _ = await connect(check(b"1"))
            assert await responded(other) == "/v1/check 1."

    asyncio.run(asyncio.wait_for(run(), 60))


def test_head_and_body_of_an_answer_are_one_packet(monkeypatch):
    """Also of the last answer of a connection; an answer without a body is its head."""
    transport, sent = asyncio.selector_events._SelectorSocketTransport, []
    write = transport.write
    monkeypatch.setattr(transport, "write", lambda self, data: (sent.append(bytes(data)), write(self, data))[1])

    async def run():
        async with listening(9, FOREVER) as connect:
            for line, whole in ((b"GET", b"\r\n\r\nok"), (b"HEAD", b"\r\n\r\n")):
                for more in (b"", b"Connection: close\r\n"):
                    reader, _ = await connect(
                        REQUEST.replace(b"GET", line).replace(b"\r\n\r\n", b"\r\n" + more + b"\r\n")
                    )
                    await reader.readuntil(whole)
                    assert [data.endswith(whole) for data in sent if data.startswith(b"HTTP/1.1 200")] == [True]
                    sent.clear()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_requests_that_come_whole_or_in_parts_are_answered_in_order():
    """Also between requests of other kinds, sent together, and cut anywhere."""

    async def run():
        async with listening(9, FOREVER, echo) as connect:
            reader, writer = await connect(check(b"1") + check(b"2", "Connection: keep-alive") + REQUEST + check(b"3"))
            for body, path in ((b"1", "/v1/check"), (b"2", "/v1/check"), (b"", "/"), (b"3", "/v1/check")):
                assert await responded(reader) == f"{path} {body.decode()}."
            writer.write(check(b"4"))
            assert await responded(reader) == "/v1/check 4."
            request = check(b"five", line="POST /v1/check?slow HTTP/1.1")
            for cut in range(1, len(request), 7):
                writer.write(request[:cut])
                await writer.drain()
                await asyncio.sleep(0.002)
                writer.write(request[cut:] + check(b"behind"))
                assert await responded(reader) == "/v1/check five."
                assert await responded(reader) == "/v1/check behind."

    asyncio.run(asyncio.wait_for(run(), 60))


async def plain(scope, body):
    """Answer a plain request with its body, which tells what it is to do."""
    if body == b"fail":
        raise RuntimeError("failed")
    if body == b"slow":
        await asyncio.sleep(0.05)
    if body == b"never":
        await asyncio.Event().wait()
    return Response(b"plain %b." % body)


def test_a_check_that_comes_whole_is_plain_and_others_are_not(monkeypatch):
    """Answers keep the order of requests, also when the application gives some of them."""
    monkeypatch.setattr(connections, "_BODY_SECONDS", FOREVER)
    goes = asyncio.Event()

    async def held(scope, body):
        if body == b"held":
            await goes.wait()
        return await plain(scope, body)

    async def run():
        async with listening(9, FOREVER, echo, held) as connect:
            reader, writer = await connect(check(b"1"))
            assert await responded(reader) == "plain 1."
            for request in (
                check(b"2", "Expect: nothing"), check(b"2", "X-Forwarded-For: 1.2.3.4"),
                check(b"2", line="POST /v1/check?add=true HTTP/1.1"),
                check(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"1\r\n2\r\n0\r\n\r\n",
            ):  # fmt: skip
                writer.write(request)
                assert await responded(reader) == "/v1/check 2."
            writer.write(check(b"3" * 20_000))
            assert await responded(reader) == f"/v1/check {'3' * 20_000}."
            writer.write(check(b"4") + check(b"5") + REQUEST + check(b"slow"))
            for said in ("plain 4.", "/v1/check 5.", "/ .", "/v1/check slow."):
                assert await responded(reader) == said
            writer.write(check(b"held"))
            await asyncio.sleep(0.01)  # the server reads what was sent before it ends, however late
            writer.write(check(b"behind") + check(b"it"))
            await asyncio.sleep(0.01)
            goes.set()
            for said in ("plain held.", "/v1/check behind.", "/v1/check it."):
                assert await responded(reader) == said
            request = check(b"six")
            for cut in range(1, len(request), 7):
                writer.write(request[:cut])
                await asyncio.sleep(0.002)
                writer.write(request[cut:])
                assert await responded(reader) == ("plain six." if cut < len(request) - 2 else "/v1/check six.")
            monkeypatch.setattr(connections, "_BODY_SECONDS", 0.0)
            writer.write(check(b"late")[:-4])
            await asyncio.sleep(0.01)
            writer.write(b"late")
            assert await responded(reader) == "/v1/check late."
            writer.write(check(b"7", "Connection: close"))
            assert await responded(reader) == "/v1/check 7."
            assert await reader.read() == b""

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_plain_request_ends_as_others_do(caplog):
    """By an error, by a client that goes, by the time of an idle connection, and by a stop, also without an answer."""
    begun = []

    async def noted(scope, body):
        begun.append(body)
        return await plain(scope, body)

    async def run():
        async with listening(9, 4.0, echo, noted) as connect:
            connect.server.config.timeout_keep_alive = 0.2
            failed, _ = await connect(check(b"fail"))
            assert (await failed.read()).startswith(b"HTTP/1.1 500 ")
            _, gone = await connect(check(b"slow"))
            await asyncio.sleep(0.01)
            gone.close()
            idle, _ = await connect(check(b"1"))
            assert await responded(idle) == "plain 1."
            assert await closed(idle)
            reader, _ = await connect(check(b"slow"))
            unanswered, _ = await connect(check(b"never"))
            while len(begun) < 5:
                await asyncio.sleep(0.001)
            connect.server.should_exit = True
            assert await responded(reader) == "plain slow."
            assert await reader.read() == b""
            assert (await unanswered.read()).startswith(b"HTTP/1.1 500 ")

    asyncio.run(asyncio.wait_for(run(), 60))
    assert "failed" in caplog.text


def test_a_head_without_an_end_behind_an_open_request_ends_the_connection():
    """So do trailers without an end; a body in chunks of one byte has as many bytes as it likes."""

    async def run():
        chunked = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with listening(9, FOREVER, echo) as connect:
            reader, _ = await connect(chunked + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
            assert len(await responded(reader)) == 20_000 + len("/ .")
            for begun in (check(b"1", line="POST /v1/check?never HTTP/1.1"), chunked + b"1\r\nx\r\n0\r\n"):
                reader, writer = await connect(begun)
                await asyncio.sleep(0.01)
                writer.write(HEAD + b"X: " + b"a" * 400_000)
                assert await closed(reader)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_body_that_is_slow_is_waited_for():
    """Its head is answered when the rest has come."""

    async def run():
        async with listening(1, FOREVER, echo) as connect:
            reader, writer = await connect(check(b"12")[:-1])
            await asyncio.sleep(0.2)
            others = [await connect(REQUEST) for _ in range(3)]  # it waits no more: it is not the one that is closed
            for other, _ in others:
                await responded(other)
            writer.write(b"2")
            assert await responded(reader) == "/v1/check 12."

    asyncio.run(asyncio.wait_for(run(), 60))


def test_an_error_of_the_application_ends_the_connection_with_500(caplog):
    """It is in the log, and other connections go on."""

    async def run():
        async with listening(9, FOREVER, echo) as connect:
            reader, _ = await connect(check(b"", line="POST /v1/check?fail HTTP/1.1"))
            assert (await reader.read()).startswith(b"HTTP/1.1 500 ")
            other, _ = await connect(check(b"1"))
            assert await responded(other) == "/v1/check 1."

    asyncio.run(asyncio.wait_for(run(), 60))
    assert "failed" in caplog.text


def test_an_application_learns_that_a_client_has_gone():
    """Nothing is written to it."""
    lost = asyncio.Event()

    async def application(scope, receive, send):
        scope["state"]["lost"] = lost
        await echo(scope, receive, send)

    async def run():
        async with listening(9, FOREVER, application) as connect:
            _, writer = await connect(check(b"1", line="POST /v1/check?lost HTTP/1.1"))
            await asyncio.sleep(0.05)
            writer.close()
            await lost.wait()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_stop_answers_a_check_that_has_come():
    """Its connection ends behind the answer."""

    async def run():
        async with listening(9, FOREVER, echo) as connect:
            reader, _ = await connect(check(b"1", line="POST /v1/check?slow HTTP/1.1"))
            while not connect.server.server_state.tasks:
                await asyncio.sleep(0.001)
            connect.server.should_exit = True
            assert await responded(reader) == "/v1/check 1."
            assert await reader.read() == b""

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.long
def test_a_connection_is_closed_some_time_after_a_check():
    """As after every other request."""

    async def run():
        async with listening(9, 1.0, echo) as connect:
            reader, _ = await connect(check(b"1"))
            assert await responded(reader) == "/v1/check 1."
            assert await closed(reader)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_an_answer_to_a_body_that_is_not_read_arrives_though_the_connection_closes():
    """``urllib`` sends all of a body before it reads; with bytes unread the end was a reset, and the answer lost."""

    async def run():
        async with listening(10, FOREVER) as connect:
            reader, writer = await connect(HEAD + b"Connection: close\r\nContent-Length: 9000000\r\n\r\n")
            for _ in range(9):
                writer.write(b"x" * 1_000_000)
                await writer.drain()
            assert (await reader.read()).endswith(b"ok")

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_body_that_never_ends_holds_no_connection_that_closes():
    """The wait for its rest has a bound."""

    async def run():
        async with listening(10, 0.1) as connect:
            reader, _ = await connect(HEAD + b"Connection: close\r\nContent-Length: 9\r\n\r\nx")
            assert await answered(reader)
            assert await closed(reader)

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(
    ("target", "host", "counts"),
    [
        ("http://127.0.0.1:84/x", "evil.example", "127.0.0.1:84"),
        ("http://u@evil.example/x?u=http://localhost/", "localhost", "evil.example"),
        ("/x?u=http://evil.example/", "localhost", "localhost"),
    ],
)
def test_a_host_in_the_target_is_the_one_that_counts(target, host, counts):
    """As a proxy sends it: RFC 9112 ignores the header Host then."""
    hosts = []

    async def named(scope, receive, send):
        hosts.extend(value.decode() for name, value in scope["headers"] if name == b"host")
        await application(scope, receive, send)

    async def run():
        async with listening(10, FOREVER, named) as connect:
            reader, _ = await connect(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert await answered(reader)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert hosts == [counts]


def test_a_client_that_asks_first_may_send_its_body():
    """``Expect: 100-continue``, as curl sends with a large body."""

    async def run():
        async with listening(9, FOREVER) as connect:
            head = b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
            reader, writer = await connect(head)
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"body")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")

    asyncio.run(asyncio.wait_for(run(), 60))
