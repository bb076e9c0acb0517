"""What a deployment calls its topics, its groups and its workers.

All that a deployment calls its own follows from ``topic_prefix``, ``group`` and the generation, so that two
deployments, or two generations of one, can share a cluster: a role's group is
``{topic_prefix}{group}-{role}-{generation}``, and a worker is ``{its group}-{instance}`` to the group and to the
transactions, the same after every restart.
"""

from __future__ import annotations

from typing import NamedTuple

import mmh3

from workers.settings.kafka import StreamSettings

# The roles of workers.
SIGN, MATCH = "sign", "match"


class Topics(NamedTuple):
    """Names of the topics of one deployment."""

    documents: str
    dead: str
    bands: str
    candidates: str


def generation(signing_fingerprint: str, partitions: int) -> str:
    """The name of all that decides where a key goes and what it is: 12 hexadecimal digits."""
    return mmh3.mmh3_x64_128_digest(f"{signing_fingerprint}/{partitions}".encode()).hex()[:12]


def topic_names(prefix: str, signing_fingerprint: str, partitions: int) -> Topics:
    """The topics below a prefix; that of the bands names its generation."""
    bands = f"{prefix}bands-{generation(signing_fingerprint, partitions)}"
    return Topics(f"{prefix}documents", f"{prefix}documents.dead", bands, f"{prefix}candidates")


class Names(NamedTuple):
    """What one deployment, and one generation of it, calls its own."""

    topics: Topics
    generation: str
    prefix: str

    def group(self, role: str) -> str:
        """The consumer group of a role."""
        return f"{self.prefix}-{role}-{self.generation}"

    def worker(self, role: str, instance: str) -> str:
        """The member and the transactional id of one worker."""
        return f"{self.group(role)}-{instance}"


def names_of(settings: StreamSettings) -> Names:
    """The names that settings lead to."""
    fingerprint, partitions = settings.signing_fingerprint, settings.bands_partitions
    return Names(
        topic_names(settings.topic_prefix, fingerprint, partitions),
        generation(fingerprint, partitions),
        f"{settings.topic_prefix}{settings.group}",
    )
