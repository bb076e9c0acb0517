"""The private names of kafka-python: where the program uses them, and how it refuses a client without them."""

from __future__ import annotations

import ast
import gc
import importlib.metadata
import os
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import kafka
import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as client_errors
from kafka.admin import KafkaAdminClient
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from python_files import text_of, tree

from neardup.errors import ConfigError
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.transport.kafka import client_internals
from neardup_workers.outside.transport.kafka.client_internals import TESTED_VERSION, connections, fetches
from neardup_workers.outside.transport.kafka.client_settings import KafkaSettings
from neardup_workers.outside.transport.kafka.connect import kafka_settings

ROOT = Path(__file__).parents[3]
INTERNALS = ROOT / "workers" / "neardup_workers" / "outside" / "transport" / "kafka" / "client_internals"
USERS = [path for folder in ("workers", "benchmarks", "deploy") for path in sorted((ROOT / folder).rglob("*.py"))]
PUBLIC_MODULES = {"kafka", "kafka.errors", "kafka.admin"}
NAMED_TUPLE_METHODS = {"_replace", "_asdict", "_fields", "_make"}


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE_METHODS


def client_modules(module: ast.Module) -> set[str]:
    """The imported modules of the client."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name for name in found if name.partition(".")[0] == "kafka"}


def foreign_attributes(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of private attributes of objects other than ``self``, and of inherited private attributes."""
    own = {
        node.attr for node in ast.walk(module) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    } | {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and private(node.attr):
            is_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not is_self or node.attr not in own:
                yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("attr"):
            names = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            yield from ((node.lineno, name) for name in names if private(name))


def test_only_one_package_looks_inside_the_client() -> None:
    """No other module imports a private module of the client, or uses a private attribute of its objects."""
    for path in USERS:
        if INTERNALS in path.parents or "kafka" not in text_of(path):
            continue
        modules = client_modules(tree(path))
        assert modules <= PUBLIC_MODULES, f"{path}: ask neardup_workers.outside.transport.kafka.client_internals for it"
        if modules:
            assert list(foreign_attributes(tree(path))) == [], f"{path}: give it a name in client_internals"


def test_every_function_of_the_package_says_where_the_client_does_it() -> None:
    """Each public function that touches the client links a source line of the tested version."""
    link = f"https://github.com/dpkp/kafka-python/blob/{TESTED_VERSION}/kafka/"
    for path in sorted(INTERNALS.glob("*.py")):
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and list(foreign_attributes(ast.Module([node], []))):
                assert link in (ast.get_docstring(node) or ""), f"{path.name}: {node.name}"


def test_the_installed_client_is_the_tested_one() -> None:
    """Pinned, tested and installed version are equal."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"kafka-python=={TESTED_VERSION}" in dependencies
    assert importlib.metadata.version("kafka-python") == TESTED_VERSION


def test_another_client_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names both versions, and the remedy; it comes before anything of the client is used."""
    monkeypatch.setattr(kafka, "__version__", "3.0.7")
    with pytest.raises(ConfigError, match=rf"3\.0\.7 is installed, but .* install kafka-python=={TESTED_VERSION}"):
        importlib.reload(client_internals)


@pytest.mark.parametrize("is_fast", [True, False])
def test_one_connection_reads_otherwise_and_its_class_does_not(is_fast: bool) -> None:
    """Other users of the client in the same process are unaffected."""
    of_classes = [kind.__dict__["_sock_recv"] for kind in (KafkaTCPTransport, KafkaSSLTransport)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        client = connections.connections(is_fast)(bootstrap_servers=f"{host}:{port}")
        node = SimpleNamespace(host=host, port=port)
        connection = client._net.run(client._manager._build_transport, node)
        reads = connections.receive if is_fast else connections.receive_before_end
        assert connection._sock_recv.func is reads
        connection.abort()
        client.close()
    assert [kind.__dict__["_sock_recv"] for kind in (KafkaTCPTransport, KafkaSSLTransport)] == of_classes


# In a process of its own, where no thread of another test leaves cycles.
_WAITS = """
import gc, weakref
from kafka.errors import KafkaTimeoutError
from kafka.future import Future
from neardup_workers.outside.transport.kafka.client_internals import connections

class Held:
    pass

def wait():
    held = Held()
    try:
        client._net.run(client._manager.wait_for, Future(), 1)
    except KafkaTimeoutError as error:
        assert "Timed out after 1 ms" in str(error), error
    else:
        raise AssertionError("no timeout")
    return weakref.ref(held)

client = connections.connections(True)(bootstrap_servers="127.0.0.1:9")
client._net.start()
gc.collect()
gc.disable()
freed = [wait()() for _ in range(200)] == [None] * 200
print(freed, gc.collect())
client._net.stop()
client.close()
"""


@pytest.mark.processes
def test_a_wait_that_timed_out_holds_nothing_of_its_callers() -> None:
    """No reference cycle is left: the callers' objects are freed on return, without a run of the collector."""
    done = subprocess.run([sys.executable, "-c", _WAITS], capture_output=True, check=True, text=True, timeout=120)
    freed, cycles = done.stdout.split()
    assert freed == "True"
    # A cycle for each wait would be 200 objects at least. The attempts of the client to connect leave some, too, more
    # of them the longer this takes.
    assert int(cycles) < 200


@pytest.mark.long
def test_the_reason_of_a_failure_is_that_of_its_own_client() -> None:
    """Two clients fail side by side, one at a closed port and one at a server that hangs up; each error names its own
    reason."""
    with socket.create_server(("127.0.0.1", 0)) as busy, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: its port is closed, and no other process takes it
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in (busy, closed)]
        server = Thread(target=_hang_up, args=(busy,))
        server.start()
        try:
            with ThreadPoolExecutor(2) as both:
                said = list(both.map(_reason, addresses))
        finally:
            busy.shutdown(socket.SHUT_RDWR)
            server.join()
    assert "socket disconnected" in said[0]
    assert "ECONNREFUSED" in said[1]


def _hang_up(server: socket.socket) -> None:
    """End each connection after its first bytes, until the server is shut down."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            connection.recv(1 << 16)


def _reason(address: str) -> str:
    """Why a client cannot reach a broker."""
    with pytest.raises(client_errors.KafkaTimeoutError) as refused:
        KafkaAdminClient(**KafkaSettings(address, connect_timeout_seconds=1.0).options())
    return str(refused.value)


def test_a_client_that_reaches_no_broker_leaves_nothing_open() -> None:
    """No socket of the tries, and no thread that goes on trying."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd")), threading.active_count()
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"127.0.0.1:{closed.getsockname()[1]}"
        _reason(address)
        assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before
    finally:
        gc.enable()


