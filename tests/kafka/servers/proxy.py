"""A TCP proxy between Kafka clients and the broker, with faults on demand.

Theory of operation. One thread accepts connections. Each connection has two more threads, one for each direction; a
thread reads whole Kafka frames (a 4-byte size, then the body) and forwards them in order. The header of a request names
its API and a correlation id; the response repeats the id. So a fault can hit one API before or after the broker acts.
With `lose(Api.END_TXN, "request")` the request never reaches the broker. With `lose(Api.END_TXN, "response")` the
broker acts and the response never reaches the client. After a loss the proxy closes the connection, and the client
notices at once; with `hang=True` the connection stays silent, and the client must time out. `hold` keeps a request
until the test lets it pass, also after `heal`. `fail` lets the broker act and replaces its answer by an error.

The general faults hold for all connections until `heal`. `pause` holds every frame. `delay` holds each response for a
while, at most until `heal`. `drop_responses` forwards requests, drops one response of each connection and closes the
connection. `cut` closes all connections and refuses new ones. Any thread may set a fault.

Clients follow the address that the broker advertises: give them `Broker.bootstrap_proxied`, listen on
`Broker.proxy_port` and forward to `Broker.proxied_port`.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import struct
import threading
import types
from dataclasses import dataclass, field
from typing import Literal, Self

from kafka.protocol.producer import ProduceResponse

HOST = "127.0.0.1"
CONNECT_SECONDS_MAX = 5.0
JOIN_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 30.0  # of a broker to a request that was held
FRAME_BYTES_MAX = 256 << 20  # a longer frame is no Kafka frame

Side = Literal["request", "response"]


class Api(enum.IntEnum):
    """The Kafka APIs that tests target, with their key in the header of a request."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


@dataclass(eq=False)
class Rule:
    """A fault for the next `times` frames of one API; the first such frame sets `happened`."""

    api: Api
    side: Side
    times: int
    is_lost: bool = False
    hang: bool = False
    is_held: bool = False
    error_code: int = 0  # replaces the error code of every partition in the response to a produce
    happened: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    answered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    count: int = 0

    def let_pass(self) -> None:
        """Forward the held requests, and return when the broker has answered each of them."""
        self.released.set()
        for _ in range(self.count):
            assert self.answered.acquire(timeout=ANSWER_SECONDS_MAX), "the broker did not answer a held request"


