"""Batches on a real broker: every codec, contents far larger than their batch, polls with a bound in bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import KafkaProducer
from kafka_harness import KafkaHarness
from kafka_steps import publish, visible
from kafka_world import World, stories
from make_topic import MakeTopic

from neardup_workers.outside.topics.names import MATCH, SIGN
from neardup_workers.outside.transport.kafka import records as kafka_records

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_of_kafka_is_read(
    bootstrap_servers: str, make_topic: MakeTopic, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker itself compresses the records of the topic, with the libraries of the Java clients."""
    seen = []
    unpack = kafka_records.unpack

    def unpacked(number: int, data: bytes, bytes_max: int) -> bytes:
        seen.append(number)
        return unpack(number, data, bytes_max)

    monkeypatch.setattr(kafka_records, "unpack", unpacked)
    harness = KafkaHarness(bootstrap_servers, make_topic, compression=None)
    topic, values = make_topic("packed", compression_type=codec), [b"%d " % number * 9_000 for number in range(40)]
    transport = harness.transport()
    publish(transport, topic, values)
    harness.wait_until(lambda: visible(transport, topic) == values, "all values are read")
    harness.close()
    assert set(seen) == {CODECS[codec]}


def test_a_batch_that_unpacks_to_too_much_is_a_dead_letter_and_the_signer_goes_on(
    worlds: Callable[..., World], bootstrap_servers: str
) -> None:
    """A batch of some kilobytes holds ten documents of 400 kB; the documents around it are signed and matched."""
    world = worlds(quick={"batch_bytes_max": 2 << 20}, documents_partitions=1)
    signer, matcher = world.place(SIGN), world.place(MATCH)
    good = stories(20)
    world.load(good[:10])
    value = b'{"id": "large", "text": "%s"}' % (b"a b " * 100_000)
    with KafkaProducer(
        bootstrap_servers=bootstrap_servers, compression_type="gzip", batch_size=16 << 20, linger_ms=60_000
    ) as producer:
        sent = [producer.send(world.topics.documents, value, partition=0) for _ in range(10)]
        producer.flush()
    offsets = [future.get().offset for future in sent]
    world.load(good[10:])
    world.settle()
    assert (signer.endings, matcher.endings) == ([], [])
    [letter] = world.letters()
    assert (letter["reason"], letter["topic"], letter["partition"]) == ("batch_too_large", world.topics.documents, 0)
    assert (letter["offset"], letter["offset_last"]) == (offsets[0], offsets[-1])
    assert letter["batch_bytes"] < 50_000
    assert world.pairs() == world.expected(good)


def test_a_poll_takes_no_more_bytes_than_it_may(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    """Small records come first, so their size does not predict the size of later records."""
    harness = KafkaHarness(bootstrap_servers, make_topic)
    transport, topic = harness.transport(), make_topic("sizes")
    publish(transport, topic, [b"small"] * 50)
    publish(transport, topic, [b"large" * 20_000] * 50)
    consumer = transport.consumer(topic, harness.name("group"), "one")
    sizes: list[int] = []

    def poll() -> int:
        polled = consumer.poll(0.5, 1_000, 200_000)
        for partition in polled.assigned:
            consumer.seek(partition, 0)
        consumer.resume(polled.assigned)
        sizes.append(sum(len(record.value or b"") for record in polled.records))
        return sum(sizes)

    harness.wait_until(lambda: poll() >= 50 * 100_005 - 50, "all is read")
    assert max(sizes) < 200_000 + 100_000
    harness.close()


def test_a_poll_with_enough_bytes_waits_for_no_other_fetch(
    bootstrap_servers: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll may take an hour and more records than there are; without the rule it would take the hour."""
    monkeypatch.setattr("neardup_workers.outside.transport.kafka.consumer._FILLED_BYTES", 100_000)
    harness = KafkaHarness(bootstrap_servers, make_topic)
    transport, topic = harness.transport(), make_topic("filled")
    publish(transport, topic, [b"large" * 20_000] * 3)
    consumer = transport.consumer(topic, harness.name("group"), "one")
    harness.wait_until(lambda: bool(consumer.poll(0.1, 1).assigned), "the partition is assigned")
    consumer.seek(0, 0)
    consumer.resume([0])
    assert 1 <= len(consumer.poll(3_600, 1_000).records) <= 3
    harness.close()
