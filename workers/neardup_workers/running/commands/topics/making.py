"""``neardup topics create`` and ``describe``: make the topics of a deployment; show them and whether they are safe."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing, suppress

from rich.console import Console

from neardup.errors import ConfigError
from neardup_workers.doing.stages.agreement import agree, begun_again
from neardup_workers.outside.display.printing import table_of
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import MATCH, ROLES, names_of
from neardup_workers.outside.topics.replication import IN_SYNC_KEY, in_sync_wanted, judge_replication, replicas_wanted
from neardup_workers.outside.topics.rules import (
    PARTITIONS,
    UNSEEN,
    Finding,
    TopicPlan,
    judge,
    judge_together,
    judge_wanted,
    refusal,
    topic_plans,
    warnings,
)
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.outside.transport.kafka.transport import KafkaAdmin, TopicSpec
from neardup_workers.outside.transport.protocol import Replication, Transport, UnknownTopicError
from neardup_workers.running.commands.topics.shards import shard_table, states_of


def create(settings: StreamSettings, *, grow: bool = False) -> None:
    """Create missing topics; judge existing topics without changing them, but with ``grow`` add partitions.

    Raises ``ConfigError`` for settings that would lose live state, ``Failure`` for a topic that has such settings, that
    is missing next to topics with records, or that belongs to another deployment; and while workers have other
    settings.
    """
    fail_if_wanted_unsafe(judge_wanted(settings))
    plans = topic_plans(settings)
    with closing(connect(settings)) as transport:
        nodes = transport.nodes()
        replicas = replicas_wanted(settings, nodes)
        in_sync = {IN_SYNC_KEY: str(in_sync_wanted(settings, nodes))}
        chosen = judge_replication(Replication(nodes, replicas), in_sync, allow_single=settings.allow_single_replica)
        fail_if_wanted_unsafe([("new topics", row) for row in chosen if row.problem])
        specs = [TopicSpec(plan.name, plan.partitions, replicas, {**plan.configs, **in_sync}) for plan in plans]
        begun = begun_again(transport, settings)
        fail_if_lost(transport, settings, begun)
        made = begun.union(transport.create_topics(specs))
        if grow:
            grow_partitions(transport, settings)
        changed = agree(transport, settings, made=made)
        findings = judge_together(settings, {p.name: _judged(p, transport, settings, nodes) for p in plans})
    console = Console(highlight=False, soft_wrap=True)
    for plan in plans:
        console.print(f"{plan.name}: {'made' if plan.name in made else _kept(plan, findings[plan.name])}", markup=False)
    if changed:
        console.print(f"settings in force: {changed}", markup=False)
    if warnings(findings):
        console.print(f"warning: {warnings(findings)}", markup=False)
    _fail_if_unsafe(findings)


def grow_partitions(transport: KafkaAdmin, settings: StreamSettings) -> None:
    """Give the topics that divide documents as many partitions as ``documents`` is to have, if they have fewer.

    ``documents`` is last: a linker stops at a document of a partition that the topics of its verdicts lack.
    """
    topics, plans = names_of(settings).topics, {plan.name for plan in topic_plans(settings)}
    for name in (topics.verdicts, topics.unique, topics.candidates, topics.documents):
        if name in plans and transport.partitions(name) < settings.documents_partitions:
            transport.set_partitions(name, settings.documents_partitions)


def fail_if_lost(transport: Transport, settings: StreamSettings, begun: Collection[str] = ()) -> None:
    """Raise ``Failure`` if a topic is missing, or ``begun`` again, although others that are made and written with it
    have records.

    An empty topic in its place would hide that its records are lost: a role that goes on from its committed offsets
    finds nothing. With ``settings.allow_gap`` it is made, but none of which others name offsets: they would name other
    documents, or rows that are not matched.
    """
    topics, begin = names_of(settings).topics, "begin a new generation (another seed, for instance)"
    decided = topics.verdicts, topics.clusters, topics.originals, topics.sources
    written_with = {topics.documents: (topics.signed,), topics.signed: (topics.links,), topics.links: (topics.signed,)}
    remedies = {
        topics.documents: begin,
        topics.signed: f"{begin}, or delete {topics.links}, too, and run this command again; then neardup topics "
        "replay signs the window again",
    }
    is_used: dict[str, bool] = {}
    for plan in topic_plans(settings):
        with suppress(UnknownTopicError):
            is_used[plan.name] = any(end for _, end in transport.bounds(plan.name, written=True).values())
    for name in (plan.name for plan in topic_plans(settings) if plan.name not in is_used or plan.name in begun):
        used = [other for other in written_with.get(name, decided if name in decided else ()) if is_used.get(other)]
        if used and (name in remedies or not settings.allow_gap):
            gap = f"{begin}, or make it empty with --set allow_gap=true and start the workers with --allow-gap --from "
            raise Failure(
                Exit.LOST,
                f"{name} {'was made again' if name in begun else 'is missing'}, and {', '.join(sorted(used))} of the "
                "same generation has records: what stood in it is lost, and no topic was made; "
                f"{remedies.get(name, f'{gap}earliest')}",
            )


def describe(settings: StreamSettings) -> None:
    """Show fingerprints, generation, topics and shards; raises ``Failure`` if a topic is missing or unsafe."""
    names = names_of(settings)
    with closing(connect(settings)) as transport:
        nodes = transport.nodes()
        plans = topic_plans(settings)
        findings = judge_together(settings, {p.name: _judged(p, transport, settings, nodes) for p in plans})
        shards = states_of(transport, settings, transport.group_offsets(names.group(MATCH), names.topics.links))
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"signing fingerprint   {settings.signing_fingerprint}", markup=False)
    console.print(f"matching fingerprint  {settings.matching_fingerprint}", markup=False)
    console.print(f"generation            {names.generation}", markup=False)
    for role in ROLES if settings.verdicts else ROLES[:2]:
        console.print(f"{f'group of {role}':21} {names.group(role)}", markup=False)
    for topic, rows in findings.items():
        judged = [(row.key, row.value, _judgement(row)) for row in rows]
        options = {"title": topic, "title_justify": "left", "title_style": "bold"}
        console.print(table_of(("setting", "value", "judgement"), judged, justify="left", **options))
    if shards:
        console.print(shard_table(shards))
    _fail_if_unsafe(findings)


def _judgement(row: Finding) -> str:
    if row.problem:
        return f"UNSAFE: {row.problem}"
    return f"warning: {row.warning}" if row.warning else "unknown" if row.value == UNSEEN else "safe"


def _kept(plan: TopicPlan, findings: list[Finding]) -> str:
    """Say that a topic was there, and with how many partitions if the settings name another number."""
    partitions = next((row.value for row in findings if row.key == PARTITIONS), str(plan.partitions))
    if partitions == str(plan.partitions):
        return "was there"
    return (
        f"was there with {partitions} partitions, and keeps them; the settings say {plan.partitions}, which counts for "
        "a new topic only (--grow adds partitions)"
    )


def _judged(plan: TopicPlan, admin: KafkaAdmin, settings: StreamSettings, nodes: int) -> list[Finding]:
    try:
        description = admin.describe(plan.name)
    except UnknownTopicError:
        return [Finding("topic", "missing", "make it with neardup topics create")]
    replication = Replication(nodes, description.replication)
    return [
        *judge(plan, description.partitions, description.configs),
        *judge_replication(replication, description.configs, allow_single=settings.allow_single_replica),
    ]


def fail_if_wanted_unsafe(wrong: list[tuple[str, Finding]]) -> None:
    """Raise ``ConfigError`` for settings that could lose live state: topics and their findings."""
    if wrong:
        raise ConfigError("; ".join(f"{name}: {row.key}={row.value} {row.problem}" for name, row in wrong))


def _fail_if_unsafe(findings: dict[str, list[Finding]]) -> None:
    sentence = refusal(findings)
    if sentence:
        raise Failure(Exit.TOPIC, sentence)
