"""Makes a transport on Kafka from the settings of a worker: options of the client, and limits derived from others."""

from __future__ import annotations

import logging

from neardup_workers.outside.settings.client_properties import Secrets
from neardup_workers.outside.settings.kafka import STEP_PART, StreamSettings
from neardup_workers.outside.transport.kafka.transport import KafkaSettings, KafkaTransport

# flush gives up at this fraction of the transaction timeout, so that the worker aborts the transaction, not the broker.
_FLUSH_FRACTION = 0.85
# Heartbeats in a session: two may be lost.
_HEARTBEATS = 3


def kafka_settings(settings: StreamSettings) -> KafkaSettings:
    """Derive the transport's settings; raises ``ConfigError``, and ``Failure`` if ``kafka_config`` cannot be read."""
    client, defaults = settings.client, KafkaSettings(settings.bootstrap_servers)
    session = client.session_timeout_seconds
    flush = min(defaults.flush_timeout_seconds, _FLUSH_FRACTION * client.transaction_timeout_seconds)
    return KafkaSettings(
        settings.bootstrap_servers,
        session_timeout_seconds=session,
        heartbeat_seconds=min(defaults.heartbeat_seconds, session / _HEARTBEATS),
        poll_interval_seconds_max=max(defaults.poll_interval_seconds_max, session),
        request_timeout_seconds=min(defaults.request_timeout_seconds, flush / 2),
        flush_timeout_seconds=flush,
        transaction_timeout_seconds=client.transaction_timeout_seconds,
        request_bytes_max=client.request_bytes_max,
        batch_bytes_max=settings.memory_max // STEP_PART,
        with_headers=settings.verdicts,  # a signer refuses what a filter could not send
        client_rack=settings.client_rack,
        client=client.options,
        secrets=Secrets(settings.kafka_config),
    )


def connect(settings: StreamSettings) -> KafkaTransport:
    """Make a transport, which holds no connection yet. The client's own log is silenced, because its errors reach the
    caller."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    return KafkaTransport(kafka_settings(settings))
