"""Values in envelopes: neardup sign --set decode=envelope_values:document

Connect puts a schema before the record, {"schema": ..., "payload": ...}; Debezium puts the row before and after a
change, {"before": ..., "after": ..., "op": ...}, with or without a schema. The fields of the record are those of the
document, or --fields says which are. A deletion has no row after it: its value is refused, and the tombstone behind it
removes the document whose id is the key of the message.
"""

import json
from typing import Any


def document(value: bytes) -> dict[str, Any]:
    """Return the record of a value: what an envelope holds, or the value itself."""
    record: Any = json.loads(value)
    if record.keys() == {"schema", "payload"}:
        record = record["payload"]
    if {"after", "op"} <= record.keys():
        record = record["after"]
    if not isinstance(record, dict):
        raise ValueError("there is no row after a deletion")
    return record
