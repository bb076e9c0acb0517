"""Fixtures for the tests against a real Apache Kafka.

`bootstrap_servers` is `KAFKA_BOOTSTRAP_SERVERS` if that variable is set, else a broker that the fixture starts. A
machine that cannot run a broker skips these tests with the reason; with CI=true they fail instead. Under pytest-xdist
each test process has its own broker, because tests kill it and put proxies in front of it.

This file puts the folders of its own folder on the import path, so that the tests say `from broker import Broker` and
`from proxy import Api, Proxy`. It adds the folder of the deployment tests too: one test here runs a real Prometheus
that scrapes real workers.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from import_path import folders

sys.path.extend(folders("kafka", "deploy"))

# At import kafka-python reads its message schemas with a function that Python 3.11 and 3.12 call deprecated (3.13 no
# longer does). Warnings are errors in the tests, so the first import of kafka-python is here.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read_text|open_text) is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.coordinator.assignors import cooperative_sticky as _  # noqa: F401

from broker import Broker
from debian_packages import absent
from jars import BrokerUnavailableError, find_java, resolve_jars
from make_topic import MakeTopic
from programs import prometheus  # noqa: F401 - a fixture; found by the path above
from proxy import Proxy

if TYPE_CHECKING:
    from kafka_harness import KafkaHarness
    from kafka_world import World

# kafka-python leaves the socket of a refused connection to the garbage collector, which runs at any time.
UNCLOSED_SOCKET = r"unclosed <(ssl\.SSLS|s)ocket"


def pytest_configure(config: pytest.Config) -> None:
    """Ignore kafka-python's unclosed sockets, in the tests and in the collection after the last test; compile."""
    config.addinivalue_line("filterwarnings", f"ignore:{UNCLOSED_SOCKET}:ResourceWarning")
    warnings.filterwarnings("ignore", UNCLOSED_SOCKET, ResourceWarning)
    if config.getoption("numprocesses", None):  # this process starts those of the tests: it compiles for all of them
        _compile()


@pytest.fixture(scope="session")
def session_broker() -> Iterator[Broker]:
    """The broker of this test process. Tests use `broker`, which restarts it after a test has stopped it."""
    with ExitStack() as closing:
        try:
            resolve_jars(), find_java()  # first: a broker reserves its ports until the process ends
            started = closing.enter_context(Broker())
        except BrokerUnavailableError as error:
            absent(f"no Kafka broker: {error}")
        yield started


@pytest.fixture
def broker(session_broker: Broker) -> Iterator[Broker]:
    """A broker process that the test may kill, stop and restart; never the broker of KAFKA_BOOTSTRAP_SERVERS."""
    session_broker.start()
    yield session_broker
    session_broker.start()


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    """A proxy in front of `broker`, for clients that bootstrap at `broker.bootstrap_proxied`."""
    with Proxy(broker.proxy_port, broker.proxied_port) as standing:
        yield standing


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    """The address of a real broker whose state the test must not change."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        return given
    started: Broker = request.getfixturevalue("session_broker")
    return started.bootstrap


@pytest.fixture
def make_topic(request: pytest.FixtureRequest) -> MakeTopic:
    """Create topics with unique names: on `broker` if the test uses it, else on `bootstrap_servers`."""

    def make(name_prefix: str, partitions: int = 1, **configs: object) -> str:
        if "broker" in request.fixturenames:
            address = request.getfixturevalue("broker").bootstrap
        else:
            address = request.getfixturevalue("bootstrap_servers")
        name = f"{name_prefix}-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            options = {"num_partitions": partitions, "replication_factor": -1, "configs": settings}
            admin.create_topics({name: options}, wait_for_metadata=True)
        return name

    return make


@pytest.fixture
def quiet_client() -> Iterator[None]:
    """Silence the client, which logs hundreds of lines while its broker is away."""
    client = logging.getLogger("kafka")
    client.setLevel(logging.CRITICAL)
    yield
    client.setLevel(logging.NOTSET)


@pytest.fixture
def harnesses(broker: Broker, make_topic: MakeTopic) -> Iterator[Callable[..., KafkaHarness]]:
    """Make harnesses on the broker that the test may kill, and close them after it; ``proxied`` uses the proxy."""
    from kafka_harness import KafkaHarness

    made: list[KafkaHarness] = []

    def make(proxied: bool = False, **changes: object) -> KafkaHarness:
        made.append(KafkaHarness(broker.bootstrap_proxied if proxied else broker.bootstrap, make_topic, **changes))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


def _compile() -> None:
    """Compile the kernels of all roles, or load them: 76 seconds of processor time where there are none yet."""
    from neardup_workers.outside.settings.kafka import StreamSettings
    from neardup_workers.running.service.roles import ROLES

    for role in ROLES.values():
        role.warm(StreamSettings())


@pytest.fixture(scope="session")
def compiled() -> None:
    """The kernels of the workers are there, so that no process of a test has to wait for them."""
    _compile()


@pytest.fixture
def worlds(request: pytest.FixtureRequest, quiet_client: None, compiled: None) -> Iterator[Callable[..., World]]:
    """Make deployments whose workers are objects of the test, on `broker` if the test uses it; close them after it."""
    from kafka_world import World

    made: list[World] = []
    if "broker" in request.fixturenames:
        address = request.getfixturevalue("broker").bootstrap
    else:
        address = request.getfixturevalue("bootstrap_servers")

    def make(
        quick: dict[str, object] | None = None,
        workers_bootstrap: str = "",
        limits: dict[str, object] | None = None,
        **changes: object,
    ) -> World:
        made.append(World(address, quick, workers_bootstrap, limits, **changes))
        return made[-1]

    yield make
    for world in made:
        world.close()
