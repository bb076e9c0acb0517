"""A server on a free port whose connections tests open and read byte by byte."""

import asyncio
from contextlib import asynccontextmanager

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
async def listening(waiting_max, head_seconds_max, served=application, direct=None):
    """Serve an application on a free port; give a function that opens a connection, with the ``server``."""
    address = bound("127.0.0.1", 0)
    address.listen()
    config = uvicorn.Config(
        served, http=connection_type(waiting_max, head_seconds_max, direct), log_config=None, lifespan="off",
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

    connect.server = server
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


def check(body, *headers, line="POST /v1/check HTTP/1.1", length=None):
    """A check as most clients send it."""
    head = [line, "Host: localhost", "Content-Type: application/json"]
    head += [f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


async def echo(scope, receive, send):
    """Answer with the body and the path; ``/v1/check?...`` tells what it is to do."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    if scope["query_string"] == b"fail":
        raise RuntimeError("failed")
    if scope["query_string"] == b"lost":
        assert (await receive())["type"] == "http.disconnect"
        scope["state"]["lost"].set()
        return
    if scope["query_string"] == b"never":
        await asyncio.Event().wait()
    await asyncio.sleep(0.05 if scope["query_string"] == b"slow" else 0)
    said = b"%b %b." % (scope["path"].encode(), body)
    headers = [(b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


async def responded(reader):
    """The body of the next response."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return (await reader.readexactly(length)).decode()
