"""Messages of a matcher's step: pairs and removals for ``candidates``, pairs by place and progress for ``links``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from neardup.schemes.config import Config
from neardup_workers.doing.stages.matching.plan import MatchPlan
from neardup_workers.doing.stages.matching.shard_table import Applied
from neardup_workers.outside.topics.links import NO_LINKS, LinkMessage, encode_links, join_links
from neardup_workers.outside.topics.messages import encode_candidates, encode_removal, partition_of_key
from neardup_workers.outside.transport.protocol import Message


def pair_messages(applied: Applied, shard: int, plan: MatchPlan) -> list[Message]:
    """Return the messages of a slice for ``candidates``, in order of its rows.

    Every shard reads a removal; the shard of the hash of its id publishes it.
    """
    topic, partitions = plan.topics.candidates, plan.candidate_partitions
    out = list(zip(applied.items.tolist(), encode_candidates(applied.matches, plan.envelope), strict=True))
    own = [removal for removal in applied.removed if partition_of_key(removal[1], plan.shards) == shard]
    out += [(row, encode_removal(id_, plan.envelope, separate=plan.config.separate)) for row, id_ in own]
    out.sort(key=lambda entry: entry[0])
    return [Message(topic, partition_of_key(key, partitions), value, key) for _, (key, value) in out]


def link_messages(
    done: Sequence[tuple[int, Applied]], progress: Mapping[int, tuple[int, int]], config: Config, topic: str
) -> Iterator[Message]:
    """Make the messages of each shard that has moved: its pairs, then its progress."""
    for shard, (first, end) in progress.items():
        parts = [applied.links for other, applied in done if other == shard]
        links = join_links(parts) if parts else NO_LINKS
        for value in encode_links(LinkMessage(links, first, end), config.signing_fingerprint):
            yield Message(topic, shard, value)
