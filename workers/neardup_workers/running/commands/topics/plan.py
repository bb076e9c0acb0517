"""``neardup topics plan``: what a change of settings means for a running deployment, what it costs, and the commands.

The fingerprints decide, which the workers compare, too. The command reads the lengths of topics, and changes nothing.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from neardup.errors import ConfigError
from neardup_workers.doing.stages.agreement import agreed_of, differences
from neardup_workers.outside.settings import option_name
from neardup_workers.outside.settings.declared import TopicOptions, setting_rows
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN, names_of
from neardup_workers.outside.topics.rules import TopicPlan, judge_wanted, topic_plans
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.outside.transport.protocol import Transport, UnknownTopicError
from neardup_workers.running.commands.topics.making import fail_if_wanted_unsafe


class Consequence(NamedTuple):
    """One consequence of a change: what it means and why, what it costs (or empty), and commands in their order."""

    means: str
    cost: str
    commands: tuple[str, ...]


def plan(before: StreamSettings, after: StreamSettings) -> None:
    """Print what the change from one set of settings to another needs.

    Raises:
        ConfigError: the new settings name another deployment, or could lose live state.
    """
    fail_if_wanted_unsafe(judge_wanted(after))
    changes = _changes(before, after)
    sys.stdout.writelines(f"{name}: {was} -> {now}\n" for name, (was, now) in changes.items())
    with closing(connect(before)) as transport:
        steps = [*steps_of(transport, before, after)]
    for number, step in enumerate(steps, 1):
        sys.stdout.write(f"\n{number}. {step.means}\n")
        sys.stdout.writelines([f"   Cost: {step.cost}\n"] if step.cost else [])
        sys.stdout.writelines(f"     {line}\n" for line in step.commands)
    if not steps:
        sys.stdout.write("nothing is to be done: these settings are in force, or nothing depends on the change\n")


def steps_of(transport: Transport, before: StreamSettings, after: StreamSettings) -> Iterator[Consequence]:
    """Yield what a change needs, in the order in which it is to be done.

    Raises:
        ConfigError: the new settings name another deployment.
    """
    old, new = names_of(before), names_of(after)
    if old.prefix != new.prefix or before.topic_prefix != after.topic_prefix:
        raise ConfigError("topic_prefix and group name a deployment: with others, make and start it as a new one")
    if old.generation == new.generation:
        yield from _topic_steps(before, after)
        if before.matching_fingerprint != after.matching_fingerprint:
            yield _replay(transport, before, after)
        elif differences(after, agreed_of(before)):
            means = "In force for all: later documents are decided by the new settings."
            yield Consequence(means, "nothing is decided while no worker works.", _together(before, after))
        elif _changes(before, after).keys() - {row.name for row in setting_rows(TopicOptions)}:
            means = "In place: restart the workers with the new settings, one after the other."
            yield Consequence(means, "", ("neardup status",))
        return
    if _changes(before, after).keys() == {"shards"} and before.shards < after.shards:
        yield Consequence(
            "In place: the running stream gets more shards. Leave the setting shards as it is, for it is a part of the "
            "name of the generation.",
            "tables move to the matchers that have none; documents that are there stay where they are.",
            (f"neardup topics shards {after.shards}", "neardup topics describe"),
        )
        return
    yield _generation(transport, before, after)


def _generation(transport: Transport, before: StreamSettings, after: StreamSettings) -> Consequence:
    """Signatures differ, or where they are: a second set of workers, next to the first."""
    old, new, options = names_of(before).generation, names_of(after).generation, _options(before, after)
    roles = [SIGN, MATCH, LINK] if after.verdicts else [SIGN, MATCH]
    commands = [f"neardup topics create {options}"]
    commands += [f"neardup {role} --from earliest {options}  # on new instances" for role in roles]
    commands += [f"neardup status {options}  # until nothing is unread"]
    if after.verdicts:
        commands += ["# end the old filters, then:", f"neardup {FILTER} --from {old} {options}"]
    commands += [
        "# switch the readers, end the old workers, and delete their topics and groups with the tools of Kafka"
    ]
    return Consequence(
        f"A new generation, {new}, next to {old}: keys or evidence change, or where they are.",
        f"with --from earliest {_records(transport, names_of(before).topics.documents)} records of documents are "
        "signed and matched again (with latest none, and the window fills as documents come); until the old workers "
        "end, memory, topics and processors are needed twice.",
        tuple(commands),
    )


def _replay(transport: Transport, before: StreamSettings, after: StreamSettings) -> Consequence:
    """What is a pair differs: matchers read their log again."""
    return Consequence(
        "A replay: what is a pair changes, and signatures do not. Published pairs stay.",
        f"matchers read {_records(transport, names_of(before).topics.signed)} messages of signed again before they go "
        "on; pairs come later by that time.",
        _together(before, after),
    )


def _together(before: StreamSettings, after: StreamSettings) -> tuple[str, ...]:
    """Return what changes settings that all workers must share."""
    options = _options(before, after)
    return (
        "# end all workers, then:", f"neardup topics create {options}",
        f"# start all workers again, each with {options}", "neardup status",
    )  # fmt: skip


def _topic_steps(before: StreamSettings, after: StreamSettings) -> Iterator[Consequence]:
    """Settings of the topics, which existing topics keep until somebody alters them."""
    old = {each.name: each for each in topic_plans(before)}
    commands = [line for each in topic_plans(after) for line in _alter(old.get(each.name), each, after)]
    if before.documents_partitions != after.documents_partitions:
        commands.insert(0, f"neardup topics create --grow {_options(before, after)}  # more, never fewer")
    if commands:
        yield Consequence(
            "The topics: an existing topic keeps what it was made with until it is altered.", "", tuple(commands)
        )


def _alter(old: TopicPlan | None, new: TopicPlan, after: StreamSettings) -> Iterator[str]:
    at = f"--bootstrap-server {after.bootstrap_servers}"
    if old is None:
        yield f"neardup topics create  # makes {new.name}"
        return
    configs = [f"{key}={value}" for key, value in new.configs.items() if old.configs.get(key) != value]
    if configs:
        yield (
            f"kafka-configs.sh {at} --alter --entity-type topics --entity-name {new.name} "
            f"--add-config {','.join(configs)}"
        )


def _changes(before: StreamSettings, after: StreamSettings) -> dict[str, tuple[object, object]]:
    """Return the settings that differ; secrets have no text of their own."""
    was, now = before.model_dump(mode="json"), after.model_dump(mode="json")
    return {name: (was[name], now[name]) for name in now if was[name] != now[name]}


def _options(before: StreamSettings, after: StreamSettings) -> str:
    """Return the change as options of the command line."""
    words: list[str] = []
    for name, (_, now) in _changes(before, after).items():
        if isinstance(now, bool | list):
            words.append(f"--set={name}={','.join(map(str, now)) if isinstance(now, list) else str(now).lower()}")
        else:
            words += [option_name(name), str(now)]
    return shlex.join(words)


def _records(transport: Transport, topic: str) -> str:
    """Return the number of records of a topic, with those that end transactions."""
    try:
        return f"{sum(end - first for first, end in transport.bounds(topic).values()):,}"
    except UnknownTopicError:
        return "0"
