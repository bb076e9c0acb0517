"""Settings of the service, in addition to the settings of the library and of the input.

The token comes from the environment (``NEARDUP_TOKEN``) or from a file that a setting names; the command line has no
option for it, because other users of the machine can read it. The settings file must not contain it.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from pydantic import Field, SecretStr

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import input_failure
from neardup_workers.outside.settings.files import Settings
from neardup_workers.outside.settings.kafka import CanaryOptions, StreamSettings

# A token shorter than this can be guessed.
_TOKEN_CHARACTERS_MIN = 16


class ServeOptions(CanaryOptions):
    """How the service listens, and its limits."""

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on; 0.0.0.0 for all")
    port: int = Field(default=8470, ge=0, le=65_535, description="port to listen on; 0 takes a free one")
    token_file: str | None = Field(
        default=None,
        description="file that holds the token that clients must send; or NEARDUP_TOKEN in the environment",
    )
    insecure: bool = Field(default=False, description="listen on an address that others reach, without a token")
    open_metrics: bool = Field(
        default=False, description="answer /metrics without the token, for Prometheus in a network of its own"
    )
    tls_certfile: str | None = Field(default=None, description="file of the certificate for TLS, with its chain")
    tls_keyfile: str | None = Field(default=None, description="file of the key for TLS")
    durability: str = Field(
        default="full",
        pattern="^(full|normal)$",
        description="what an answered document survives: full, a loss of power; normal, the end of the process",
    )
    blocked: str | None = Field(
        default=None,
        description="file of ids and content hashes whose documents are refused; a removal with block=true adds to it",
    )
    keep_texts: bool = Field(default=False, description="store the texts too, for the passages of /v1/why")
    history_seconds: float = Field(
        default=0.0,
        ge=0,
        le=1e10,
        description="how long verdicts can be read after their documents have left the window",
    )
    clock: str = Field(
        default="arrival",
        pattern="^(arrival|event)$",
        description="the time of a document: arrival, when it is taken, its own timestamp is shown as its date; event, "
        "its timestamp, and older ones than the window decide nothing",
    )
    ahead_seconds: float = Field(
        default=300.0,
        ge=0,
        le=1e9,
        description="with --clock event: how far a timestamp may lie ahead of the server's clock; later is refused",
    )
    body_bytes_max: int = Field(
        default=32 << 20,
        ge=1 << 10,
        le=1 << 30,
        description="bytes of a request at most, of one document or of a batch",
    )
    bodies_bytes_max: int = Field(
        default=256 << 20,
        ge=1 << 10,
        le=1 << 40,
        description="bytes of all requests together at most; beyond it requests are refused for a while",
    )
    batch_lines_max: int = Field(default=10_000, ge=1, le=1_000_000, description="lines of a batch at most")
    queue_documents_max: int = Field(
        default=20_000,
        ge=1,
        le=10_000_000,
        description="documents that wait at most; beyond it requests are refused for a while",
    )
    event_readers_max: int = Field(default=64, ge=1, le=900, description="clients that read /v1/events at most")
    body_seconds_max: float = Field(
        default=30.0, gt=0, le=3600, description="how long a client may take to send a request"
    )
    webhook: str | None = Field(
        default=None,
        pattern="^https?://[!-~]+$",
        max_length=2_000,
        description="address that events of stories are posted to, signed with NEARDUP_WEBHOOK_SECRET",
    )
    webhook_secret_file: str | None = Field(
        default=None,
        description="file that holds the secret of the web hook; or NEARDUP_WEBHOOK_SECRET in the environment",
    )
    webhook_events: str = Field(
        default="new,grown,updated,removed",
        pattern="^(new|grown|updated|removed)(,(new|grown|updated|removed))*$",
        description="events that are posted, separated by commas",
    )
    webhook_members: int = Field(
        default=3,
        ge=0,
        le=10**9,
        description="a story has grown when it has so many documents, and each time these have doubled; 0 for never",
    )
    webhook_sources: int = Field(
        default=3,
        ge=0,
        le=10_000,
        description="the same for the sources that publish it; 0 for never",
    )
    webhook_seconds_max: float = Field(
        default=259_200.0,
        gt=0,
        le=1e8,
        description="how long an event is tried, before it is a dead one that is kept to be read",
    )
    webhook_waiting_max: int = Field(
        default=100_000, ge=1, le=10**9, description="events that wait at most; the oldest become dead ones"
    )
    webhook_dead_max: int = Field(
        default=10_000, ge=0, le=10**9, description="dead events that are kept at most; the oldest are lost"
    )
    verdict_seconds_max: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="with --from-kafka: how long a request waits for its verdict, before it is answered by 202",
    )


class ServeSettings(ServeOptions, Settings):
    """All settings of the service; a ``Config`` as well. Raises ``ConfigError`` like it."""

    token: SecretStr | None = Field(default=None, description="token that clients must send")
    webhook_secret: SecretStr | None = Field(default=None, description="secret that signs the events of the web hook")

    def access_token(self) -> str | None:
        """Return the token, or ``None`` if clients need no token.

        Raises:
            ConfigError: there are two tokens, the token is too short, or it is missing although other machines reach
                the address.
            Failure: the file cannot be read.
        """
        token = _secret("token", self.token, self.token_file)
        if token is not None and (len(token) < _TOKEN_CHARACTERS_MIN or not token.isascii()):
            raise ConfigError(f"a token needs {_TOKEN_CHARACTERS_MIN} ASCII characters or more: set a longer one")
        if token is None and not self.insecure and not is_loopback(self.host):
            raise ConfigError(
                f"host is {self.host}, which others can reach, and there is no token: set NEARDUP_TOKEN or token_file, "
                "or insecure if something in front of it checks who asks"
            )
        if (self.tls_certfile is None) != (self.tls_keyfile is None):
            raise ConfigError("TLS needs both tls_certfile and tls_keyfile: name both or neither")
        return token

    def hook_secret(self) -> str | None:
        """Return the secret of the web hook, ``None`` without a web hook.

        Raises:
            ConfigError: there is no secret, or there are two.
            Failure: the file cannot be read.
        """
        secret = _secret("webhook_secret", self.webhook_secret, self.webhook_secret_file)
        if self.webhook is not None and secret is None:
            raise ConfigError("webhook has no secret: set NEARDUP_WEBHOOK_SECRET or webhook_secret_file")
        return None if self.webhook is None else secret


def _secret(name: str, given: SecretStr | None, file: str | None) -> str | None:
    """Return a secret of the environment or of a file. Raises ``ConfigError``, ``Failure``."""
    if given is not None and file is not None:
        raise ConfigError(f"{name} stands in the environment and {name}_file names a file: leave out one of them")
    if file is None:
        return None if given is None else given.get_secret_value()
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        failed = error if isinstance(error, OSError) else OSError("it is not UTF-8")
        raise input_failure(f"{name}_file {file}", failed) from None


class ViewSettings(ServeSettings, StreamSettings):
    """All settings of a view of a deployment: of the service, and of the deployment. Raises ``ConfigError``."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
