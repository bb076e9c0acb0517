"""Fixtures of the tests of the deployment: the programs of Prometheus, and a broker.

`promtool` and `prometheus` are those of this machine, else those of Debian's package, fetched by `apt-get` into a cache
and unpacked there without being installed. Where that cannot be had, these tests skip with the reason; with CI=true
they fail instead. The folder of this file and that of the broker go on the import path, for there is no `__init__.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))
sys.path.insert(0, str(Path(__file__).parent))

from broker import Broker, BrokerUnavailableError
from programs import Prometheus, UnavailableError, absent, find_prometheus


@pytest.fixture(scope="session")
def prometheus() -> Prometheus:
    """The programs of Prometheus."""
    try:
        return find_prometheus()
    except UnavailableError as error:
        absent(f"no Prometheus: {error}")


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    """The address of a broker: the one that is given, else one that is started here."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        yield given
        return
    started = Broker()
    try:
        started.start()
    except BrokerUnavailableError as error:
        started.close()
        absent(f"no Kafka broker: {error}")
    yield started.bootstrap
    started.close()
