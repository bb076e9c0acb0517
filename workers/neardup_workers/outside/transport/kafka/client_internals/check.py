"""The names inside kafka-python that this package uses, and a check of the installed version against them."""

from __future__ import annotations

from inspect import signature
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer

from neardup.errors import ConfigError

TESTED_VERSION = "3.0.12"


def _remedy(what: str) -> str:
    return (
        f"kafka-python {kafka.__version__} {what}, which neardup relies on: install kafka-python=={TESTED_VERSION}, the"
        " version that is tested"
    )


try:
    from kafka.cluster import ClusterMetadata
    from kafka.consumer.fetcher import Fetcher
    from kafka.coordinator.base import BaseCoordinator, MemberState
    from kafka.net.compat import KafkaNetClient
    from kafka.net.connection import KafkaConnection
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.sasl.oauth import AbstractTokenProvider
    from kafka.net.selector import NetworkSelector
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
    from kafka.producer.future import FutureProduceResult
    from kafka.producer.producer_batch import ProducerBatch
    from kafka.producer.record_accumulator import AtomicInteger, RecordAccumulator
    from kafka.producer.sender import Sender
    from kafka.producer.transaction_manager import TransactionalRequestResult, TransactionManager
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecordsBuilder
except ImportError as error:
    raise ConfigError(_remedy(f"has no {error.name}")) from error

# Owner -> names that this package reads, sets or replaces; calls have the parameters that it passes.
NEEDED: dict[Any, tuple[str, ...]] = {
    KafkaNetClient: ("__init__(net, manager)",),
    NetworkSelector: ("run(coro)", "sleep(delay)"),
    KafkaConnection: ("init_future",),
    KafkaConnectionManager: (
        "_build_transport(node, timeout_at)",
        "_do_bootstrap(deadline)",
        "get_connection(node_id)",
        "wait_for(future, timeout_ms)",
        "cluster",
    ),
    ClusterMetadata: ("broker_metadata(broker_id)", "leader_for_partition(partition)"),
    AbstractTokenProvider: ("token()",),
    KafkaTCPTransport: ("_sock", "_sock_recv()"),
    KafkaSSLTransport: ("_sock_recv()",),
    KafkaConsumer: ("_manager", "_net", "_fetcher", "_coordinator", "_subscription"),
    Fetcher: (
        "PartitionRecords(fetch_offset, tp, records)",
        "_handle_fetch_response(node_id, fetch_offsets, send_time, response)",
        "_append(drained, part, max_records, update_offsets)",
        "_next_partition_records",
        "_parse_fetched_data(completed_fetch)",
        "_paused_partition_records",
        "_select_read_replica(tp)",
        "send_fetches()",
    ),
    Fetcher.PartitionRecords: (
        "_unpack_records(tp, records, key_deserializer, value_deserializer)",
        "_consume_aborted_transactions_up_to(offset)",
        "_contains_abort_marker(batch)",
        "_is_batch_aborted(batch)",
        "_maybe_raise_next_inline_exception()",
        "_next_inline_exception",
        "drain()",
        "take(n)",
        "aborted_producer_ids",
        "bytes_read",
        "fetch_offset",
        "isolation_level",
        "leader_epoch",
        "next_fetch_offset",
        "record_iterator",
        "records_read",
    ),
    DefaultRecordBatch: ("_buffer", "_pos"),
    BaseCoordinator: (
        "join_group_async(timeout_ms)",
        "_on_join_complete_async(generation, member_id, protocol, member_assignment_bytes)",
        "_enable_heartbeat()",
        "stable()",
        "_generation",
        "_heartbeat_enabled",
        "_join_task",
        "_lock",
        "_net",
        "coordinator_id",
        "rejoin_needed",
        "rejoining",
        "state",
    ),
    MemberState: ("STABLE",),
    KafkaProducer: ("_unregister_cleanup()", "_accumulator", "_closed", "_sender", "_transaction_manager"),
    RecordAccumulator: (
        "_tp_lock(tp)",
        "begin_flush()",
        "_appends_in_progress",
        "_batches",
        "_closed",
        "_flushes_in_progress",
        "_incomplete",
        "config",
    ),
    AtomicInteger: ("decrement()", "increment()"),
    ProducerBatch: ("__init__(tp, records)", "_record_futures", "produce_future"),
    FutureProduceResult: ("wait(timeout)", "_latch", "is_done", "value"),
    MemoryRecordsBuilder: ("__init__(magic, compression_type, batch_size)", "_builder", "_next_offset"),
    DefaultRecordBatchBuilder: (
        "HEADER_STRUCT",
        "_buffer",
        "_first_timestamp",
        "_last_offset",
        "_max_timestamp",
        "_num_records",
    ),
    Sender: ("force_close()", "wakeup()"),
    TransactionManager: (
        "maybe_add_partition_to_transaction(topic_partition)",
        "begin_abort()",
        "begin_commit()",
        "send_offsets_to_transaction(offsets, group_metadata)",
        "last_error",
    ),
    TransactionalRequestResult: ("wait(timeout_ms)",),
}


def check_client() -> None:
    """Compare the installed client with ``NEEDED``.

    A name that is not an attribute of its owner counts as present if ``__init__`` of the owner sets it.

    Raises:
        ConfigError: the first name that is missing or takes other parameters, and the version to install.
    """
    for owner, rows in NEEDED.items():
        for row in rows:
            name, is_call, parameters = row.partition("(")
            full_name = f"{owner.__name__}.{name}"
            member = getattr(owner, name, None)
            if member is None and name not in owner.__init__.__code__.co_names:
                raise ConfigError(_remedy(f"has no {full_name}"))
            if is_call and not _accepts(member, parameters.rstrip(")")):
                raise ConfigError(_remedy(f"has another {full_name} than {row}"))


def _accepts(call: Any, parameters: str) -> bool:
    """Whether a call has these first parameters, and no other required parameter."""
    if not callable(call):
        return False
    given = [one for one in signature(call).parameters.values() if one.name != "self"]
    names = [name for name in parameters.split(", ") if name]
    needs_more = any(one.default is one.empty and one.kind == one.POSITIONAL_OR_KEYWORD for one in given[len(names) :])
    return [one.name for one in given[: len(names)]] == names and not needs_more
