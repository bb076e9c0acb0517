"""A Kafka cluster of several nodes on loopback: each node is broker and controller, and stores every partition.

Theory of operation. The nodes are `Broker`s that know each other: one quorum of controllers and replication to all
nodes. `min.insync.replicas` is one less than the number of nodes. `start` launches every stopped node first and then
waits until each node serves, because a single node would wait for its quorum forever. The storage of the first node is
formatted; the other nodes get copies with their own ids. A test may kill, freeze (SIGSTOP) and restart each node.
Leaders and the controller move to the remaining nodes; without a quorum the cluster waits.
"""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
import types
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from broker import AFTER_KILL, SHORT_LIVED, Broker
from ports import HOST

# Several nodes share a machine with the workers.
JVM = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", SHORT_LIVED)
# A node writes this line when the quorum makes it the active controller.
BECAME_CONTROLLER = re.compile(r"Becoming the active controller")


class Brokers:
    """A cluster of `nodes` Kafka nodes, as the module describes; every node gets `settings` in addition."""

    def __init__(self, nodes: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.nodes = [Broker() for _ in range(nodes)]
        voters = ",".join(f"{i}@{HOST}:{node.controller_port}" for i, node in enumerate(self.nodes, 1))
        replicas, in_sync = str(nodes), str(max(1, nodes - 1))
        for i, node in enumerate(self.nodes, 1):
            node.jvm = JVM
            node.settings = {
                "node.id": str(i), "controller.quorum.voters": voters, "default.replication.factor": replicas,
                "min.insync.replicas": in_sync, "offsets.topic.replication.factor": replicas,
                "transaction.state.log.replication.factor": replicas, "transaction.state.log.min.isr": in_sync,
                **AFTER_KILL, **(settings or {}),
            }  # fmt: skip

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes."""
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def log(self) -> str:
        """The logs of all nodes, one after the other."""
        return "".join(node.log for node in self.nodes)

    @property
    def controllers(self) -> int:
        """How often a node became the active controller."""
        return len(BECAME_CONTROLLER.findall(self.log))

    def start(self) -> Self:
        """Start the stopped nodes, and return when all nodes serve."""
        waiting = []
        for node in self.nodes:
            if not node.running:
                if node.folder is None and node is not self.nodes[0]:
                    _copy_storage(self.nodes[0], node)
                waiting.append((node, node.launch()))
        for node, read_from in waiting:
            node.wait_until_started(read_from)
        return self

    def freeze(self, node: Broker) -> None:
        """Stop a node by SIGSTOP, in the middle of its work."""
        if node.process is not None and node.running:
            node.process.send_signal(signal.SIGSTOP)

    def thaw(self, node: Broker) -> None:
        """Continue a frozen node."""
        if node.process is not None and node.running:
            node.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill all nodes and remove their data."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()


def _copy_storage(formatted: Broker, node: Broker) -> None:
    """Copy the storage of a node that has not run yet; `kafka-storage format` takes a second for each node."""
    assert formatted.folder is not None
    node.folder = Path(tempfile.mkdtemp(prefix="neardup-kafka-"))
    (node.folder / "data").mkdir()
    shutil.copy(formatted.folder / "data" / "bootstrap.checkpoint", node.folder / "data")
    identity = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "x", 1)
    text = (formatted.folder / "data" / "meta.properties").read_text()
    text = re.sub(r"node\.id=.*", f"node.id={node.settings['node.id']}", text)
    text = re.sub(r"directory\.id=.*", f"directory.id={identity}", text)
    (node.folder / "data" / "meta.properties").write_text(text)
    node.write_properties()