@dataclass(eq=False)
class Connection:
    """The sockets of a client and of the broker, and the APIs of the open requests by correlation id."""

    client: socket.socket
    broker: socket.socket
    apis: dict[int, tuple[int, int]] = field(default_factory=dict)  # with their versions
    held: dict[int, threading.Event] = field(default_factory=dict)  # set when the broker has answered
    silent: bool = False

    def close(self) -> None:
        """Close both sockets; the two pump threads then end."""
        for end in (self.client, self.broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Listens on `port` of 127.0.0.1 and forwards to `upstream_port`, with the faults that the module describes."""

    def __init__(self, port: int, upstream_port: int) -> None:
        self.port = port
        self.upstream_port = upstream_port
        self.requests: list[Api | int] = []  # the API of every request that arrived, in order
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._delay_seconds = 0.0
        self._delays_ended = threading.Event()
        self._drop_responses = False
        self._rules: list[Rule] = []
        self._holding: list[Rule] = []
        self._connections: set[Connection] = set()
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None

    def start(self) -> Self:
        """Listen; do nothing if the proxy already listens."""
        if self._listener is None:
            self._listener = socket.create_server((HOST, self.port))
            self._acceptor = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
            self._acceptor.start()
        return self

    def cut(self) -> None:
        """Close every connection and refuse new ones until `heal`."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
            listener.close()
        if self._acceptor is not None:
            self._acceptor.join(JOIN_SECONDS_MAX)
            self._acceptor = None
        self._close_connections()

    def pause(self) -> None:
        """Hold every frame, in both directions, until `heal`."""
        self._flowing.clear()

    def delay(self, seconds: float) -> None:
        """Hold each response for this long, at most until `heal`; the responses of one connection wait in turn."""
        self._delays_ended.clear()
        self._delay_seconds = seconds

    def drop_responses(self) -> None:
        """Until `heal`, forward requests, drop the first response of each connection and close the connection."""
        self._drop_responses = True

    def lose(self, api: Api, side: Side, *, times: int = 1, hang: bool = False) -> Rule:
        """Lose the next `times` requests or responses of an API, and close the connection of each."""
        return self._add(Rule(api, side, times, is_lost=True, hang=hang))

    def hold(self, api: Api, *, times: int = 1) -> Rule:
        """Keep the next `times` requests of an API until `let_pass` of the rule."""
        self._holding.append(self._add(Rule(api, "request", times, is_held=True)))
        return self._holding[-1]

    def fail(self, error_code: int, *, times: int = 1) -> Rule:
        """Answer the next `times` produce requests with this error code, although the broker accepts them."""
        return self._add(Rule(Api.PRODUCE, "response", times, error_code=error_code))

    def heal(self) -> None:
        """End every fault and listen again; close the connections that lost a frame to `hang`."""
        self._delay_seconds = 0.0
        self._delays_ended.set()
        self._drop_responses = False
        with self._lock:
            self._rules.clear()
            hanging = [connection for connection in self._connections if connection.silent]
        for connection in hanging:
            connection.close()
        self._flowing.set()
        self.start()

    def close(self) -> None:
        """Refuse new connections, close all connections and let the threads end."""
        self.cut()
        self._flowing.set()
        self._delays_ended.set()
        for rule in self._holding:
            rule.released.set()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def _add(self, rule: Rule) -> Rule:
        with self._lock:
            self._rules.append(rule)
        return rule

    def _close_connections(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # cut() closed it
                return
            try:
                broker = socket.create_connection((HOST, self.upstream_port), CONNECT_SECONDS_MAX)
            except OSError:  # the broker is down, so the proxy is down too
                client.close()
                continue
            broker.settimeout(None)
            connection = Connection(client, broker)
            for end in (client, broker):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections.add(connection)
            if self._listener is not listener:  # cut() ran at the same time
                connection.close()
            for side in ("request", "response"):
                threading.Thread(target=self._pump, args=(connection, side), daemon=True).start()

    def _pump(self, connection: Connection, side: Side) -> None:
        """Forward frames in one direction until either end or a fault closes the connection."""
        source, target = connection.client, connection.broker
        if side == "response":
            source, target = target, source
        with contextlib.suppress(OSError):
            while (frame := read_frame(source)) is not None:
                self._flowing.wait()
                if connection.silent:
                    continue
                api, version = self._api_of(connection, side, frame)
                rule = self._rule_for(api, side)
                if rule is not None and rule.is_lost:
                    if not rule.hang:
                        break
                    connection.silent = True
                    continue
                if side == "response" and self._drop_responses:
                    break
                if side == "response" and self._delay_seconds:
                    self._delays_ended.wait(self._delay_seconds)
                self._flowing.wait()
                if rule is not None and rule.is_held:
                    self._keep(connection, rule, frame)
                    continue
                if rule is not None and rule.error_code:
                    frame = with_produce_error(frame, version, rule.error_code)
                target.sendall(struct.pack(">i", len(frame)) + frame)
        connection.close()
        with self._lock:
            self._connections.discard(connection)

    def _keep(self, connection: Connection, rule: Rule, frame: bytes) -> None:
        """Forward a request when its rule releases it, and wait for the answer: a closed connection would lose it."""
        _, _, correlation_id = struct.unpack_from(">hhi", frame)
        answered = connection.held[correlation_id] = threading.Event()
        rule.released.wait()
        connection.broker.sendall(struct.pack(">i", len(frame)) + frame)
        if answered.wait(ANSWER_SECONDS_MAX):
            rule.answered.release()

    def _api_of(self, connection: Connection, side: Side, frame: bytes) -> tuple[int | None, int]:
        """Return API and version of a frame."""
        if side == "response":
            (correlation_id,) = struct.unpack_from(">i", frame)
            if correlation_id in connection.held:
                connection.held.pop(correlation_id).set()
            return connection.apis.pop(correlation_id, (None, 0))
        api, version, correlation_id = struct.unpack_from(">hhi", frame)
        connection.apis[correlation_id] = (api, version)
        self.requests.append(Api(api) if api in set(Api) else api)
        return api, version

    def _rule_for(self, api: int | None, side: Side) -> Rule | None:
        with self._lock:
            for rule in self._rules:
                if rule.api == api and rule.side == side and rule.count < rule.times:
                    rule.count += 1
                    rule.happened.set()
                    return rule
        return None


def with_produce_error(frame: bytes, version: int, error_code: int) -> bytes:
    """The response to a produce, with this error code for each of its partitions."""
    body = 5 if ProduceResponse.flexible_version_q(version) else 4  # after the correlation id, without tagged fields
    response = ProduceResponse.decode(frame[body:], version=version)
    response._header = None  # encode requires this argument, decode does not return it
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.error_code = error_code
    return frame[:body] + bytes(response.encode(version=version))


def read_frame(source: socket.socket) -> bytes | None:
    """Read one Kafka frame without its size; return None when the peer has closed."""
    head = read_exactly(source, 4)
    if head is None:
        return None
    (size,) = struct.unpack(">i", head)
    if not 4 <= size <= FRAME_BYTES_MAX:
        raise OSError(f"a frame of {size} bytes is no Kafka frame (4 to {FRAME_BYTES_MAX})")
    return read_exactly(source, size)


def read_exactly(source: socket.socket, size: int) -> bytes | None:
    """Read this many bytes; return None when the peer closes earlier."""
    buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        count = source.recv_into(view[filled:])
        if count == 0:
            return None
        filled += count
    return bytes(buffer)
