"""The reason why a connection to a broker failed, for error messages.

The client repeats its attempts for some time, and then raises the same error for a closed port, an untrusted
certificate and a wrong password: it could not reach a broker. Only the client's log shows the reason. So this module
keeps the last logged reason.
"""

from __future__ import annotations

import logging

from kafka import errors as client_errors

from neardup.workers.transport.kafka.client_internals.connections import connection_log

# The log of the client's module that connects.
_LOG, _CONNECTED = connection_log()
# Errors that do not name their reason.
_TIME_OVER = (client_errors.KafkaTimeoutError, client_errors.RequestTimedOutError)
_LOGIN = (client_errors.SaslAuthenticationFailedError, client_errors.UnsupportedSaslMechanismError)


class _Refusals(logging.Handler):
    """Keeps the reason of the last failure since the last success, and whether the login failed."""

    last = ""
    is_login = False

    def emit(self, record: logging.LogRecord) -> None:
        """Read the reason in a log line about a connection."""
        if record.getMessage().startswith(_CONNECTED):
            self.last, self.is_login = "", False
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, Exception) and not isinstance(argument, _TIME_OVER):
                self.last, self.is_login = str(argument), isinstance(argument, _LOGIN)


_refusals = _Refusals()


def listen() -> None:
    """Start to keep the reasons of failed connections; the client's log lines about them appear nowhere else."""
    _LOG.setLevel(logging.INFO)
    _LOG.propagate = False
    _LOG.addHandler(_refusals)  # a second call adds nothing


def refusal(error: BaseException) -> tuple[str, bool]:
    """Return why the last connection failed, and whether the broker refused the login.

    The reason is empty if ``error`` has its own, and before ``listen``.
    """
    if not isinstance(error, client_errors.KafkaTimeoutError) or "bootstrap" not in str(error):
        return "", isinstance(error, _LOGIN)
    return _refusals.last, _refusals.is_login
