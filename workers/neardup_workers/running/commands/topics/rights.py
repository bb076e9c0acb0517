"""``neardup topics rights``: the least rights (ACLs) of every user of a deployment, from one table.

A worker has a group and a transactional id, a command reads or writes topics. ``Read``, ``Write`` and
``Alter`` include ``Describe``. The rights name one generation: another one has other topics and groups.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from typing import NamedTuple

from neardup_workers.outside.options.running import RightsOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, ROLES, SIGN, Names, names_of
from neardup_workers.outside.topics.rules import topic_plans

_READ, _WRITE, _DELETE, _CREATE = "Read", "Write", "Delete", "Create"
_DESCRIBE, _CONFIGS, _ALTER = "Describe", "DescribeConfigs", "Alter"


class Right(NamedTuple):
    """What a user may do with a resource: its kind as ``kafka-acls.sh`` names it, its name, operations.

    ``is_prefix``: the name is the beginning of the names of several resources.
    """

    kind: str
    name: str
    operations: tuple[str, ...]
    is_prefix: bool = False


# User -> topic, by its field of ``Topics`` -> operations. Workers look at the settings of each topic that they use.
# Only what owns the state of a log may delete from it.
_TOPICS: dict[str, dict[str, tuple[str, ...]]] = {
    SIGN: {
        "documents": (_READ, _CONFIGS), "dead": (_WRITE, _CONFIGS), "signed": (_WRITE, _CONFIGS),
    },
    MATCH: {
        "signed": (_READ, _DELETE, _CONFIGS), "candidates": (_WRITE, _CONFIGS), "links": (_READ, _WRITE, _CONFIGS),
    },
    LINK: {
        "signed": (_READ, _CONFIGS), "links": (_READ, _DELETE, _CONFIGS),
        "verdicts": (_READ, _WRITE, _CONFIGS), "clusters": (_READ, _WRITE, _CONFIGS),
        "originals": (_READ, _WRITE, _CONFIGS), "sources": (_READ, _WRITE, _CONFIGS),
    },
    FILTER: {"verdicts": (_READ, _CONFIGS), "documents": (_READ, _CONFIGS), "unique": (_WRITE, _CONFIGS)},
    "load": {"documents": (_WRITE, _CONFIGS)},
    "tail": {"candidates": (_READ,), "verdicts": (_READ,)},
    "replay": {"documents": (_READ,), "signed": (_DESCRIBE,), "verdicts": (_READ,)},
    "dead": {"dead": (_READ, _WRITE), "documents": (_READ, _WRITE, _CONFIGS)},
    "serve": {"verdicts": (_READ,), "candidates": (_READ,), "documents": (_READ, _WRITE)},
    "shards": {"signed": (_READ, _WRITE), "links": (_ALTER,)},
}  # fmt: skip
# What a command of each of these does with every topic of the deployment.
_ALL_TOPICS = {"create": (_CREATE, _DESCRIBE, _CONFIGS), "status": (_READ, _CONFIGS)}
# Commands that read as a group of their own, and commands that write in transactions: all names begin with the command.
_WITH_GROUP = ("tail",)
_WITH_TRANSACTIONS = ("load", "replay", "dead", "serve", "shards", "create")
# Commands that compare their settings with those in force, as roles do; and the one that writes what is in force.
_AGREEING = ("replay", "shards")
_CREATES_SETTINGS = (_CREATE, _READ, _WRITE, _CONFIGS)
USERS = (*_TOPICS, *_ALL_TOPICS)


def rights(options: RightsOptions, settings: StreamSettings) -> None:
    """Print a command of Kafka's own tool for each right of a role or command; raises ``Failure`` for another word."""
    if options.user not in USERS:
        raise Failure(Exit.USAGE, f"{options.user!r} has no rights of its own: name one of {', '.join(USERS)}")
    principal = options.principal or f"User:neardup-{options.user}"
    for line in _commands(rights_of(settings, options.user), principal, settings.bootstrap_servers):
        sys.stdout.write(f"{line}\n")


def rights_of(settings: StreamSettings, user: str) -> list[Right]:
    """Return the rights that a role or a command (one of ``USERS``) needs, and no other."""
    names, plans = names_of(settings), {plan.name for plan in topic_plans(settings)}
    topics = [Right("topic", name, operations) for name, operations in _of_topics(names, user) if name in plans]
    if user == MATCH and not settings.verdicts:  # it commits to links, and writes nothing there
        read = tuple(operation for operation in _TOPICS[MATCH]["links"] if operation != _WRITE)
        topics = [right._replace(operations=read) if right.name == names.topics.links else right for right in topics]
    return [*topics, *_of_groups(names, user, settings)]


def _commands(rights: list[Right], principal: str, bootstrap_servers: str) -> Iterator[str]:
    """Yield a command of Kafka's own tool for each right."""
    for right in rights:
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap_servers, "--add", "--allow-principal", principal]
        words += [word for operation in right.operations for word in ("--operation", operation)]
        words += [f"--{right.kind}", right.name]
        yield shlex.join([*words, "--resource-pattern-type", "prefixed"] if right.is_prefix else words)


def _of_topics(names: Names, user: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if user in _ALL_TOPICS:
        own = {names.topics.settings: _CREATES_SETTINGS} if user == "create" else {}
        yield from ((name, own.get(name, _ALL_TOPICS[user])) for name in names.topics)
    else:
        yield from ((getattr(names.topics, field), operations) for field, operations in _TOPICS[user].items())
    if user in ROLES:
        yield names.topics.settings, (_READ, _CONFIGS)
    if user in _AGREEING:
        yield names.topics.settings, (_READ,)


def _of_groups(names: Names, user: str, settings: StreamSettings) -> Iterator[Right]:
    if user in ROLES:
        yield Right("group", names.group(user), (_READ,), is_prefix=True)  # each worker leaves notes in one of its own
        yield Right("transactional-id", names.worker(user, ""), (_WRITE,), is_prefix=True)
    if user == MATCH and settings.verdicts:  # it keeps what linkers have not decided
        yield Right("group", names.group(LINK), (_DESCRIBE,))
    if user == "shards" or (user == LINK and settings.verdicts):  # the matchers know how many shards there are
        yield Right("group", names.group(MATCH), (_DESCRIBE,))
    if user in ("status", "create"):
        roles, notes = ROLES if settings.verdicts else (SIGN, MATCH), user == "status"
        yield from (Right("group", names.group(role), (_DESCRIBE,), is_prefix=notes) for role in roles)
    if user == "replay":  # it commits as a signer
        yield Right("group", names.group(SIGN), (_READ,))
        if settings.verdicts:
            yield Right("group", names.group(LINK), (_DESCRIBE,))
    if user in _WITH_GROUP:
        yield Right("group", f"{names.prefix}-{user}-", (_READ,), is_prefix=True)
    if user in _WITH_TRANSACTIONS:
        yield Right("transactional-id", f"{names.prefix}-{user}-", (_WRITE,), is_prefix=True)
