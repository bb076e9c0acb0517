"""The file of ``kafka_config``: how the broker is reached, in the form and with the keys of Kafka's client.properties.

A key is spelled as Kafka's own tools spell it, or as librdkafka does. Certificates and keys are PEM. The file may hold
passwords, so no message shows a value of it except those of ``_SHOWN``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Failure, input_failure
from neardup_workers.outside.process.functions import function_at

# Partitions of a dead worker stand idle for this time. A worker that is restarted, or a pause of its machine, takes a
# few seconds. A broker may demand more (group.min.session.timeout.ms).
SESSION_TIMEOUT_SECONDS = 10.0
# The open transaction of a dead worker holds up readers for this time. A step takes about a second.
TRANSACTION_TIMEOUT_SECONDS = 15.0
# Just below the broker's own limit of a message (message.max.bytes = 1,048,588).
REQUEST_BYTES_MAX = 1_000_000
_TOKENS = "OAUTHBEARER"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class ClientProperties:
    """What the file says. ``options`` holds security options of the Kafka client, and as ``sasl_oauth_token_provider``
    a function that returns a token; ``repr`` leaves them out."""

    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    session_timeout_seconds: float = SESSION_TIMEOUT_SECONDS
    transaction_timeout_seconds: float = TRANSACTION_TIMEOUT_SECONDS
    request_bytes_max: int = REQUEST_BYTES_MAX


class _Key(NamedTuple):
    """A key of the file: the option that it sets, and the function that reads its value or raises ``ValueError``."""

    option: str
    read: Callable[[str], Any] = str


def read_properties(path: str | None) -> ClientProperties:
    """Read the file; without one, the broker asks for no login.

    Raises:
        ConfigError: a key is unknown or stands there twice, or its value is wrong.
        Failure: the file cannot be read.
    """
    if path is None:
        return ClientProperties()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise input_failure(f"kafka_config {path}", error) from None
    except UnicodeDecodeError:
        raise ConfigError(f"kafka_config {path} is not UTF-8: write it as Kafka's client.properties") from None
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    pairs = list(_pairs(text))
    for key, value in pairs:
        for option, read in _options_of(path, key, value):
            if option in origins:
                raise ConfigError(f"{origins[option]} and {key} in {path} say the same: leave out one of them")
            origins[option], values[option] = key, read
    _check_stores(path, {key for key, _ in pairs})
    if (values.get("sasl_mechanism") == _TOKENS) != ("sasl_oauth_token_provider" in values):
        raise ConfigError(
            f"sasl.mechanism={_TOKENS} and sasl.login.callback.handler.class in {path} need each other: give both, the "
            "second as package:function of a function that returns a token, or none"
        )
    limits = {name: values.pop(name) for name in _LIMITS if name in values}
    return ClientProperties(MappingProxyType({name: values[name] for name in values if name not in _TYPES}), **limits)


class Secrets:
    """The user, the password and the password of the key as the file has them now, so that a rotation needs no restart.

    The file is read when it has changed. One that cannot be read, or lacks what it had, as in the middle of a rotation,
    changes nothing.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._read: tuple[int, ...] = ()
        self._options: dict[str, Any] = {}

    def __call__(self) -> dict[str, Any]:
        """Return the options of the Kafka client; none without a file. It never raises."""
        if self._path is not None:
            with suppress(OSError, ConfigError, Failure):
                found = Path(self._path).stat()
                if (state := (found.st_ino, found.st_size, found.st_mtime_ns)) != self._read:
                    options = read_properties(self._path).options
                    secrets = {name: options[name] for name in _SECRETS if options.get(name)}
                    if secrets.keys() >= self._options.keys():
                        self._options, self._read = secrets, state
        return self._options


def _options_of(path: str, key: str, value: str) -> list[tuple[str, Any]]:
    """Return the options that a line sets."""
    if key in _ELSEWHERE:
        raise ConfigError(f"{key} in {path} is not read from there: {_ELSEWHERE[key]}")
    if key == "sasl.jaas.config":
        return [(f"sasl_plain_{name}", found) for name, found in _jaas(path, value).items()]
    known = _KEYS.get(key)
    if known is None:
        supported = ", ".join(sorted([*_KEYS, "sasl.jaas.config"]))
        raise ConfigError(f"{key} in {path} is not supported: leave it out; supported are {supported}")
    try:
        return [(known.option, known.read(value))]
    except ValueError as error:
        shown = f"={value!r}" if key in _SHOWN else ""
        raise ConfigError(f"{key}{shown} in {path}: {error}") from None


