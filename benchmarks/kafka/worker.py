"""A process of a measurement: ``python -m benchmarks.kafka.worker sign|match|link SETTINGS PARTITIONS``, or ``produce
SETTINGS COUNT SEED RATE``.

A worker reports that it is ready when it reads the records of so many partitions, one record a step. After a line on
standard input it reads as many as it can, until standard input ends. ``produce`` reports when its documents are made,
waits for a line, sends COUNT of them at RATE a second, each with the time of sending, and ends.
"""

from __future__ import annotations

import json
import select
import sys
import time

from kafka import KafkaProducer

from benchmarks.kafka.deploy import Tally, values
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.process.interpreter import settle
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.topics.messages import partition_of_key
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.running.service.roles import ROLES, wait_seconds

_JOIN_TURN_SECONDS = 0.05


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _line_waits() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def work(role_name: str, settings: StreamSettings, partitions: int) -> None:
    """One worker, without its shell: an error ends the process."""
    role, names, tally = ROLES[role_name], names_of(settings), Tally()
    name = names.worker(role.name, settings.instance)
    role.warm(settings)
    transport = connect(settings)
    producer = transport.producer(name)
    consumer = transport.consumer(role.topic(names.topics), names.group(role.name), name)
    worker = role.make(WorkerMember(transport, consumer, producer, tally), settings, LIMITS).worker
    said = False
    settle()
    while not _line_waits():
        worker.turn(_JOIN_TURN_SECONDS, 1)
        if not said and worker.ready and len(worker.running) == partitions:
            said = True
            _say({"ready": True})
    sys.stdin.readline()
    done = int(tally.sums.get("documents", 0))
    _say([time.monotonic(), done, time.process_time()])
    wait = wait_seconds(role, LIMITS)
    while not _line_waits():
        started = time.monotonic()
        taken = worker.turn(wait, role.records_max(LIMITS))
        wait = wait_seconds(role, LIMITS, wait, time.monotonic() - started)
        before, done = done, int(tally.sums.get("documents", 0))
        if taken or done > before:  # a linker may decide what it has read before
            _say([time.monotonic(), done, time.process_time()])
    producer.close()
    consumer.close()
    transport.close()
    _say({"stages": tally.stages(), "transactions": tally.sums.get("transactions committed", 0)})


def produce(settings: StreamSettings, count: int, seed: int, rate: float) -> None:
    """Send documents at a steady rate with a plain producer; report the delay if it falls behind."""
    topic = names_of(settings).topics.documents
    client = KafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, linger_ms=5, batch_size=256 << 10, compression_type="lz4",
        max_request_size=settings.client.request_bytes_max,
    )  # fmt: skip
    made = list(values(count, seed, lambda: 0.0))
    client.partitions_for(topic)
    _say({"ready": True})
    sys.stdin.readline()
    started, behind = time.monotonic(), 0.0
    for i, (key, value) in enumerate(made):
        late = time.monotonic() - (started + i / rate)
        behind = max(behind, late)
        if late < -0.001:
            time.sleep(-late)
        stamped = value[:-4] + b"%.6f}" % time.time()  # in place of the 0.0 at its end
        client.send(topic, stamped, key=key, partition=partition_of_key(key, settings.documents_partitions))
    client.flush(timeout=60)
    client.close()
    _say({"seconds": time.monotonic() - started, "behind": behind, "processor": time.process_time()})


def main() -> None:
    """Run the process that the arguments name."""
    what, settings = sys.argv[1], load_stream(json.loads(sys.argv[2]))
    if what == "produce":
        count, seed, rate = sys.argv[3:]
        produce(settings, int(count), int(seed), float(rate))
    else:
        work(what, settings, int(sys.argv[3]))


if __name__ == "__main__":
    main()
