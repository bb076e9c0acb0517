"""A broker with TLS and passwords: the settings connect to it, and no output shows the password."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
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
KEYTOOL_SECONDS_MAX = 60.0
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
        "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.secured.plain.sasl.jaas.config": (
            f'{login}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
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


@pytest.fixture
def deployment(secured: Secured, compiled: None, tmp_path: Path) -> Iterator[Deployment]:
    """Settings for SCRAM: all in the environment except the password."""
    made = Deployment(
        secured.bootstrap, tmp_path, security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_username=USER,
        ssl_cafile=secured.cafile, window_seconds=1e9,
    )  # fmt: skip
    yield made
    made.close()


def test_workers_find_pairs_over_tls_with_a_password_that_no_output_shows(deployment: Deployment) -> None:
    """SCRAM reads its password from the environment, PLAIN from a file; no log and no command line contains it."""
    file = deployment.folder / "password"
    file.write_text(f"{PASSWORD}\n")
    shown: list[str] = []
    (deployment.folder / "documents.jsonl").write_text("\n".join(map(json.dumps, documents(DOCUMENTS))))
    expected = pairs_in(deployment.run("run", "--quiet", "documents.jsonl").stdout)
    deployment.environment["NEARDUP_SASL_PASSWORD"] = PASSWORD
    for command in (("topics", "create"), ("load", "documents.jsonl")):
        done = deployment.run(*command)
        assert done.returncode == 0, done.stderr
        shown += [done.stdout, done.stderr]
    up = deployment.start("up", "--from", "earliest", "--health-port", "0")
    del deployment.environment["NEARDUP_SASL_PASSWORD"]
    plain = ["--set", "sasl_mechanism=PLAIN", "--set", f"sasl_password_file={file}"]
    tail = deployment.run("tail", "--from", "earliest", "--max", str(len(expected)), *plain)
    assert pairs_in(tail.stdout) == expected != [], tail.stderr
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in [up.pid, *children(up.pid)]]
    assert len(lines) == 3
    for text in (*shown, tail.stdout, tail.stderr, deployment.log, *lines):
        assert PASSWORD not in text


# What is wrong -> settings, and what each error says.
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "a wrong password for SCRAM": ({"sasl_password": WRONG}, "due to invalid credentials with SASL mechanism"),
    "one for PLAIN": ({"sasl_password": WRONG, "sasl_mechanism": "PLAIN"}, "Invalid username or password"),
    "another mechanism": (
        {"sasl_password": PASSWORD, "sasl_mechanism": "SCRAM-SHA-256"}, "UnsupportedSaslMechanismError"
    ),
    "a certificate that is not trusted": (
        {"sasl_password": PASSWORD, "ssl_cafile": ""}, "certificate verify failed"
    ),
}  # fmt: skip
CALLS: tuple[Callable[[KafkaTransport], object], ...] = (
    lambda transport: transport.partitions("documents"), lambda transport: transport.producer("a worker"),
)  # fmt: skip


def refusal(settings: StreamSettings, call: Callable[[KafkaTransport], object]) -> TransportError:
    """The error of a call. The client repeats a refused handshake until the end of this time."""
    quick = replace(kafka_settings(settings), request_timeout_seconds=1.0, connect_timeout_seconds=CONNECT_SECONDS_MAX)
    with closing(KafkaTransport(quick)) as transport, pytest.raises(TransportError) as refused:
        call(transport)
    return refused.value


@pytest.fixture(scope="module")
def refusals(secured: Secured) -> dict[str, list[TransportError]]:
    """The errors of every call with each of the wrong settings; all wait at the same time."""
    common = {
        "bootstrap_servers": secured.bootstrap, "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": USER, "ssl_cafile": str(secured.cafile),
    }  # fmt: skip
    given = {
        name: StreamSettings(**{key: value for key, value in {**common, **changes}.items() if value})  # type: ignore[arg-type]
        for name, (changes, _) in REFUSED.items()
    }
    with ThreadPoolExecutor(len(REFUSED) * len(CALLS)) as pool:
        waiting = {name: [pool.submit(refusal, each, call) for call in CALLS] for name, each in given.items()}
        return {name: [one.result() for one in errors] for name, errors in waiting.items()}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_gives_its_reason_and_not_the_password(refusals: dict[str, list[TransportError]], name: str) -> None:
    """Every command that connects to the broker prints one sentence without a secret."""
    _, words = REFUSED[name]
    assert len(refusals[name]) == len(CALLS)
    for refused in refusals[name]:
        said = repr(refused) + str(refused)
        assert words in said
        assert isinstance(refused, UnreachableError) == ("certificate" in words)
        assert PASSWORD not in said
        assert WRONG not in said


def test_a_worker_whose_password_is_wrong_ends_with_one_sentence(deployment: Deployment) -> None:
    """The worker exits with the code of a broker that refuses."""
    deployment.environment["NEARDUP_SASL_PASSWORD"] = WRONG
    worker = deployment.start("sign", "--supervised", command=[sys.executable, "-c", IMPATIENT])
    assert worker.wait(WAIT_SECONDS_MAX) == Exit.BROKER, deployment.log
    last = deployment.log.splitlines()[-1]
    assert "refuses the login" in last
    assert "sasl_username" in last
    assert "Traceback" not in deployment.log
    assert WRONG not in deployment.log


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