def _jaas(path: str, value: str) -> dict[str, str]:
    """Return user and password of a login module for passwords: ``...PlainLoginModule required username="..." ...;``"""
    module = re.match(r"\s*([\w.]+)\s+\w+\s*", value)
    if module is None or not module[1].endswith(("PlainLoginModule", "ScramLoginModule")):
        raise ConfigError(
            f"sasl.jaas.config in {path} must be that of PlainLoginModule or ScramLoginModule, with username and "
            "password; for GSSAPI leave it out: the login is that of kinit"
        )
    found = {name: _unescaped(quoted) or plain for name, quoted, plain in _JAAS_OPTION.findall(value)}
    if not {"username", "password"} <= found.keys():
        raise ConfigError(f'sasl.jaas.config in {path} must have username="..." and password="..."')
    return {name: found[name] for name in ("username", "password")}


def _check_stores(path: str, keys: set[str]) -> None:
    """Raise ``ConfigError`` for a store of Java, whose type is PEM only if the file says so."""
    for store in ("truststore", "keystore"):
        if f"ssl.{store}.location" in keys and f"ssl.{store}.type" not in keys:
            raise ConfigError(
                f"ssl.{store}.location in {path} names a store of Java: give a PEM file, and say ssl.{store}.type=PEM"
            )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield keys and values of a file of properties: comments, continued lines and escapes are those of Java."""
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text).splitlines():
        found = _LINE.fullmatch(line.strip(" \t\f\r"))
        if found is not None and found[1][:1] not in ("#", "!", ""):
            yield _unescaped(found[1]), _unescaped(found[2])


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _CONTROLS.get(found[2], found[2]), text)


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.upper() not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return value.upper()

    return read


def _checks_name(value: str) -> bool:
    if value.lower() not in ("https", "none", ""):
        raise ValueError("must be https, or none to accept a certificate of another host")
    return value.lower() == "https"


def _whole(least: int, most: int, scale: int = 1) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        if not value.isdecimal() or not least <= int(value) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(value) if scale == 1 else int(value) / scale

    return read


_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_JAAS_OPTION = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;"']+))""")
# Java's clients give milliseconds.
_SESSION, _TRANSACTION = _whole(1_000, 300_000, 1_000), _whole(3_000, 900_000, 1_000)
_REQUEST = _whole(1_000_000, 1 << 28)
_LIMITS = ("session_timeout_seconds", "transaction_timeout_seconds", "request_bytes_max")
_SECRETS = ("sasl_plain_username", "sasl_plain_password", "ssl_password")
# Only checked, because the Kafka client reads nothing else.
_TYPES = ("truststore type", "keystore type")
# Key -> option. Of two names of an option, the first is that of Kafka's own tools, the second that of librdkafka.
_KEYS: dict[str, _Key] = {
    "security.protocol": _Key("security_protocol", _one_of(*_PROTOCOLS)),
    "sasl.mechanism": _Key("sasl_mechanism"), "sasl.mechanisms": _Key("sasl_mechanism"),
    "sasl.username": _Key("sasl_plain_username"), "sasl.password": _Key("sasl_plain_password"),
    "sasl.kerberos.service.name": _Key("sasl_kerberos_service_name"),
    "sasl.login.callback.handler.class": _Key("sasl_oauth_token_provider", function_at),
    "ssl.truststore.location": _Key("ssl_cafile"), "ssl.ca.location": _Key("ssl_cafile"),
    "ssl.truststore.type": _Key("truststore type", _one_of("PEM")),
    "ssl.keystore.location": _Key("ssl_certfile"), "ssl.certificate.location": _Key("ssl_certfile"),
    "ssl.keystore.type": _Key("keystore type", _one_of("PEM")),
    "ssl.key.location": _Key("ssl_keyfile"), "ssl.key.password": _Key("ssl_password"),
    "ssl.endpoint.identification.algorithm": _Key("ssl_check_hostname", _checks_name),
    "session.timeout.ms": _Key("session_timeout_seconds", _SESSION),
    "transaction.timeout.ms": _Key("transaction_timeout_seconds", _TRANSACTION),
    "max.request.size": _Key("request_bytes_max", _REQUEST), "message.max.bytes": _Key("request_bytes_max", _REQUEST),
}  # fmt: skip
_ELSEWHERE = {
    "bootstrap.servers": "give --bootstrap-servers",
    "group.id": "it follows from the setting group",
    "group.instance.id": "it follows from --instance",
}
# Keys whose values a message may show: each has a check.
_SHOWN = {key for key, known in _KEYS.items() if known.read is not str}
