"""Reading of bytes from the connections to brokers, and the reason why a connection failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from kafka import errors as client_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

_RECEIVED_BYTES = 256 << 10
LOGIN_REFUSALS = (client_errors.SaslAuthenticationFailedError, client_errors.UnsupportedSaslMechanismError)


def connections(is_fast: bool, secrets: Callable[[], Mapping[str, Any]] = dict) -> Callable[..., KafkaNetClient]:
    """Return the factory of the network part of one client: a value for its public option ``kafka_client``.

    ``secrets`` returns the options of a login that hold now; it is asked before each connection.
    Needs ``KafkaNetClient(net, manager, **options)`` and ``KafkaConnectionManager._build_transport``, which makes every
    connection with the options in ``config``. https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/net/manager.py#L207
    """

    def connect(**options: Any) -> KafkaNetClient:
        net = _Loop(**options)
        return KafkaNetClient(net=net, manager=_ConnectionManager(is_fast, secrets, net, **options), **options)

    return connect


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # the client has no types
    """Tokens of a function of the user. The client asks for one at each login, also where a broker wants a second."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def token(self) -> str:
        """Return a token. Raises ``TypeError`` if the function returns anything else; the client connects later."""
        token = self._function()
        if not isinstance(token, str):
            raise TypeError(
                f"the function of sasl.login.callback.handler.class returned {type(token).__name__}: it must return "
                "the token, a str"
            )
        return token


class _Loop(NetworkSelector):  # type: ignore[misc]  # the client has no types
    """Raises each timeout as an error that only the caller holds.

    The client stores the error that it raises in a future and in a variable of ``run``. The traceback of the error
    leads back to both, so each poll that finds nothing leaves a reference cycle. The traceback also leads to the frames
    of all callers, so the cycle holds the records of the poll until the garbage collector runs.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/net/selector.py#L332
    """

    def run(self, coro: Any, *args: Any) -> Any:
        try:
            return super().run(coro, *args)
        except client_errors.KafkaTimeoutError as error:
            error.__traceback__ = None
            raise type(error)(*error.args) from None


class _ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]  # the client has no types
    """Makes connections whose received bytes pass through ``receive`` or ``receive_before_end``.

    The first connection of a client is tried for some time. Then the client raises the same error for a closed port, an
    untrusted certificate and a wrong password: it could not reach a broker. Here the error contains the reason of the
    last failure, and a refused login is raised as itself. The reason belongs to one client: another client of the same
    process fails for reasons of its own.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/net/manager.py#L116
    """

    def __init__(
        self, is_fast: bool, secrets: Callable[[], Mapping[str, Any]], net: NetworkSelector, **options: Any
    ) -> None:
        self._is_fast, self._secrets = is_fast, secrets
        super().__init__(net, **options)
        self._reason: Exception | None = None

    def bootstrap(self, *values: Any, **named: Any) -> None:
        try:
            super().bootstrap(*values, **named)
        except BaseException:  # in the constructor of a client: its caller cannot close it, and its thread would try on
            self.close()
            self._net.close()
            raise

    async def _do_bootstrap(self, deadline: float | None) -> Any:
        self._reason = None
        try:
            return await super()._do_bootstrap(deadline)
        except client_errors.KafkaTimeoutError as error:
            if self._reason is None:
                raise
            if isinstance(self._reason, LOGIN_REFUSALS):
                raise type(self._reason)(*self._reason.args) from None
            raise type(error)(f"{error.args[0]}: {self._reason}") from None

    def get_connection(self, node_id: Any, *values: Any, **named: Any) -> Any:
        self.config.update(self._secrets())
        connection = super().get_connection(node_id, *values, **named)
        connection.init_future.add_errback(self._keep)
        return connection

    def _keep(self, reason: Exception) -> None:
        """Keep the reason of a failure; that the time is over is none."""
        if not isinstance(reason, (client_errors.KafkaTimeoutError, client_errors.RequestTimedOutError)):
            self._reason = reason

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> KafkaTCPTransport:
        try:
            connection = await super()._build_transport(node, timeout_at=timeout_at)
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # a cycle that holds the socket, open until it is collected
            raise
        # A TLS connection holds decrypted bytes that the socket does not show, so the client must read them all.
        is_plain = type(connection) is KafkaTCPTransport
        connection._sock_recv = partial(receive if self._is_fast and is_plain else receive_before_end, connection)
        return connection


def receive(connection: KafkaTCPTransport) -> tuple[bytes, Exception | None]:
    """Read up to 256 kB of a plain connection in one call.

    The client reads 4 kB in each call, and releases the interpreter lock each time. If there are no bytes, the client's
    own call decides whether the connection ended.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/net/transport.py#L110
    """
    with suppress(OSError):
        data: bytes = connection._sock.recv(_RECEIVED_BYTES)
        if data:
            return data, None
    return receive_before_end(connection)


def receive_before_end(connection: KafkaTCPTransport) -> tuple[bytes, Exception | None]:
    """Read like the client, but report the end of a connection only after all bytes before the end.

    A broker sends its refusal of a login together with the end of the connection. The client drops bytes that come with
    an end. https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/net/transport.py#L105
    """
    data, end = type(connection)._sock_recv(connection)
    return data, None if data else end
