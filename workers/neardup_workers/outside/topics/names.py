"""Names of the topics, groups and workers of a deployment.

All names contain ``topic_prefix``, ``group`` or the generation, so that two deployments, or two generations of one, can
share a cluster. The group of a role is ``{topic_prefix}{group}-{role}-{generation}``. The member and the transactional
id of a worker are ``{its group}-{instance}``, and stay the same after every restart.
"""

from __future__ import annotations

from typing import NamedTuple

import mmh3

from neardup_workers.outside.settings.kafka import StreamSettings

# The roles of workers.
ROLES = SIGN, MATCH, LINK, FILTER = "sign", "match", "link", "filter"


class Topics(NamedTuple):
    """Names of the topics of one deployment."""

    documents: str
    dead: str
    signed: str
    candidates: str
    links: str
    verdicts: str
    clusters: str
    originals: str
    sources: str
    unique: str
    settings: str


def generation(signing_fingerprint: str, shards: int) -> str:
    """Return the name of a generation: 12 hexadecimal digits of all settings that decide a key and its shard."""
    return mmh3.mmh3_x64_128_digest(f"{signing_fingerprint}/{shards}".encode()).hex()[:12]


def topic_names(prefix: str, made: str) -> Topics:
    """Return the topics of a prefix; those of one generation have its name in theirs."""
    signed, links, verdicts, clusters, originals, sources = (
        f"{prefix}{name}-{made}" for name in ("signed", "links", "verdicts", "clusters", "originals", "sources")
    )
    documents = f"{prefix}documents"
    dead, candidates, unique = f"{documents}.dead", f"{prefix}candidates", f"{documents}.unique"
    settings = f"{prefix}settings"
    return Topics(documents, dead, signed, candidates, links, verdicts, clusters, originals, sources, unique, settings)


def generation_header(made: str) -> tuple[str, bytes]:
    """Return the header of verdicts and of accepted documents that names the generation that decided them."""
    return "neardup-generation", made.encode()


class Names(NamedTuple):
    """Names of one generation of a deployment."""

    topics: Topics
    generation: str
    prefix: str

    def group(self, role: str) -> str:
        """Return the consumer group of a role."""
        return f"{self.prefix}-{role}-{self.generation}"

    def worker(self, role: str, instance: str) -> str:
        """Return the member and transactional id of a worker."""
        return f"{self.group(role)}-{instance}"


def names_of(settings: StreamSettings, made: str | None = None) -> Names:
    """Return the names that follow from settings, or those of another generation of the same deployment."""
    made = made or generation(settings.signing_fingerprint, settings.shards)
    return Names(topic_names(settings.topic_prefix, made), made, f"{settings.topic_prefix}{settings.group}")
