"""A broker with an authorizer: each user works with the rights that `neardup topics rights` prints, and without any one
of them it says what is not allowed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from broker import Broker
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka_harness import WAIT_SECONDS_MAX
from kafka_world import World, reached, stories
from ports import HOST
from secured_listener import require

from neardup_workers.doing.http.view.server import started_view
from neardup_workers.doing.stages.agreement import Watch
from neardup_workers.outside.options.running import (
    DeadOptions,
    LoadOptions,
    ReplayOptions,
    ShardsOptions,
    StatusOptions,
    TailOptions,
)
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.serve import ViewSettings
from neardup_workers.outside.store.view import View
from neardup_workers.outside.topics.names import LINK, ROLES, SIGN, names_of
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.outside.transport.kafka.transport import KafkaTransport
from neardup_workers.outside.transport.protocol import Committed, Message, TransportError
from neardup_workers.running.commands.dead import chosen, replay
from neardup_workers.running.commands.load import load_paths
from neardup_workers.running.commands.tail import tail
from neardup_workers.running.commands.topics.growing import shards
from neardup_workers.running.commands.topics.making import create
from neardup_workers.running.commands.topics.replay import replay as set_back
from neardup_workers.running.commands.topics.rights import USERS, Right, rights_of
from neardup_workers.running.commands.topics.status import status
from neardup_workers.running.service import roles

DOCUMENTS = 200
OPERATIONS = {"Read": ACLOperation.READ, "Write": ACLOperation.WRITE, "Delete": ACLOperation.DELETE,
              "Create": ACLOperation.CREATE, "Describe": ACLOperation.DESCRIBE,
              "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS, "Alter": ACLOperation.ALTER}  # fmt: skip
KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional-id": ResourceType.TRANSACTIONAL_ID}
One = tuple[Right, str]
_SHARDS, _STORIES = count(100), count(1_000)


@pytest.fixture(scope="module")
def guarded(session_broker: Broker) -> Iterator[Broker]:
    """A broker whose second address wants a name and allows nothing; without a name everything is allowed."""
    broker = Broker()
    users = " ".join(f'user_{user}="{user}"' for user in USERS)
    settings = {
        "listener.name.named.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.named.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    require(broker, "NAMED", "SASL_PLAINTEXT", settings)
    with broker:
        yield broker


class Rights:
    """Gives rights to users and takes them; returns when the broker follows them."""

    def __init__(self, bootstrap: str) -> None:
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def give(self, user: str, ones: list[One]) -> None:
        self.admin.create_acls([acl(user, *one) for one in ones])
        self._await(user, ones, is_there=True)

    def take(self, user: str, ones: list[One]) -> None:
        self.admin.delete_acls([acl_filter(user, *one) for one in ones])
        self._await(user, ones, is_there=False)

    def _await(self, user: str, ones: list[One], *, is_there: bool) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        for one in ones:
            while bool(self.admin.describe_acls(acl_filter(user, *one))[0]) != is_there:
                assert time.monotonic() < deadline
                time.sleep(0.01)


def acl(user: str, right: Right, operation: str) -> ACL:
    pattern = ACLResourcePatternType.PREFIXED if right.is_prefix else ACLResourcePatternType.LITERAL
    resource = ResourcePattern(KINDS[right.kind], right.name, pattern)
    return ACL(f"User:{user}", "*", OPERATIONS[operation], ACLPermissionType.ALLOW, resource)


def acl_filter(user: str, right: Right, operation: str) -> ACLFilter:
    pattern = ACLResourcePatternType.PREFIXED if right.is_prefix else ACLResourcePatternType.LITERAL
    resource = ResourcePatternFilter(KINDS[right.kind], right.name, pattern)
    return ACLFilter(f"User:{user}", "*", OPERATIONS[operation], ACLPermissionType.ALLOW, resource)


@pytest.fixture(scope="module")
def world(guarded: Broker, compiled: None) -> Iterator[World]:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    made = World(guarded.bootstrap, None, f"{HOST}:{guarded.proxied_port}", verdicts=True)
    yield made
    made.close()
    logging.getLogger("kafka").setLevel(logging.NOTSET)


def work(world: World, role: str) -> None:
    """Read the whole topic of a role, and delete nothing where the role may delete."""
    client = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": role,
              "sasl_plain_password": role}  # fmt: skip
    world.kafka_of_workers = replace(world.kafka_of_workers, client=client)
    place = world.place(role)
    try:
        Watch(place.transport, world.settings, role).look()  # as the shell does, which also notes its state
        place.transport.set_offsets(place.name, world.topics.settings, {0: Committed(0, "")})
        deadline, ends = time.monotonic() + WAIT_SECONDS_MAX, world.ends_of(role)
        while not reached([place], ends):
            assert time.monotonic() < deadline, place.standing()
            place.turn()
        place.made.trim()
        for right in rights_of(world.settings, role):
            if "Delete" in right.operations:
                place.transport.trim(right.name, {0: 0})
    finally:
        place.kill()
        world.places.remove(place)


def create_topics(settings: StreamSettings, folder: Path) -> None:
    """Each time with other settings, which it writes."""
    create(settings.model_copy(update={"story_seconds_max": float(next(_STORIES))}))


def show_status(settings: StreamSettings, folder: Path) -> None:
    with closing(connect(settings)) as transport:
        status(StatusOptions(), transport, settings)


def load_file(settings: StreamSettings, folder: Path) -> None:
    (folder / "one.jsonl").write_text('{"id": "one", "text": "some words of a text", "timestamp": 1}\n')
    load_paths(LoadOptions([str(folder / "one.jsonl")], quiet=True), settings)


def tail_both(settings: StreamSettings, folder: Path) -> None:
    for verdicts in (False, True):
        tail(TailOptions(start="earliest", lines_max=1, verdicts=verdicts), settings)


def replay_letters(settings: StreamSettings, folder: Path) -> None:
    with closing(connect(settings)) as transport:
        replay(transport, settings, chosen(DeadOptions()))


def set_signers_back(settings: StreamSettings, folder: Path) -> None:
    with closing(connect(settings)) as transport:
        set_back(ReplayOptions(window=False), transport, settings)


def show_view(settings: StreamSettings, folder: Path) -> None:
    """Follow the topics, read a document, and send one."""
    given = ViewSettings(**settings.model_dump())
    with closing(connect(settings)) as transport, closing(View(folder, {"verdicts": "verdicts"}, "normal")) as view:
        running = started_view(given, transport, view, lambda: None)
        try:
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while not (error := running.error()) and not view.meta()["places"]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            if error:
                raise TransportError(str(error))
        finally:
            running.stop()
        topic = names_of(settings).topics.documents
        partition, first = next((one, first) for one, (first, end) in transport.bounds(topic).items() if first < end)
        next(filter(None, transport.read(topic, partition, first, first + 1)))
        load_as(f"{names_of(settings).prefix}-serve-test", transport, topic)


def load_as(name: str, transport: KafkaTransport, topic: str) -> None:
    """Write to a topic in a transaction that is aborted."""
    with closing(transport.producer(name)) as producer:
        producer.begin()
        producer.send(Message(topic, 0, b"{}"))
        producer.flush()
        producer.abort()


def add_shards(settings: StreamSettings, folder: Path) -> None:
    """Each time to one more: a refused growth may have made the partition."""
    shards(ShardsOptions(next(_SHARDS)), settings)


COMMANDS: dict[str, Callable[[StreamSettings, Path], None]] = {
    "create": create_topics, "replay": set_signers_back, "status": show_status, "load": load_file, "tail": tail_both,
    "dead": replay_letters,
    "serve": show_view, "shards": add_shards,
}  # fmt: skip


def without_each(
    rights: Rights, settings: StreamSettings, user: str, act: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Act without each right in turn, and then with all: each is refused, or a role warns that it sees no settings."""
    needed = rights_of(settings, user)
    ones = [(right, operation) for right in needed for operation in right.operations]
    rights.give(user, ones)
    if user in ("create", "status"):  # the same rights for every topic
        ones = [one for one in ones if one[0].kind != "topic" or one[0] is needed[0] or "Write" in one[0].operations]
    ledger = names_of(settings).topics.sources

    def order(one: One) -> int:
        """Without the later ones a role does its work, and then there is nothing left to write. A linker asks the group
        of matchers at its first start, writes its ledger of sources behind its verdicts, and reads it once there is
        one."""
        if user == LINK and one[1] == "Describe":
            return -1
        later = {"Write": 1, "Read": 3} if one[0].name == ledger else {}
        return later.get(one[1], 2 if one[1] in ("Delete", "DescribeConfigs") else 0)

    for one in sorted(ones, key=order):
        right, operation = one
        rights.take(user, [one])
        roles._warn_unseen.cache_clear()
        caplog.clear()
        if operation == "DescribeConfigs":
            act()
            assert user not in ROLES or f"may not see the settings of {right.name}," in caplog.text
        else:
            with pytest.raises(TransportError, match=r"does not allow it .* neardup topics rights") as refused:
                act()
            assert right.name in str(refused.value)
        rights.give(user, [one])
    act()