def test_only_the_leader_says_where_a_log_ends() -> None:
    """A replica near by may lag: a signer that took its end for the end would not wait for documents before it."""
    log, ends, answers = TopicPartition("documents", 3), {}, iter(range(1, 9))
    fetcher = SimpleNamespace(_handle_fetch_response=lambda *given: None, _parse_fetched_data=lambda completed: ())
    cluster = SimpleNamespace(leader_for_partition=lambda partition: 1)
    fetches.note_ends(SimpleNamespace(_fetcher=fetcher, _manager=SimpleNamespace(cluster=cluster)), ends)

    def answer(node: int, end: int | None) -> fetches.End:
        """The answer of a broker to a request at 80: with an end, or with nothing new."""
        found = SimpleNamespace(partition_index=3, last_stable_offset=end, high_watermark=end)
        topics = [] if end is None else [SimpleNamespace(topic=log.topic, partitions=[found])]
        fetcher._handle_fetch_response(node, {log: 80}, next(answers), SimpleNamespace(error_code=0, responses=topics))
        if end is not None:
            fetcher._parse_fetched_data(SimpleNamespace(topic_partition=log, partition_data=found))
        return ends.get(3)

    assert answer(2, 70) is None
    assert answer(1, 80) == fetches.End(80, 80, 2)
    assert answer(2, 70) == fetches.End(80, 80, 2)
    assert answer(2, None) == fetches.End(80, 80, 2)
    assert answer(1, None) == fetches.End(80, 80, 5)
    assert answer(1, 90) == fetches.End(90, 90, 6)


def test_a_rack_is_sent_by_consumers_alone() -> None:
    """Other clients refuse the option. A replica without new records answers early, because others wait for it."""
    settings = kafka_settings(StreamSettings(client_rack="zone-a"))
    assert settings.consumer_options()["client_rack"] == "zone-a"
    assert settings.consumer_options()["fetch_max_wait_ms"] < KafkaConsumer.DEFAULT_CONFIG["fetch_max_wait_ms"]
    assert "fetch_max_wait_ms" not in KafkaSettings("").consumer_options()
    assert "client_rack" not in settings.options()
    assert KafkaConsumer.DEFAULT_CONFIG["client_rack"] == KafkaSettings("").consumer_options()["client_rack"] == ""
