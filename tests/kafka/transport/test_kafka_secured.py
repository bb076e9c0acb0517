"""A broker with TLS and passwords: the settings connect to it, and no output shows the password."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from broker import Broker
from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion
from kafka_deployment import WAIT_SECONDS_MAX, Deployment, documents, pairs_in
from ports import HOST
from secured_listener import require

from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.transport.kafka.connect import kafka_settings
from neardup_workers.outside.transport.kafka.transport import KafkaTransport
from neardup_workers.outside.transport.protocol import TransportError, UnreachableError

USER, PASSWORD, WRONG = "reader-of-pairs", "v3ry;s3cret=p4ss", "wr0ng;gu3ss=p4ss"
STORE_PASSWORD = "of-the-key-store"
DOCUMENTS = 300
KEYTOOL_SECONDS_MAX = 180.0
CONNECT_SECONDS_MAX = 10.0  # busy machines take a second for a handshake
# The command of the test; it gives up earlier on a broker that refuses it.
IMPATIENT = """
from dataclasses import replace
from neardup_workers.outside.transport.kafka import connect as connection
made = connection.kafka_settings
connection.kafka_settings = lambda settings: replace(made(settings), connect_timeout_seconds=2.0)
from neardup_workers.main import main
main()
"""


class Secured(NamedTuple):
    """A broker whose address requires TLS and a password, and the certificate to trust."""

    broker: Broker
    bootstrap: str
    cafile: Path


def keytool(*arguments: str) -> None:
    """Java's tool for keys."""
    found = shutil.which("keytool")
    if found is None:
        pytest.skip("keytool is not on the path: it comes with Java")
    given = [found, *arguments, "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
    run = subprocess.run(given, capture_output=True, text=True, timeout=KEYTOOL_SECONDS_MAX)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="module")
def secured(session_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with a certificate made here and one user for PLAIN and for SCRAM."""
    folder = tmp_path_factory.mktemp("secured")
    store, cafile = folder / "broker.p12", folder / "broker.pem"
    keytool(
        "-genkeypair", "-keystore", str(store), "-alias", "broker", "-keyalg", "EC", "-dname", "CN=broker of a test",
        "-validity", "2", "-ext", f"SAN=IP:{HOST}", "-ext", "BC=ca:true", "-ext", "KU=digitalSignature,keyCertSign",
    )  # fmt: skip
    keytool("-exportcert", "-rfc", "-keystore", str(store), "-alias", "broker", "-file", str(cafile))
    login = "org.apache.kafka.common.security"
    broker = Broker()
    settings = {
        "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.secured.plain.sasl.jaas.config": (
            f'{login}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
        "listener.name.secured.oauthbearer.sasl.jaas.config": (
            f'{login}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    address = require(broker, "SECURED", "SASL_SSL", settings)
    with broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            made = [UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, PASSWORD)]
            admin.alter_user_scram_credentials(made)
        yield Secured(broker, address, cafile)


def scram(secured: Secured, password: str) -> dict[str, str]:
    """The properties of a login with a password, as Java's clients spell them."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.cafile),
        "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
    }  # fmt: skip


def plain(secured: Secured, password: str) -> dict[str, str]:
    """The properties of PLAIN, as librdkafka spells them."""
    return {
        "security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN", "ssl.ca.location": str(secured.cafile),
        "sasl.username": USER, "sasl.password": password,
    }  # fmt: skip


def bearer(secured: Secured, function: str) -> dict[str, str]:
    """The properties of a login with tokens of a function of this module."""
    left_out = ("sasl.username", "sasl.password", "sasl.mechanisms")
    return {name: value for name, value in plain(secured, "").items() if name not in left_out} | {
        "sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": f"{__name__}:{function}"
    }  # fmt: skip


def token(seconds: float = 60.0) -> str:
    """A token without a signature, which the broker's own check takes in these seconds."""
    now = time.time()
    claims = ({"alg": "none"}, {"sub": USER, "iat": now + min(0.0, seconds) - 60.0, "exp": now + seconds})
    return "".join(urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") + "." for one in claims)


def expired() -> str:
    """A token that was valid for a minute."""
    return token(-3_600.0)


def failing() -> str:
    """What a function does whose service is away."""
    raise OSError("the service of tokens is away")


@pytest.fixture
def deployment(secured: Secured, compiled: None, tmp_path: Path) -> Iterator[Deployment]:
    """The file that Kafka's own tools take for SCRAM."""
    made = Deployment(secured.bootstrap, tmp_path, scram(secured, PASSWORD), window_seconds=1e9)
    yield made
    made.close()


def test_workers_find_pairs_over_tls_with_a_password_that_no_output_shows(
    deployment: Deployment, secured: Secured
) -> None:
    """The files of Java's tools and of librdkafka both log in; no log and no command line contains the password."""
    shown: list[str] = []
    (deployment.folder / "documents.jsonl").write_text("\n".join(map(json.dumps, documents(DOCUMENTS))))
    expected = pairs_in(deployment.run("run", "--quiet", "documents.jsonl").stdout)
    for command in (("topics", "create"), ("load", "documents.jsonl")):
        done = deployment.run(*command)
        assert done.returncode == 0, done.stderr
        shown += [done.stdout, done.stderr]
    up = deployment.start("up", "--from", "earliest", "--health-port", "0")
    deployment.properties = plain(secured, PASSWORD)
    other = deployment.written("librdkafka.properties")
    tail = deployment.run("tail", "--from", "earliest", "--max", str(len(expected)), "--kafka-config", other)
    assert pairs_in(tail.stdout) == expected != [], tail.stderr
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in [up.pid, *children(up.pid)]]
    assert len(lines) == 3
    for text in (*shown, tail.stdout, tail.stderr, deployment.log, *lines):
        assert PASSWORD not in text


