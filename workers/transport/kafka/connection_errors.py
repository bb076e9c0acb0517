"""Why no connection to a broker came about, for the message of the error that says only that none did.

The client tries again until its time is over and then raises that it could not reach a broker, be it that nobody
listens, that the certificate is not trusted, or that the password is wrong. Which of these it was stands in its log
alone; so what it logs there is kept, the last one of the process.

A broker sends its refusal of a login together with the end of the connection, and the client drops what came with an
end; here it gets to see what came first, and the end at its next look.
"""

from __future__ import annotations

import logging
from typing import Any

from kafka import errors as client_errors
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

# The module of the client that connects; nothing else of its log is listened to.
_LOGGER = "kafka.net.manager"
_CONNECTED = "Bootstrap complete"
# What is to be explained, not what explains it.
_TIME_OVER = (client_errors.KafkaTimeoutError, client_errors.RequestTimedOutError)
_LOGIN = (client_errors.SaslAuthenticationFailedError, client_errors.UnsupportedSaslMechanismError)


class _Refusals(logging.Handler):
    """Keeps why the last connection failed since one that did not, and whether it was the login."""

    last = ""
    is_login = False

    def emit(self, record: logging.LogRecord) -> None:
        """Take the reason out of a line about a connection."""
        if record.getMessage().startswith(_CONNECTED):
            self.last, self.is_login = "", False
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, Exception) and not isinstance(argument, _TIME_OVER):
                self.last, self.is_login = str(argument), isinstance(argument, _LOGIN)


_refusals = _Refusals()


def listen() -> None:
    """Keep from now on why connections fail; the client's lines about it go nowhere else."""
    logger = logging.getLogger(_LOGGER)
    if _refusals in logger.handlers:
        return
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(_refusals)
    for kind in (KafkaTCPTransport, KafkaSSLTransport):
        _hear_out(kind)


def _hear_out(kind: Any) -> None:
    """Let a kind of connection take what came before it ended."""
    receive = kind._sock_recv

    def received(self: Any) -> tuple[bytes, Exception | None]:
        data, error = receive(self)
        return data, None if data else error

    kind._sock_recv = received


def refusal(error: BaseException) -> tuple[str, bool]:
    """Why the last connection failed, and whether the login was refused; empty where ``error`` says itself what it is.

    Without ``listen`` nothing is known.
    """
    if not isinstance(error, client_errors.KafkaTimeoutError) or "bootstrap" not in str(error):
        return "", isinstance(error, _LOGIN)
    return _refusals.last, _refusals.is_login
