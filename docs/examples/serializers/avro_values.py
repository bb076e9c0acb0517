"""Values in Avro, as a producer with a schema registry writes them: neardup sign --set decode=avro_values:news

The schema here is a record of two strings, id and text. With fastavro or confluent-kafka, read the schema whose number
stands in front, once, and return schemaless_reader(io.BytesIO(value[5:]), schema).
"""


def news(value: bytes) -> dict[str, str]:
    """Return the document of a value: a zero, four bytes with the number of its schema, then the record."""
    if value[:1] != b"\0":
        raise ValueError("no schema stands before the value")
    id_, at = _string(value, 5)
    text, at = _string(value, at)
    return {"id": id_, "text": text}


def _string(value: bytes, at: int) -> tuple[str, int]:
    """Return the string at an offset, and the offset behind it; its length is a zigzag number, seven bits a byte."""
    number = shift = 0
    while True:
        byte, at = value[at], at + 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    end = at + (number >> 1)
    if end > len(value):
        raise ValueError("the value ends inside a string")
    return value[at:end].decode(), end
