"""The bounds of a table, from a configuration."""

from __future__ import annotations

from neardup.pairs.batches import MICROSECONDS
from neardup.schemes.config import Config
from neardup.schemes.interface import AnyScheme
from neardup.window import NO_LIMIT, NO_WINDOW, Limits


def table_limits(config: Config, scheme: AnyScheme) -> Limits:
    """The bounds of a table, from a configuration: seconds become microseconds. An exact scheme cuts no bucket."""
    window = NO_WINDOW if config.window_seconds is None else round(config.window_seconds * MICROSECONDS)
    return Limits(
        window=int(window),
        lateness=round(config.lateness_seconds * MICROSECONDS),
        items=config.window_documents,
        bytes=config.evidence_bytes_max,
        bucket_candidates=config.window_documents if scheme.exact else config.bucket_candidates_max,
        probe_candidates=config.probe_limit or NO_LIMIT,
        copies=config.window_documents if scheme.exact else config.bucket_candidates_max,
        by_content=scheme.by_content,
        admit_ratio=config.threshold,
        counted=scheme.has_payloads,
    )
