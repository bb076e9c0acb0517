"""One Apache Kafka node for the tests and for `make kafka`: fetched by Maven, run as a child process.

Theory of operation. A `Broker` owns a temporary folder (data, log, configuration), four ports and at most
one Java process. `start` formats the storage once and waits for the broker's own "started" line; `stop` ends
the process politely, then by force, and `kill` by force at once; after either, `start` (or `restart`) resumes
on the same ports with the same data. `close` removes the folder. Only the process that was started here is
signalled, by its id, and the kernel kills it when the thread that started it ends (Linux), so that no run
leaves a broker behind.

Listeners: PLAINTEXT on `port` for plain clients; PROXIED on `proxied_port`, which advertises `proxy_port`: a
`Proxy` listening there and forwarding to `proxied_port` stays between the broker and every client that
bootstraps through it, because Kafka clients follow the advertised address.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support" / "sockets"))
from jars import BrokerUnavailableError, class_archive, find_java, kafka_version, resolve_jars, tail
from ports import HOST, free_port, is_free

HERE = Path(__file__).resolve().parent
FORMAT_SECONDS_MAX = 240.0
START_SECONDS_MAX = 240.0  # 3 s on an idle machine; several times that with every core busy
STOP_SECONDS_MAX = 30.0
POLL_SECONDS = 0.02
CLUSTER_ID = "bmVhcmR1cC10ZXN0cy0wMQ"  # 16 bytes in URL-safe base64, as Kafka requires; any value works
STARTED = b"Kafka Server started"
TOO_OLD = "UnsupportedClassVersionError"

SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # One node, so one replica; few partitions of the internal topics, so that they exist at once.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # Tests should not wait: groups form at once, sessions may be 1 s, overdue transactions end within 1 s.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "broker.session.timeout.ms": "30000",  # a machine that stands still for seconds does not fence its only node
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "16777216",  # default 128 MiB, a quarter of the heap below
}
# After a SIGKILL the controller refuses the node until its old session ends.
AFTER_KILL: Mapping[str, str] = {"broker.session.timeout.ms": "3000"}
JVM = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
# C1 alone saves two thirds of the processor time of a start and compiles nothing later; a warm broker is slower.
SHORT_LIVED = "-XX:TieredStopAtLevel=1"

# Runs in the child process. The child dies with its parent (PR_SET_PDEATHSIG = 1, Linux), even if the parent died
# before the call; then it becomes Java under the same process id. A preexec_fn would be unsafe in a process with
# threads.
BECOME_JAVA = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class BrokerFailedError(Exception):
    """The broker did not start or ended by itself; the message ends with the last lines of its log."""


def kept_classes(java: str) -> tuple[str, ...]:
    """The option of Java that reads the archive of classes; none where Java makes no archive.

    The first broker on a machine waits until one of its own, which no test uses, has written it. So do the first
    brokers of other processes.
    """
    archive = class_archive(java)
    with archive.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not archive.exists():
            written = archive.with_suffix(".written")
            one = Broker()
            one.classes, one.jvm = (), (*one.jvm, f"-XX:ArchiveClassesAtExit={written}")
            with one, contextlib.suppress(subprocess.TimeoutExpired):
                assert one.process is not None
                one.process.terminate()
                one.process.wait(START_SECONDS_MAX)
            written.touch()
            written.rename(archive)
    return (f"-XX:SharedArchiveFile={archive}",) if archive.stat().st_size else ()


class Broker:
    """One Kafka node in a child process, with the life cycle that the module describes.

    `port` 0 means a free one; `settings` adds to or replaces `SETTINGS` (server.properties names); `lasting`: it is to
    be fast when warm, rather than soon there. Call `start` from a thread that lives as long as the broker should.
    Raises `BrokerUnavailableError` when this machine cannot run Kafka and `BrokerFailedError` when Kafka does not
    start.
    """

    def __init__(self, *, port: int = 0, settings: Mapping[str, str] | None = None, lasting: bool = False) -> None:
        self.classes: tuple[str, ...] | None = None  # the option of Java for its archive, once it is known
        self.jvm = JVM if lasting else (*JVM, SHORT_LIVED)
        self.port = port or free_port()
        self.proxied_port, self.proxy_port, self.controller_port = free_port(), free_port(), free_port()
        self.settings = dict(settings or {})
        self.folder: Path | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.killed = False

    @property
    def bootstrap(self) -> str:
        """The address for clients that talk to the broker directly."""
        return f"{HOST}:{self.port}"

    @property
    def bootstrap_proxied(self) -> str:
        """The address for clients that should go through a proxy on `proxy_port`."""
        return f"{HOST}:{self.proxy_port}"

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the running process, for signals such as SIGSTOP."""
        if self.process is None or self.process.poll() is not None:
            raise BrokerFailedError("the broker does not run: start() it first")
        return self.process.pid

    @property
    def log(self) -> str:
        """The log of all starts so far."""
        path = self.folder and self.folder / "broker.log"
        return path.read_text(errors="replace") if path and path.exists() else ""

    def start(self) -> Self:
        """Start Kafka and return when it serves; do nothing if the broker already runs."""
        if not self.running:
            self.wait_until_started(self.launch())
        return self

    def launch(self) -> int:
        """Start the process of a stopped broker without waiting; return where its new log lines begin."""
        classpath, java = str(resolve_jars() / "*"), find_java()
        if self.classes is None:
            self.classes = kept_classes(java)
        for port in (self.port, self.proxied_port, self.controller_port):
            if not is_free(port):
                raise BrokerUnavailableError(
                    f"{HOST}:{port} is already in use: end what listens there, or choose another port"
                )
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="neardup-kafka-"))
            self._format(java, classpath)
        else:
            self.write_properties()
        log = self.folder / "broker.log"
        read_from = log.stat().st_size if log.exists() else 0
        command = [java, *self.jvm, *self.classes, "-cp", classpath]
        command += [f"-Dlog4j.configurationFile={HERE / 'log4j2.properties'}"]
        command += ["kafka.Kafka", str(self.folder / "server.properties")]
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", BECOME_JAVA, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches this process only, which stops the broker
            )
        return read_from

    def stop(self) -> None:
        """End the process by SIGTERM, which flushes and closes; use SIGKILL if that takes too long."""
        if self.process is not None and self.running:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reap()

    def kill(self) -> None:
        """End the process by SIGKILL; the next start recovers the data that was not flushed."""
        if self.process is not None and self.running:
            self.process.kill()
            self.killed = True
        self._reap()

    def restart(self) -> Self:
        """Stop the broker if it runs, and start it again on the same ports and data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Kill the process and remove its data."""
        self.kill()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def _reap(self) -> None:
        if self.process is not None:
            self.process.wait(STOP_SECONDS_MAX)
            self.process = None

    def _format(self, java: str, classpath: str) -> None:
        properties = self.write_properties()
        command = [java, SHORT_LIVED, "-XX:+UseSerialGC", *(self.classes or ()), "-cp", classpath]
        command += [f"-Dlog4j.configurationFile={HERE / 'log4j2.properties'}", "kafka.tools.StorageTool"]
        command += ["format", "--cluster-id", CLUSTER_ID, "--config", str(properties)]
        try:
            run = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FORMAT_SECONDS_MAX
            )
            output, failed = run.stdout + run.stderr, run.returncode != 0
        except subprocess.TimeoutExpired:
            output, failed = f"no end after {FORMAT_SECONDS_MAX:.0f} s", True
        if failed:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
            if TOO_OLD in output:
                raise BrokerUnavailableError(f"{java} is too old for Kafka 4: install Java 17 or newer")
            raise BrokerFailedError(f"the storage could not be formatted:\n{tail(output)}")

    def write_properties(self) -> Path:
        """Write server.properties; returns its path."""
        assert self.folder is not None
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        return properties

    def _properties(self) -> dict[str, str]:
        listeners = {
            "PLAINTEXT": self.port,
            "PROXIED": self.proxied_port,
            "CONTROLLER": self.controller_port,
        }
        advertised = {"PLAINTEXT": self.port, "PROXIED": self.proxy_port}
        own = {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
            "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in advertised.items()),
            "controller.quorum.voters": f"1@{HOST}:{self.controller_port}",
            "log.dirs": f"{self.folder}/data",
        }
        return {**SETTINGS, **(AFTER_KILL if self.killed else {}), **own, **self.settings}

    def wait_until_started(self, read_from: int) -> None:
        """Return when the log, from this point on, says that the process serves; kill the process if it never does."""
        try:
            self._wait(read_from)
        except BaseException:
            self.kill()
            raise

    def _wait(self, read_from: int) -> None:
        assert self.folder is not None
        log, deadline = self.folder / "broker.log", time.monotonic() + START_SECONDS_MAX
        while True:
            with log.open("rb") as lines:
                lines.seek(read_from)
                if STARTED in lines.read():
                    return
            if not self.running:
                assert self.process is not None
                code = self.process.returncode
                raise BrokerFailedError(f"Kafka ended with code {code} while starting:\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise BrokerFailedError(
                    f"Kafka did not start in {START_SECONDS_MAX:.0f} s, its log ends:\n{tail(self.log)}"
                )
            time.sleep(POLL_SECONDS)


def main(arguments: list[str] | None = None) -> int:
    """Run one broker in the foreground until Ctrl-C or SIGTERM, then remove its data."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=9092, help="port on 127.0.0.1 (default: %(default)s)")
    port = parser.parse_args(arguments).port
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as Ctrl-C does, through the clean-up below
    try:
        with contextlib.suppress(KeyboardInterrupt), Broker(port=port, lasting=True) as broker:
            sys.stdout.write(f"Apache Kafka {kafka_version()} serves at {broker.bootstrap}\n")
            sys.stdout.write(f"Log: {broker.folder}/broker.log. Ctrl-C stops it and removes its data.\n")
            sys.stdout.flush()
            assert broker.process is not None
            code = broker.process.wait()
            raise BrokerFailedError(f"Kafka ended by itself with code {code}:\n{tail(broker.log)}")
    except (BrokerUnavailableError, BrokerFailedError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
