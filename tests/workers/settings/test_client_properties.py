"""The file of ``kafka_config``: forms, keys of both spellings, refusals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka.net.sasl import get_sasl_mechanism

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.client_properties import ClientProperties, Secrets, read_properties
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.transport.kafka.connect import kafka_settings

JAVA = r"""
# As Kafka's own tools take it.
! Another comment.
security.protocol = SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="alice" \
    password="a\\\"b;c=d\u00e9";
ssl.truststore.type PEM
ssl.truststore.location=/ca.pem
ssl.keystore.type=PEM
ssl.keystore.location=/both.pem
ssl.key.password=of the key
ssl.endpoint.identification.algorithm=
session.timeout.ms=30000
transaction.timeout.ms=45500
max.request.size=2000000
"""
LIBRDKAFKA = """
security.protocol=sasl_ssl
sasl.mechanisms=PLAIN
sasl.username=alice
sasl.password=secret
ssl.ca.location=/ca.pem
ssl.certificate.location=/cert.pem
ssl.key.location=/key.pem
ssl.endpoint.identification.algorithm=https
message.max.bytes=3000000
"""


def read(folder: Path, text: str) -> ClientProperties:
    """What a file with this text says."""
    (folder / "client.properties").write_text(text, encoding="utf-8")
    return read_properties(str(folder / "client.properties"))


def test_the_file_of_kafkas_own_tools_is_read(tmp_path: Path) -> None:
    """Comments, continued lines, escapes, three separators, and a login of a module."""
    found = read(tmp_path, JAVA)
    assert found.options == {
        "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "alice",
        "sasl_plain_password": 'a"b;c=dé', "ssl_cafile": "/ca.pem", "ssl_certfile": "/both.pem",
        "ssl_password": "of the key", "ssl_check_hostname": False,
    }  # fmt: skip
    assert (found.session_timeout_seconds, found.transaction_timeout_seconds) == (30.0, 45.5)
    assert found.request_bytes_max == 2_000_000


def test_the_keys_of_librdkafka_are_read(tmp_path: Path) -> None:
    """They differ in some names; what the file does not say has its default."""
    found = read(tmp_path, LIBRDKAFKA)
    assert found.options == {
        "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice",
        "sasl_plain_password": "secret", "ssl_cafile": "/ca.pem", "ssl_certfile": "/cert.pem",
        "ssl_keyfile": "/key.pem", "ssl_check_hostname": True,
    }  # fmt: skip
    assert (found.session_timeout_seconds, found.transaction_timeout_seconds) == (10.0, 15.0)
    assert found.request_bytes_max == 3_000_000
    assert read(tmp_path, "") == read_properties(None) == ClientProperties()


def test_a_module_takes_words_without_quotes(tmp_path: Path) -> None:
    """As Java's parser does."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    found = read(tmp_path, f"sasl.jaas.config={module} required username=alice password=secret;")
    assert dict(found.options) == {"sasl_plain_username": "alice", "sasl_plain_password": "secret"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "acks=all",
            r"acks in .* is not supported: leave it out; supported are max\.request\.size, message",
        ),
        ("bootstrap.servers=a:1", "is not read from there: give --bootstrap-servers"),
        ("security.protocol=TLS", "security.protocol='TLS' in .*: must be PLAINTEXT or SSL or SASL_PLAINTEXT or SASL"),
        ("ssl.truststore.type=JKS", "ssl.truststore.type='JKS' in .*: must be PEM"),
        ("ssl.truststore.location=/ca.jks", "names a store of Java: give a PEM file, and say ssl.truststore.type=PEM"),
        ("ssl.keystore.location=/my.p12", "names a store of Java: give a PEM file, and say ssl.keystore.type=PEM"),
        ("ssl.endpoint.identification.algorithm=off", "must be https, or none"),
        ("session.timeout.ms=10s", "session.timeout.ms='10s' in .*: must be a whole number from 1000 to 300000"),
        ("transaction.timeout.ms=2999", "must be a whole number from 3000 to 900000"),
        ("max.request.size=999999", "must be a whole number from 1000000 to"),
        ("sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;", "must be that of PlainLoginModule"),
        ('sasl.jaas.config=a.PlainLoginModule required username="hunter2";', 'must have username="..." and password'),
        (
            "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler",
            r"handler\.class='software.* in .*: cannot be loaded \(ModuleNotFoundError.*write package:function",
        ),
        ("sasl.login.callback.handler.class=json:dumps", "need each other: give both"),
        ("sasl.mechanism=OAUTHBEARER", "need each other: give both"),
        ("sasl.password=hunter2\nsasl.password=hunter3", "sasl.password and sasl.password in .* say the same"),
        ("sasl.mechanism=PLAIN\nsasl.mechanisms=PLAIN", "sasl.mechanism and sasl.mechanisms in .* say the same"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_its_remedy(tmp_path: Path, line: str, sentence: str) -> None:
    """One sentence with the key and the file, and without a secret."""
    with pytest.raises(ConfigError, match=sentence) as refused:
        read(tmp_path, line)
    assert "client.properties" in str(refused.value)
    assert "hunter" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """It is missing, or no text."""
    with pytest.raises(Failure, match=r"cannot read kafka_config .*none: No such file") as failure:
        read_properties(str(tmp_path / "none"))
    assert failure.value.code == Exit.INPUT
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_properties(str(tmp_path / "binary"))


def test_a_function_is_asked_for_a_token_at_each_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example for Amazon MSK, in the client's own login; a function that returns anything else is named."""
    left = ["second", "first"]
    signer = SimpleNamespace(generate_auth_token=lambda region: (f"{left.pop()} of {region}", 7))
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=signer))
    monkeypatch.setenv("AWS_REGION", "here")
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "docs/examples/logins")
    file = tmp_path / "client.properties"

    def login(function: str) -> Callable[[], bytes]:
        file.write_text(f"sasl.mechanism=OAUTHBEARER\nsasl.login.callback.handler.class={function}\n")
        options = kafka_settings(StreamSettings(kafka_config=str(file))).options()
        return lambda: get_sasl_mechanism("OAUTHBEARER")(**options).auth_bytes()

    bearer = login("msk_token:token")
    assert [bearer(), bearer()] == [f"n,,\x01auth=Bearer {n} of here\x01\x01".encode() for n in ("first", "second")]
    with pytest.raises(TypeError, match="returned dict: it must return the token, a str"):
        login("builtins:dict")()


def test_a_password_that_is_rotated_is_read_again(tmp_path) -> None:
    """A file that is gone, half written or wrong for a moment changes nothing; only the login is read again."""
    file = tmp_path / "client.properties"
    secrets = Secrets(str(file))
    assert (secrets(), Secrets(None)()) == ({}, {})
    login = "sasl.username=a\nsasl.password={}\nssl.key.password=k\nsession.timeout.ms=9000\n"
    seen = []
    for text in (login.format("one"), "sasl.username=a\nsasl.password", "what=ever", login.format("two!"), None):
        file.unlink() if text is None else file.write_text(text)
        seen.append(secrets().get("sasl_plain_password"))
    assert seen == ["one", "one", "one", "two!", "two!"]
    assert secrets() == {"sasl_plain_username": "a", "sasl_plain_password": "two!", "ssl_password": "k"}
