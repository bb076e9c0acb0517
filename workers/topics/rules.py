"""What the topics must be: how each is made, and which settings would lose live state.

The log of ``bands`` is the state of the matchers, so nothing may take records out of it but the matchers themselves,
who trim it up to the committed beginning of their windows. A topic that exists is never altered here, only judged: by
``neardup topics``, and by every worker that starts, for the topics that its role reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from workers.settings.kafka import StreamSettings
from workers.topics.names import names_of

_MILLISECONDS = 1000
# A message that does not compress grows by a little, and its batch has a header.
_ROOM_SHARE = 0.05
# Kafka frees whole segments; smaller ones than its gigabyte give the disk back sooner.
_BANDS_SEGMENT_BYTES = 128 << 20
# A producer's clock may run ahead by this: event times are held against the time of the message.
_AHEAD_MILLISECONDS_MAX = 3_600_000


class Rule(NamedTuple):
    """A setting of a topic, when it is safe, and what would happen otherwise."""

    key: str
    is_safe: Callable[[str], bool]
    why: str


class TopicPlan(NamedTuple):
    """A topic as it is wanted: what it is made with, and what must hold for one that exists."""

    name: str
    partitions: int
    exact: bool  # whether another number of partitions would be wrong
    configs: Mapping[str, str]
    rules: tuple[Rule, ...]


class Finding(NamedTuple):
    """One setting of a topic: as it is, what is wrong with it (empty if nothing is), and what is better changed."""

    key: str
    value: str
    problem: str
    warning: str = ""


def bands_milliseconds_min(settings: StreamSettings) -> int:
    """How long a record of ``bands`` must be kept at least: window, lateness and margin."""
    kept = (settings.window_seconds or 0.0) + settings.lateness_seconds + settings.retention_margin_seconds
    return int(kept * _MILLISECONDS)


def topic_plans(settings: StreamSettings) -> list[TopicPlan]:
    """The four topics of a deployment, in the order that they are made."""
    topics = names_of(settings).topics
    kept = {"cleanup.policy": "delete", "retention.ms": str(settings.retention_seconds * _MILLISECONDS)}
    size_bytes = round(settings.request_bytes_max * (1 + _ROOM_SHARE))
    kept["max.message.bytes"] = str(size_bytes)
    ahead = {"message.timestamp.after.max.ms": str(_AHEAD_MILLISECONDS_MAX)}
    retention = settings.bands_retention_seconds
    bands = {
        "cleanup.policy": "delete",
        "retention.ms": "-1" if retention is None else str(retention * _MILLISECONDS),
        "retention.bytes": "-1",
        "segment.bytes": str(_BANDS_SEGMENT_BYTES),
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(size_bytes),
        "unclean.leader.election.enable": "false",
    }
    size = Rule(
        "max.message.bytes",
        lambda value: int(value) > settings.request_bytes_max,
        f"must be more than {settings.request_bytes_max} (request_bytes_max), or what is sent may be refused",
    )
    common = (_NOT_COMPACTED, _CLEAN_LEADER, size)
    return [
        TopicPlan(topics.documents, settings.documents_partitions, False, {**kept, **ahead}, (*common, _NOT_AHEAD)),
        TopicPlan(topics.dead, 1, False, kept, common),
        TopicPlan(
            topics.bands, settings.bands_partitions, True, bands,
            (*common, _bands_time(settings), _BANDS_BYTES, _BANDS_STAMPS),
        ),
        TopicPlan(topics.candidates, settings.candidates_partitions, False, kept, common),
    ]  # fmt: skip


# The value of a setting that matters, where the broker does not have it or this user may not see it.
UNSEEN = "not to be seen"


def judge(plan: TopicPlan, partitions: int, configs: Mapping[str, str]) -> list[Finding]:
    """The settings of a topic that matter here, with what is wrong: partitions, rules, then what it is made with."""
    problem = f"must be {plan.partitions}: keys are spread over as many" if plan.exact else ""
    findings = [Finding("partitions", str(partitions), problem if partitions != plan.partitions else "")]
    rules = {rule.key: rule for rule in plan.rules}
    for key in dict.fromkeys([*rules, *plan.configs]):
        value, rule = configs.get(key), rules.get(key)
        if value is None:
            findings += [Finding(key, UNSEEN, "")] if rule is not None else []
            continue
        wrong = rule is not None and not rule.is_safe(value)
        findings.append(Finding(key, value, rule.why if rule is not None and wrong else ""))
    return findings


def refusal(findings: Mapping[str, Sequence[Finding]]) -> str:
    """The sentence that refuses topics for what was found wrong with them, with the remedy; empty if nothing was."""
    rows = [(name, row) for name, found in findings.items() for row in found if row.problem]
    wrong = "; ".join(f"{name}: {row.key}={row.value} {row.problem}" for name, row in rows)
    return f"{wrong}; alter it with the tools of Kafka, or delete the topic and create it anew" if wrong else ""


def warnings(findings: Mapping[str, Sequence[Finding]]) -> str:
    """What is better changed in topics, in one sentence; empty if nothing is."""
    topics: dict[str, list[str]] = {}
    for name, found in findings.items():
        for row in found:
            if row.warning:
                topics.setdefault(f"{row.key}={row.value} {row.warning}", []).append(name)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in topics.items())


def judge_wanted(settings: StreamSettings) -> list[tuple[str, Finding]]:
    """What is wrong with the settings themselves, before anything is made: topic and finding."""
    return [
        (plan.name, finding)
        for plan in topic_plans(settings)
        for finding in judge(plan, plan.partitions, plan.configs)
        if finding.problem
    ]


def _bands_time(settings: StreamSettings) -> Rule:
    least = bands_milliseconds_min(settings)
    return Rule(
        "retention.ms",
        lambda value: int(value) == -1 or int(value) >= least,
        f"must be -1, or at least {least} (window, lateness and retention_margin_seconds): younger records are live",
    )


_NOT_COMPACTED = Rule(
    "cleanup.policy",
    lambda value: value == "delete",
    "must be delete: compaction takes out records that were not read yet",
)
_CLEAN_LEADER = Rule(
    "unclean.leader.election.enable",
    lambda value: value == "false",
    "must be false: a leader that lags would cut off what is committed",
)
_NOT_AHEAD = Rule(
    "message.timestamp.after.max.ms",
    lambda value: int(value) <= _AHEAD_MILLISECONDS_MAX,
    f"must be at most {_AHEAD_MILLISECONDS_MAX}: one message from far ahead would expire the windows",
)
_BANDS_BYTES = Rule(
    "retention.bytes",
    lambda value: value == "-1",
    "must be -1: a full log would drop records of the window",
)
_BANDS_STAMPS = Rule(
    "message.timestamp.type",
    lambda value: value == "LogAppendTime",
    "must be LogAppendTime: with the producers' times, late documents would let retention delete fresh data",
)
