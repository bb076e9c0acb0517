"""The requests of a transaction, with deadlines, and the stop of a producer without responses.

The client's own calls have three lines: submit the request, wake the sender thread, wait without a limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as client_errors
from kafka.producer.transaction_manager import TransactionalRequestResult


def begin_commit(client: KafkaProducer) -> TransactionalRequestResult:
    """Submit the commit of the open transaction; ``wait`` for the result.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/kafka.py#L840
    """
    return client._transaction_manager.begin_commit()


def begin_abort(client: KafkaProducer) -> TransactionalRequestResult:
    """Submit the abort of the open transaction; ``wait`` for the result.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/kafka.py#L852
    """
    return client._transaction_manager.begin_abort()


def begin_offsets(
    client: KafkaProducer, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: object
) -> TransactionalRequestResult:
    """Add offsets to the open transaction as ``member``, a ``group_metadata()``; ``wait`` for the result.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/kafka.py#L807
    """
    return client._transaction_manager.send_offsets_to_transaction(offsets, member)


def wait(client: KafkaProducer, result: TransactionalRequestResult, seconds: float) -> None:
    """Wake the client's sender thread, and wait for the response to a request.

    Raises the error of the response, or ``KafkaTimeoutError`` after ``seconds``.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/transaction_manager.py#L791
    """
    client._sender.wakeup()
    if not result.wait(timeout_ms=max(1, round(seconds * 1000))):
        raise client_errors.KafkaTimeoutError(f"no answer in {seconds:g} s")


def last_error(client: KafkaProducer) -> BaseException | None:
    """Return the error that ended the transaction; the client's calls repeat it only as text.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/transaction_manager.py#L302
    """
    error: BaseException | None = client._transaction_manager.last_error
    return error


def stop_sending(client: KafkaProducer) -> None:
    """Stop a producer's thread, which then frees its sockets by itself; ``close`` would flush first, and may raise.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/kafka.py#L668
    """
    client._closed = True
    client._unregister_cleanup()
    client._sender.force_close()


def wait_until_stopped(client: KafkaProducer, seconds: float) -> None:
    """Wait for the thread of a producer after ``stop_sending``.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/producer/sender.py#L27
    """
    client._sender.join(seconds)
