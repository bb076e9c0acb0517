"""Names of settings of a released version that were removed, with the new way. Every source of settings refuses them by
this sentence.

An import of this module loads no model of settings, so the command line can read the table.
"""

from __future__ import annotations

from neardup.schemes.removed import REMOVED as OPTIONS

_PROPERTY = "write {} into a file in the form of Kafka's client.properties, and name it with --kafka-config"
# Name of a setting, as it stands in the environment and the file -> what to do instead, as the end of a sentence.
REMOVED: dict[str, str] = {
    **OPTIONS,
    "scheme_options": "give the options with the scheme, as in --scheme records:keys=email",
    # How input is read.
    "collection_field": "give --fields collection=NAME",
    "follow_seconds": "--follow looks for more five times a second",
    "hidden": "name a file whose name begins with a dot to read it",
    "html_field": "give --fields html=NAME",
    "html_memory_bytes": "a process that extracts texts has 2 GiB",
    "html_processes": "give --sign-threads N, which also bounds the processes that extract texts",
    "html_seconds": "the extraction of a page is given up after 10 seconds",
    "id_field": "give --fields id=NAME",
    "judged": "neardup calibrate FILE --documents SAMPLE proposes a threshold of each signal",
    "reports_max": "give --rejects FILE for all refusals",
    "text_field": "give --fields text=NAME",
    "timestamp_field": "give --fields time=NAME",
    "tokens_field": "give --fields tokens=NAME",
    "vector_field": "give --fields vector=NAME",
    "walk_reports_max": "give --rejects FILE for all refusals",
    # The service.
    "ahead_seconds": "with --clock event a timestamp may lie 300 seconds ahead",
    "batch_lines_max": "a batch has at most 10,000 lines",
    "body_bytes_max": "a request has at most 32 MiB; send a batch in parts",
    "body_seconds_max": "a client has 30 seconds to send a request",
    "event_readers_max": "at most 64 clients read /v1/events",
    "queue_documents_max": "at most 20,000 documents wait",
    "tls_certfile": "give --set tls=CERTIFICATE,KEY, or one file that holds both",
    "tls_keyfile": "give --set tls=CERTIFICATE,KEY, or one file that holds both",
    "verdict_seconds_max": "a request waits 10 seconds for its verdict, then it is answered by 202",
    # Feeds.
    "feed_items_max": "10,000 items of a feed are remembered",
    "fetch_bytes_max": "an answer has at most 8 MiB, unpacked",
    "fetch_seconds_max": "an answer takes at most 30 seconds, with all its redirects",
    "metrics_port": "give --health-port PORT",
    "parse_seconds_max": "the reading of a feed takes at most 20 seconds",
    "redirects_max": "a request follows at most five redirects",
    "user_agent": "requests name the program as neardup/VERSION, and contact behind it",
    # Topics.
    "candidates_partitions": "candidates has documents_partitions partitions; alter the topic for others",
    "min_insync_replicas": "it is two, or one where replication_factor is one; alter the topics for another number",
    "retention_margin_seconds": "it is a day; signed has no retention by time unless you alter the topic",
    # Workers.
    "commit_interval_ms": "a signer commits every 200 milliseconds, other roles every 50",
    "leave_group": "a worker that is stopped leaves its group; with standbys others take over at once",
    "skew_seconds": "the time of a document may lie 300 seconds ahead of its message's",
    "stall_seconds_max": "a worker that makes no progress ends itself after two minutes",
    "step_bytes_max": "it is an eighth of memory_max",
    "step_documents_max": "a step has at most 5,000 documents, and an eighth of memory_max",
    "step_messages_max": "a step has at most an eighth of memory_max",
    "step_pairs_max": "a step has about 20,000 pairs at most",
    "trim_interval_seconds": "matchers drop what has left the windows once a minute",
    "turn_seconds_max": "a step that lasts two minutes ends the process",
    "undecided_max": "a document that waits takes 128 bytes, and all of them a quarter of memory_max",
    # The connection.
    "batch_bytes_max": "it is an eighth of memory_max",
    "fast_fetch": "records are always read by our own compiled code",
    "security_protocol": _PROPERTY.format("security.protocol"),
    "sasl_mechanism": _PROPERTY.format("sasl.mechanism"),
    "sasl_username": _PROPERTY.format("sasl.username"),
    "sasl_password": _PROPERTY.format("sasl.password"),
    "sasl_password_file": _PROPERTY.format("sasl.password"),
    "ssl_cafile": _PROPERTY.format("ssl.ca.location"),
    "ssl_certfile": _PROPERTY.format("ssl.certificate.location"),
    "ssl_keyfile": _PROPERTY.format("ssl.key.location"),
    "ssl_password": _PROPERTY.format("ssl.key.password"),
    "ssl_password_file": _PROPERTY.format("ssl.key.password"),
    "ssl_check_hostname": _PROPERTY.format("ssl.endpoint.identification.algorithm"),
    "request_bytes_max": _PROPERTY.format("max.request.size"),
    "session_timeout_seconds": _PROPERTY.format("session.timeout.ms"),
    "transaction_timeout_seconds": _PROPERTY.format("transaction.timeout.ms"),
}


def removal(name: str, origin: str) -> str | None:
    """Return the sentence that refuses a removed setting, or ``None`` for any other name.

    Args:
        name: The setting as the user wrote it: ``log_format``, ``NEARDUP_LOG_FORMAT``, ``--log-format`` or
            ``--no-log-format``.
        origin: Where it was found, such as ``the environment``.
    """
    plain = name.lstrip("-").replace("-", "_").lower().removeprefix("neardup_")
    found = next((one for one in (plain, plain.removeprefix("no_")) if one in REMOVED), None)
    return None if found is None else f"{name} in {origin} no longer exists: {REMOVED[found]}"
