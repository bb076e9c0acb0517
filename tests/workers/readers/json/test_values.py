"""Values of messages that serializers write around JSON, and a function for other formats."""

from __future__ import annotations

import gzip
import json
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from shell_harness import TEXT, Bench

from neardup.errors import ConfigError
from neardup_workers.outside.readers.json.values import ValueReader, decode_of

LINE = json.dumps({"id": "a", "text": TEXT}).encode()
_FORMS = {
    "plain": LINE,
    "registry": b"\x00" + struct.pack(">I", 7) + LINE,
    "mark": b"\xef\xbb\xbf" + LINE,
    "gzip": gzip.compress(LINE),
    "gzip of registry": gzip.compress(b"\x00" + struct.pack(">I", 7) + LINE),
}


@pytest.mark.parametrize("form", _FORMS)
def test_what_stands_around_json_is_taken_off(form: str) -> None:
    """In each form the value is the same line."""
    assert ValueReader(1_000).read(_FORMS[form]) == LINE


@pytest.mark.parametrize(
    "value", [b"", b"\x00", b"\x00\x00\x00\x00\x07\x02a", b"\x1f\x8b", b"\x1f\x8bx", b"{", b"\xef"]
)
def test_other_values_stay_as_they_are(value: bytes) -> None:
    """They are refused as what they are."""
    assert ValueReader(1_000).read(value) == value


def test_a_value_that_unpacks_to_too_much_stays_packed() -> None:
    """A bomb takes no more memory than its limit; one byte less is read."""
    packed = gzip.compress(bytes(1_001))
    assert ValueReader(1_000).read(packed) == packed
    assert ValueReader(1_001).read(gzip.compress(b" " * 1_001)) == b" " * 1_001


def _pairs_of(bench: Bench, documents: int) -> list[tuple[str, str]]:
    bench.sign(documents)
    bench.match(1)
    return bench.pairs()


def test_documents_in_all_forms_find_each_other() -> None:
    """And a letter has the value as it came."""
    bench = Bench()
    topics = bench.names.topics
    for n, form in enumerate(("registry", "mark", "gzip")):
        value = _FORMS[form].replace(b'"a"', b'"b"') if form != "gzip" else gzip.compress(LINE.replace(b'"a"', b'"c"'))
        bench.cluster.append(topics.documents, 0, value, b"%d" % n)
    bench.sign(3)
    bench.match(1)
    assert ("b", "c") in bench.pairs()
    bench.cluster.append(topics.documents, 0, b"\x00\x00\x00\x00\x07\x02a", b"avro")
    bench.run("sign", lambda: bench.metrics["sign"].value("refused", "not_json") >= 1)


def test_a_function_reads_avro_as_the_example_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example; what it cannot read is a letter with a reason of its own."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[4] / "docs/examples/serializers"))
    bench = Bench(decode="avro_values:news")
    for id_ in ("a", "b"):
        texts = b"".join(
            bytes([2 * len(one) % 128 | 128, 2 * len(one) // 128]) + one for one in (id_.encode(), TEXT.encode())
        )
        bench.cluster.append(bench.names.topics.documents, 0, b"\x00\x00\x00\x00\x07" + texts, id_.encode())
    assert _pairs_of(bench, 2) == [("a", "b")]
    bench.cluster.append(bench.names.topics.documents, 0, LINE, b"json")
    bench.run("sign", lambda: bench.metrics["sign"].value("refused", "not_decoded") >= 1)


def test_a_function_reads_protobuf_as_the_example_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are those of the serializer of confluent-kafka, with a registry in memory; a field that the class does
    not know is left out, and what is not Protobuf is a letter."""
    pytest.importorskip(
        "confluent_kafka.schema_registry.protobuf", exc_type=ImportError,
        reason="it needs pip install 'confluent-kafka[protobuf,schemaregistry]'",
    )  # fmt: skip
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    monkeypatch.setitem(sys.modules, "news_pb2", SimpleNamespace(News=_message("id", "text")))
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[4] / "docs/examples/serializers"))
    bench, newer = Bench(decode="protobuf_values:news"), _message("id", "text", "desk")
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    serialize = ProtobufSerializer(newer, registry, {"use.deprecated.format": False})
    topic = bench.names.topics.documents
    for id_ in ("a", "b"):
        value = serialize(newer(id=id_, text=TEXT, desk="city"), SerializationContext(topic, MessageField.VALUE))
        bench.cluster.append(topic, 0, value, id_.encode())
    assert _pairs_of(bench, 2) == [("a", "b")]
    bench.cluster.append(topic, 0, LINE, b"json")
    bench.run("sign", lambda: bench.metrics["sign"].value("refused", "not_decoded") >= 1)


def test_a_function_reads_envelopes_as_the_example_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Connect and Debezium, one in the other, and a bare record; a deletion is a letter, and its tombstone
    removes the document of its key."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[4] / "docs/examples/serializers"))
    bench = Bench(decode="envelope_values:document")
    changed = lambda id_: {"before": None, "after": {"id": id_, "text": TEXT}, "op": "c", "ts_ms": 1}  # noqa: E731
    values: list[Any] = [
        {"schema": {"type": "struct"}, "payload": {"id": "a", "text": TEXT}}, changed("b"),
        {"schema": None, "payload": changed("c")}, {"id": "d", "text": TEXT},
    ]  # fmt: skip
    for id_, value in zip("abcd", values, strict=True):
        bench.cluster.append(bench.names.topics.documents, 0, json.dumps(value).encode(), id_.encode())
    assert _pairs_of(bench, 4) == [("a", "b"), ("b", "c"), ("c", "d")]
    deleted = {"before": {"id": "d", "text": TEXT}, "after": None, "op": "d"}
    bench.cluster.append(bench.names.topics.documents, 0, json.dumps(deleted).encode(), b"d")
    bench.cluster.append(bench.names.topics.documents, 0, None, b"d")
    bench.run("sign", lambda: bench.metrics["sign"].value("removals") >= 1)
    assert bench.metrics["sign"].value("refused", "not_decoded") == 1


def _message(*fields: str) -> Any:
    """The class that protoc makes of a message News with these strings."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="news.proto", syntax="proto3")
    message, string = file.message_type.add(name="News"), descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    for number, name in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=string)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("News"))


@pytest.mark.parametrize("path", ["no_such_module:f", "json:no_such_function", "json:__name__", "json", ""])
def test_a_function_that_is_none_is_refused_at_the_start(path: str) -> None:
    """With the name, the cause and the form."""
    with pytest.raises(ConfigError, match=f"^decode='{path}' "):
        decode_of(path)
