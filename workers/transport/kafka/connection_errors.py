"""Why no connection to a broker came about, for the message of the error that says only that none did.

The client tries again until its time is over and then raises that it could not reach a broker, be it that nobody
listens, that the certificate is not trusted, or that the password is wrong. Which of these it was stands in its log
alone; so what it logs there is kept, the last one of the process.
"""

from __future__ import annotations

import logging

from kafka import errors as client_errors

from workers.transport.kafka.client_internals.connections import connection_log

# The log of the client's module that connects; no other log of it is listened to.
_LOG, _CONNECTED = connection_log()
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
    _LOG.setLevel(logging.INFO)
    _LOG.propagate = False
    _LOG.addHandler(_refusals)  # which a log holds once


def refusal(error: BaseException) -> tuple[str, bool]:
    """Why the last connection failed, and whether the login was refused; empty where ``error`` says itself what it is.

    Without ``listen`` nothing is known.
    """
    if not isinstance(error, client_errors.KafkaTimeoutError) or "bootstrap" not in str(error):
        return "", isinstance(error, _LOGIN)
    return _refusals.last, _refusals.is_login