def test_a_role_works_with_the_printed_rights_and_names_each_that_is_missing(
    world: World, guarded: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """All roles together, each as a user of its own, find the pairs of the library."""
    documents = stories(DOCUMENTS)
    world.load(documents)
    world.send([(b"broken", b"no JSON")])  # a dead letter
    for role in ROLES:
        without_each(Rights(guarded.bootstrap), world.settings, role, partial(work, world, role), caplog)
    assert world.pairs() == world.expected(documents) != []
    assert len(world.letters()) == 1


@pytest.mark.parametrize("user", COMMANDS)
def test_a_command_works_with_the_printed_rights_and_names_each_that_is_missing(
    world: World, guarded: Broker, user: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After the roles have worked."""
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={user}\nsasl.password={user}\n"
    )
    changes = {"bootstrap_servers": f"{HOST}:{guarded.proxied_port}", "kafka_config": str(file)}
    settings = StreamSettings(**{**world.given, **changes})  # type: ignore[arg-type]
    if user == "replay":  # the signer that worked is gone
        world.transport.leave(world.names.group(SIGN), world.names.worker(SIGN, "0"))
    if user == "create":
        settings = settings.model_copy(update={"topic_prefix": "made."})
    act = partial(COMMANDS[user], settings, tmp_path)
    without_each(Rights(guarded.bootstrap), settings, user, act, caplog)


def test_every_user_of_the_table_is_tried() -> None:
    """Roles and commands."""
    assert {*USERS} == {*ROLES, *COMMANDS}
