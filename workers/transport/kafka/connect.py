"""From the settings to a transport on Kafka: which option of the client each one is, and the waits that follow."""

from __future__ import annotations

import logging
from typing import Any

from workers.settings.kafka import StreamSettings
from workers.transport.kafka.client_internals import check_client
from workers.transport.kafka.connection_errors import listen
from workers.transport.kafka.transport import KafkaSettings, KafkaTransport

# Settings that pass through -> what the client calls them.
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
# The flush gives up this much before the broker ends the transaction, so that the worker is the one to abort it.
_FLUSH_SHARE = 0.85
# Heartbeats in a session: two may be lost.
_HEARTBEATS = 3


def kafka_settings(settings: StreamSettings) -> KafkaSettings:
    """The transport's settings; raises ``ConfigError``, and ``Failure`` for a file of a secret."""
    client: dict[str, Any] = {to: getattr(settings, name) for name, to in _SECURITY.items()}
    client |= {to: settings.secret(name) for name, to in _SECRETS.items()}
    defaults = KafkaSettings(settings.bootstrap_servers)
    session = settings.session_timeout_seconds
    flush = min(defaults.flush_timeout_seconds, _FLUSH_SHARE * settings.transaction_timeout_seconds)
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
        client={name: value for name, value in client.items() if value is not None},
    )


def connect(settings: StreamSettings) -> KafkaTransport:
    """Make a transport, which holds no connection yet. The client's own log is silenced: its errors come to us.

    Raises ``ConfigError`` for an installed client that this transport was not written for.
    """
    check_client()
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    listen()
    return KafkaTransport(kafka_settings(settings))
