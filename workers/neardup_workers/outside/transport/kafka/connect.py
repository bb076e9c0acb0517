"""Makes a transport on Kafka from the settings of a worker: options of the client, and limits derived from others."""

from __future__ import annotations

import logging
from typing import Any

from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.transport.kafka.client_internals import check_client
from neardup_workers.outside.transport.kafka.transport import KafkaSettings, KafkaTransport

# Setting -> the client's option of the same meaning.
_SECURITY = {
    "security_protocol": "security_protocol",
    "sasl_mechanism": "sasl_mechanism",
    "sasl_username": "sasl_plain_username",
    "ssl_cafile": "ssl_cafile",
    "ssl_certfile": "ssl_certfile",
    "ssl_keyfile": "ssl_keyfile",
    "ssl_check_hostname": "ssl_check_hostname",
}
_SECRETS = {"sasl_password": "sasl_plain_password", "ssl_password": "ssl_password"}
# flush gives up at this fraction of the transaction timeout, so that the worker aborts the transaction, not the broker.
_FLUSH_FRACTION = 0.85
# Heartbeats in a session: two may be lost.
_HEARTBEATS = 3


def kafka_settings(settings: StreamSettings) -> KafkaSettings:
    """Derive the transport's settings; raises ``ConfigError``, and ``Failure`` for an unreadable file of a secret."""
    client: dict[str, Any] = {to: getattr(settings, name) for name, to in _SECURITY.items()}
    client |= {to: settings.secret(name) for name, to in _SECRETS.items()}
    defaults = KafkaSettings(settings.bootstrap_servers)
    session = settings.session_timeout_seconds
    flush = min(defaults.flush_timeout_seconds, _FLUSH_FRACTION * settings.transaction_timeout_seconds)
    return KafkaSettings(
        settings.bootstrap_servers,
        session_timeout_seconds=session,
        heartbeat_seconds=min(defaults.heartbeat_seconds, session / _HEARTBEATS),
        poll_interval_seconds_max=max(defaults.poll_interval_seconds_max, session),
        request_timeout_seconds=min(defaults.request_timeout_seconds, flush / 2),
        flush_timeout_seconds=flush,
        transaction_timeout_seconds=settings.transaction_timeout_seconds,
        request_bytes_max=settings.request_bytes_max,
        batch_bytes_max=settings.batch_bytes_max,
        fast_fetch=settings.fast_fetch,
        with_headers=settings.verdicts,  # a signer refuses what a filter could not send
        client={name: value for name, value in client.items() if value is not None},
    )


def connect(settings: StreamSettings) -> KafkaTransport:
    """Make a transport, which holds no connection yet. The client's own log is silenced, because its errors reach the
    caller.

    Raises ``ConfigError`` for an unsupported version of the installed client.
    """
    check_client()
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    return KafkaTransport(kafka_settings(settings))