# What is wrong -> properties, and what each error says.
REFUSED: dict[str, tuple[Callable[[Secured], dict[str, str]], str]] = {
    "a wrong password for SCRAM": (
        lambda secured: scram(secured, WRONG), "due to invalid credentials with SASL mechanism"
    ),
    "one for PLAIN": (lambda secured: plain(secured, WRONG), "Invalid username or password"),
    "another mechanism": (
        lambda secured: {**scram(secured, PASSWORD), "sasl.mechanism": "SCRAM-SHA-256"}, "UnsupportedSaslMechanismError"
    ),
    "a token that has expired": (lambda secured: bearer(secured, "expired"), "invalid_token"),
    "a function without a token": (lambda secured: bearer(secured, "failing"), "the service of tokens is away"),
    "a certificate that is not trusted": (
        lambda secured: {
            name: value for name, value in plain(secured, PASSWORD).items() if name != "ssl.ca.location"
        },
        "certificate verify failed",
    ),
}  # fmt: skip
PASSING = ("certificate verify failed", "the service of tokens is away")  # the worker tries again
CALLS: tuple[Callable[[KafkaTransport], object], ...] = (
    lambda transport: transport.partitions("documents"), lambda transport: transport.producer("a worker"),
)  # fmt: skip


def test_a_token_of_a_function_logs_in(secured: Secured, tmp_path: Path) -> None:
    """The broker checks it by itself."""
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in bearer(secured, "token").items()))
    settings = StreamSettings(bootstrap_servers=secured.bootstrap, kafka_config=str(file))
    with closing(KafkaTransport(kafka_settings(settings))) as transport:
        assert transport.members("no-such-group") == 0


def test_a_password_that_is_rotated_holds_from_the_next_connection_on(secured: Secured, tmp_path: Path) -> None:
    """The transport is not made again; its open connections stay."""
    file, new = tmp_path / "client.properties", "r0tated;p4ss"
    made = [UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, one) for one in (new, PASSWORD)]

    def write(password: str) -> None:
        file.write_text("".join(f"{key}={value}\n" for key, value in scram(secured, password).items()))

    write(PASSWORD)
    settings = StreamSettings(bootstrap_servers=secured.bootstrap, kafka_config=str(file))
    with (
        closing(KafkaTransport(kafka_settings(settings))) as transport,
        KafkaAdminClient(bootstrap_servers=secured.broker.bootstrap) as admin,
    ):
        assert transport.members("no-such-group") == 0
        try:
            admin.alter_user_scram_credentials(made[:1])
            write(new)
            transport.producer("a worker").close()
            assert transport.members("no-such-group") == 0
        finally:
            admin.alter_user_scram_credentials(made[1:])


def refusal(settings: StreamSettings, call: Callable[[KafkaTransport], object], words: str) -> TransportError:
    """The error of a call, with these words. The client repeats a refused handshake until the end of this time, which
    a machine that is very busy needs for its first one."""
    for seconds in (CONNECT_SECONDS_MAX, 4 * CONNECT_SECONDS_MAX):
        quick = replace(kafka_settings(settings), request_timeout_seconds=1.0, connect_timeout_seconds=seconds)
        with closing(KafkaTransport(quick)) as transport, pytest.raises(TransportError) as refused:
            call(transport)
        if words in str(refused.value):
            break
    return refused.value


@pytest.fixture(scope="module")
def refusals(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[TransportError]]:
    """The errors of every call with each of the wrong settings; all wait at the same time."""
    folder, given = tmp_path_factory.mktemp("refused"), {}
    for number, (name, (properties, _)) in enumerate(REFUSED.items()):
        file = folder / f"{number}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties(secured).items()))
        given[name] = StreamSettings(bootstrap_servers=secured.bootstrap, kafka_config=str(file))
    with ThreadPoolExecutor(len(REFUSED) * len(CALLS)) as pool:
        waiting = {
            name: [pool.submit(refusal, each, call, REFUSED[name][1]) for call in CALLS] for name, each in given.items()
        }
        return {name: [one.result() for one in errors] for name, errors in waiting.items()}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_gives_its_reason_and_not_the_password(refusals: dict[str, list[TransportError]], name: str) -> None:
    """Every command that connects to the broker prints one sentence without a secret."""
    _, words = REFUSED[name]
    assert len(refusals[name]) == len(CALLS)
    for refused in refusals[name]:
        said = repr(refused) + str(refused)
        assert words in said
        assert isinstance(refused, UnreachableError) == (words in PASSING)
        assert PASSWORD not in said
        assert WRONG not in said


def test_a_worker_whose_password_is_wrong_ends_with_one_sentence(deployment: Deployment, secured: Secured) -> None:
    """The worker exits with the code of a broker that refuses."""
    deployment.properties = scram(secured, WRONG)
    deployment.written("client.properties")
    worker = deployment.start("sign", "--supervised", command=[sys.executable, "-c", IMPATIENT])
    assert worker.wait(WAIT_SECONDS_MAX) == Exit.BROKER, deployment.log
    last = deployment.log.splitlines()[-1]
    assert "refuses the login" in last
    assert "sasl.username" in last
    assert "Traceback" not in deployment.log
    assert WRONG not in deployment.log


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
