"""The messages of a matcher's step for ``links``: its pairs by place, and the progress of its completed messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from neardup.stream.config import Config
from neardup.workers.stages.partition_table import Applied
from neardup.workers.stages.transaction import Message
from neardup.workers.topics.links import LinkMessage, Links, encode_links, join_links


def link_messages(done: Sequence[tuple[int, Applied]], config: Config, topic: str) -> Iterator[Message]:
    """Make the messages of each partition of ``bands``; pairs with a document without a place are omitted."""
    for partition in dict.fromkeys(partition for partition, _ in done):
        parts = [applied for other, applied in done if other == partition]
        links = join_links([applied.links for applied in parts])
        placed = links.at((links.ones >= 0) & (links.others >= 0))
        message = LinkMessage(placed, np.concatenate([applied.progress for applied in parts]))
        for value in encode_links(message, config.signing_fingerprint):
            yield Message(topic, partition, value)


def unplaced(links: Links) -> int:
    """Return the number of pairs with a document without a place, which was signed before messages carried places."""
    return int(np.count_nonzero((links.ones < 0) | (links.others < 0)))
