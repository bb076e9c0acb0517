"""The position of a filter, and how a filter continues where the filters of another generation stopped.

Both generations decide the documents of one topic, each in a topic of verdicts of its own. So a position in one of the
two says nothing about the other; the offset in ``documents`` is common to both. A filter commits it with its position.
The filter that follows begins at its own first verdict, and skips the verdicts below this offset.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from neardup.errors import ConfigError
from neardup_workers.doing.stages.starts import decoded_metadata
from neardup_workers.outside.topics.names import FILTER, Names
from neardup_workers.outside.transport.protocol import Committed, OffsetGoneError, Transport

_METADATA_VERSION = 2


class FilterMetadata(NamedTuple):
    """The position of a filter in a partition, in addition to the offset of a record of verdicts.

    ``row``: number of processed verdicts of that record. ``document``: offset in ``documents`` behind the last
    processed verdict, if it is known. ``follows``: the filter continues there, and has processed nothing yet.
    """

    row: int
    document: int | None = None
    follows: bool = False


def encode_metadata(metadata: FilterMetadata) -> str:
    """Return the metadata of a committed offset."""
    fields: dict[str, Any] = {"version": _METADATA_VERSION, "row": metadata.row}
    if metadata.document is not None:
        fields["document"] = metadata.document
    if metadata.follows:
        fields["follows"] = True
    return orjson.dumps(fields).decode()


def decode_metadata(committed: Committed) -> FilterMetadata:
    """Return the position; raises ``ConfigError`` for metadata of another program."""
    with decoded_metadata(committed.metadata, _METADATA_VERSION, "filter") as fields:
        document = fields.get("document")
        return FilterMetadata(
            int(fields["row"]), None if document is None else int(document), bool(fields.get("follows"))
        )


def positions_after(transport: Transport, before: Names) -> dict[int, FilterMetadata]:
    """Return where the filters of another generation stopped, by partition.

    Raises ``ConfigError`` if there were none, if they still work, or if they are of a version that does not commit the
    offset.
    """
    group = before.group(FILTER)
    committed = transport.group_offsets(group, before.topics.verdicts)
    if not committed:
        raise ConfigError(
            f"no filter has worked in group {group}, so there is nothing to follow: "
            "neardup topics describe with the settings of that generation prints its name"
        )
    members = transport.members(group)
    if members:
        raise ConfigError(
            f"{members} filters of generation {before.generation} still work, and both would forward the same "
            f"documents: stop the members of group {group}, then start this filter again"
        )
    positions = {partition: decode_metadata(at) for partition, at in committed.items()}
    unknown = sorted(s for s, at in positions.items() if at.document is None and at.row)
    if unknown:
        raise ConfigError(
            f"filters of generation {before.generation} have not committed where they are in partitions {unknown} of "
            f"{before.topics.documents}: run them with this version until each has forwarded a document, then stop them"
        )
    return {partition: FilterMetadata(0, at.document, at.document is not None) for partition, at in positions.items()}


def check_follows(transport: Transport, topic: str, partition: int, document: int, first: int) -> None:
    """Raise ``OffsetGoneError`` if documents from the offset ``document`` on, before the first verdict, have no
    verdict of this generation."""
    for records in transport.read(topic, partition, document, first) if document < first else ():
        if records:
            raise OffsetGoneError(
                f"the verdicts of partition {partition} begin at offset {first} of {topic}, and the filters before "
                f"stopped at {document}: the documents between would be lost; let those filters work until they are "
                "behind that offset, or go on without these documents with --allow-gap"
            )
