"""Connections without a request: closed after a time, and the longest waiting one when there are too many."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import uvicorn

from neardup_workers.doing.http.connections import connection_type
from neardup_workers.doing.http.server import bound

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
REQUEST = HEAD + b"\r\n"
FOREVER = 3600.0


async def application(scope, receive, send):
    """Answer every request, ``/slow`` when its body has ended."""
    while scope["path"] == "/slow" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def listening(waiting_max, head_seconds_max):
    """Serve the application on a free port; give a function that opens a connection."""
    address = bound("127.0.0.1", 0)
    address.listen()
    config = uvicorn.Config(
        application, http=connection_type(waiting_max, head_seconds_max), log_config=None, lifespan="off",
        timeout_keep_alive=FOREVER, timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([address]))
    opened = []

    async def connect(sent=b""):
        reader, writer = await asyncio.open_connection(*address.getsockname())
        opened.append(writer)
        writer.write(sent)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in opened:
            writer.close()
        server.should_exit = True
        await serving


async def closed(reader):
    """Wait until the server has closed a connection; it sends nothing before."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def answered(reader):
    """Wait for a response."""
    return (await reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")


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
