"""Values in Protobuf, as a producer with a schema registry writes them: neardup sign --set decode=protobuf_values:news

It needs pip install 'confluent-kafka[protobuf,schemaregistry]', and news_pb2, which protoc makes of news.proto:

    syntax = "proto3";
    message News { string id = 1; string text = 2; }

Fields have numbers, so no schema is read from the registry: a field that a newer producer writes is left out here. If
values are encrypted or have rules, the third argument of the deserializer is a SchemaRegistryClient.
"""

from typing import Any

from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from google.protobuf.json_format import MessageToDict
from news_pb2 import News

_read = ProtobufDeserializer(News, {"use.deprecated.format": False})


def news(value: bytes) -> dict[str, Any]:
    """Return the document of a value: a zero, the number of its schema, which message it is, then its fields."""
    document: dict[str, Any] = MessageToDict(_read(value), preserving_proto_field_name=True)
    return document
