"""Rules for topics: their settings at creation, and the settings that would lose live state.

The log of ``signed`` is the state of the matchers. So only the matchers may remove records from the log: they trim it
up to the committed beginnings of their windows. This module never alters existing topics. ``neardup topics`` judges
them, and so does every worker at its start, for the topics that its role reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import names_of

_MILLISECONDS = 1000
# An incompressible message grows a little, and its batch has a header.
_ROOM_FRACTION = 0.05
# Kafka deletes whole segments, so segments below the default of 1 GB free the disk earlier.
LOG_SEGMENT_BYTES = 128 << 20
# The clock of a producer may be ahead by this time. Signers compare event times with the time of the message.
_AHEAD_MILLISECONDS_MAX = 3_600_000
_SIZE_KEY = "max.message.bytes"
# Signers renew their claims each second, and a live stream must not wait for a renewal.
LATENESS_SECONDS_MIN = 60.0
# Matchers may be away this long before a retention by time deletes what they still need: a day, in which an operator
# sees the alert.
MARGIN_SECONDS = 86_400


class Rule(NamedTuple):
    """A setting of a topic, a test of safe values, and the effect of an unsafe value."""

    key: str
    is_safe: Callable[[str], bool]
    why: str


class TopicPlan(NamedTuple):
    """A wanted topic: settings for its creation, and rules for an existing one."""

    name: str
    partitions: int
    partitions_problem: Callable[[int], str]  # the problem with a number of partitions; empty if there is none
    configs: Mapping[str, str]
    rules: tuple[Rule, ...]


class Finding(NamedTuple):
    """A setting of an existing topic: its value, a problem (or empty), and a recommended change (or empty)."""

    key: str
    value: str
    problem: str
    warning: str = ""


def log_milliseconds_min(settings: StreamSettings) -> int:
    """Return the least retention of ``signed`` in milliseconds: window, lateness and margin."""
    seconds = (settings.window_seconds or 0.0) + settings.lateness_seconds + MARGIN_SECONDS
    return int(seconds * _MILLISECONDS)


def topic_plans(settings: StreamSettings) -> list[TopicPlan]:
    """Return the topics of a deployment, in the order of their creation; topics of verdicts only if verdicts are on."""
    topics = names_of(settings).topics
    deleted = {"cleanup.policy": "delete", "retention.ms": str(settings.retention_seconds * _MILLISECONDS)}
    sent_bytes_max = settings.client.request_bytes_max
    size_bytes = round(sent_bytes_max * (1 + _ROOM_FRACTION))
    deleted[_SIZE_KEY] = str(size_bytes)
    ahead = {"message.timestamp.after.max.ms": str(_AHEAD_MILLISECONDS_MAX)}
    log = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": str(LOG_SEGMENT_BYTES),
        "message.timestamp.type": "LogAppendTime",
        _SIZE_KEY: str(size_bytes),
        "unclean.leader.election.enable": "false",
    }
    size = Rule(
        _SIZE_KEY,
        lambda value: int(value) > sent_bytes_max,
        f"must be more than {sent_bytes_max} (max.request.size of kafka_config), or what is sent may be refused",
    )
    common = (_NOT_COMPACTED, _CLEAN_LEADER, size)
    plans = [
        TopicPlan(
            topics.documents, settings.documents_partitions, _aligned(settings.lateness_seconds),
            {**deleted, **ahead, "message.timestamp.type": "CreateTime"}, (*common, _NOT_AHEAD, _DOCUMENTS_STAMPS),
        ),
        TopicPlan(topics.dead, 1, _any_number, deleted, common),
        TopicPlan(
            topics.signed, 1, _exactly(1, "the order of arrival is that of one log"), log,
            (*common, _log_time(settings), _LOG_BYTES, _LOG_STAMPS),
        ),
        TopicPlan(
            topics.links, settings.shards, _at_least(settings.shards), log,
            (*common, _FOREVER, _LOG_BYTES, _LOG_STAMPS),
        ),
        TopicPlan(topics.candidates, settings.documents_partitions, _any_number, deleted, common),
        TopicPlan(topics.settings, 1, _exactly(1, "the first record is its owner"), log, (*common, _KEPT, _LOG_BYTES)),
    ]  # fmt: skip
    if not settings.verdicts:
        return plans
    milliseconds = max(settings.retention_seconds * _MILLISECONDS, log_milliseconds_min(settings))
    kept = {**log, "retention.ms": str(milliseconds)}
    compacted = {key: value for key, value in log.items() if not key.startswith("retention")}
    compacted["cleanup.policy"] = "compact"
    stateful, partitions = (_COMPACTED, _CLEAN_LEADER, size), settings.documents_partitions
    return [
        *plans,
        TopicPlan(
            topics.verdicts, partitions, _any_number, kept,
            (*common, _log_time(settings), _LOG_BYTES, _LOG_STAMPS),
        ),
        TopicPlan(topics.clusters, partitions, _any_number, compacted, stateful),
        TopicPlan(topics.originals, 1, _exactly(1, "a restart reads the steps in one order"), compacted, stateful),
        TopicPlan(topics.sources, 1, _exactly(1, "a restart reads the ledger in one order"), compacted, stateful),
        TopicPlan(
            topics.unique, partitions, _any_number, {**deleted, **ahead, "message.timestamp.type": "CreateTime"}, common
        ),
    ]  # fmt: skip


# Shown instead of a value that the broker does not have or does not show to this user.
UNSEEN = "not to be seen"
# The key of the finding about the number of partitions.
PARTITIONS = "partitions"


def judge(plan: TopicPlan, partitions: int, configs: Mapping[str, str]) -> list[Finding]:
    """Return the relevant settings of a topic with their problems: partitions, rules, then settings of its creation."""
    findings = [Finding(PARTITIONS, str(partitions), plan.partitions_problem(partitions))]
    rules = {rule.key: rule for rule in plan.rules}
    for key in dict.fromkeys([*rules, *plan.configs]):
        value, rule = configs.get(key), rules.get(key)
        if value is None:
            findings += [Finding(key, UNSEEN, "")] if rule is not None else []
            continue
        wrong = rule is not None and not rule.is_safe(value)
        findings.append(Finding(key, value, rule.why if rule is not None and wrong else ""))
    return findings


def judge_together(settings: StreamSettings, findings: Mapping[str, Sequence[Finding]]) -> dict[str, list[Finding]]:
    """Return the findings of several topics: a problem if a topic of verdicts has fewer partitions than ``documents``,
    a warning if ``documents`` takes messages that ``documents.unique`` does not take."""
    topics = names_of(settings).topics
    limits = {
        name: int(row.value)
        for name in (topics.documents, topics.unique)
        for row in findings.get(name, ())
        if row.key == _SIZE_KEY and row.value != UNSEEN
    }
    judged = {name: list(rows) for name, rows in findings.items()}
    for name in (topics.verdicts, topics.unique):
        if name in judged:
            judged[name] = _as_many(judged[name], judged.get(topics.documents, ()))
    if len(limits) < 2 or limits[topics.documents] <= limits[topics.unique]:
        return judged
    text = (
        f"is more than the {limits[topics.unique]} of {topics.unique}: signers refuse documents of more than "
        f"{settings.client.request_bytes_max} bytes (max.request.size of kafka_config), unpacked, as dead letters "
        "(message_too_large)"
    )
    judged[topics.documents] = [
        row._replace(warning=text) if row.key == _SIZE_KEY else row for row in judged[topics.documents]
    ]
    return judged


def _as_many(rows: list[Finding], documents: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a topic of verdicts, with a problem if it has fewer partitions than ``documents``."""
    wanted = next((int(row.value) for row in documents if row.key == PARTITIONS), 0)
    how = f"neardup topics create --grow --documents-partitions {wanted}"
    problem = f"must be at least {wanted}, as many as documents has ({how})"
    return [row._replace(problem=problem) if row.key == PARTITIONS and int(row.value) < wanted else row for row in rows]


def refusal(findings: Mapping[str, Sequence[Finding]]) -> str:
    """Return a sentence with all problems of topics and the remedy; empty if there are none."""
    rows = [(name, row) for name, judged in findings.items() for row in judged if row.problem]
    wrong = "; ".join(f"{name}: {row.key}={row.value} {row.problem}" for name, row in rows)
    return f"{wrong}; alter it with the tools of Kafka" if wrong else ""


def warnings(findings: Mapping[str, Sequence[Finding]]) -> str:
    """Return a sentence with all recommended changes; empty if there are none."""
    topics: dict[str, list[str]] = {}
    for name, judged in findings.items():
        for row in judged:
            if row.warning:
                topics.setdefault(f"{row.key}={row.value} {row.warning}", []).append(name)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in topics.items())


def judge_wanted(settings: StreamSettings) -> list[tuple[str, Finding]]:
    """Return problems of the settings themselves, before anything is created: topic and finding."""
    return [
        (plan.name, finding)
        for plan in topic_plans(settings)
        for finding in judge(plan, plan.partitions, plan.configs)
        if finding.problem
    ]


def _any_number(partitions: int) -> str:
    return ""


def _exactly(wanted: int, why: str) -> Callable[[int], str]:
    return lambda partitions: "" if partitions == wanted else f"must be {wanted}: {why}"


def _at_least(wanted: int) -> Callable[[int], str]:
    why = f"must be at least {wanted}: each is a shard of the documents (neardup topics shards adds some)"
    return lambda partitions: "" if partitions >= wanted else why


def _aligned(lateness_seconds: float) -> Callable[[int], str]:
    """Signers keep partitions within half of the lateness of each other. The delays of the signers must fit in this
    time."""
    problem = (
        f"must be 1 while lateness_seconds is {lateness_seconds:g}: several partitions are not read in one order of "
        f"time; set lateness_seconds to {LATENESS_SECONDS_MIN:g} or more for all workers"
    )
    return lambda partitions: problem if partitions > 1 and lateness_seconds < LATENESS_SECONDS_MIN else ""


def _log_time(settings: StreamSettings) -> Rule:
    least = log_milliseconds_min(settings)
    return Rule(
        "retention.ms",
        lambda value: int(value) == -1 or int(value) >= least,
        f"must be -1, or at least {least} (window, lateness and a day): younger records are live",
    )


def _must(key: str, wanted: str, why: str) -> Rule:
    return Rule(key, lambda value: value == wanted, f"must be {wanted}: {why}")


_NOT_COMPACTED = _must("cleanup.policy", "delete", "compaction removes records that were not read yet")
_COMPACTED = _must(
    "cleanup.policy",
    "compact",
    "it holds the last state of each cluster, story or source, and a linker reads all of it when it starts",
)
_FOREVER = _must("retention.ms", "-1", "linkers alone drop what is decided, and nothing may go before")
_KEPT = _must("retention.ms", "-1", "it says who owns the prefix, and which settings are in force")
_CLEAN_LEADER = _must("unclean.leader.election.enable", "false", "a leader that lags would truncate what is committed")
_NOT_AHEAD = Rule(
    "message.timestamp.after.max.ms",
    lambda value: int(value) <= _AHEAD_MILLISECONDS_MAX,
    f"must be at most {_AHEAD_MILLISECONDS_MAX}: a message from the far future would expire the windows",
)
_LOG_BYTES = _must("retention.bytes", "-1", "a full log would drop records of the window")
_DOCUMENTS_STAMPS = _must(
    "message.timestamp.type", "CreateTime", "signers align partitions by the times that producers give their messages"
)
_LOG_STAMPS = _must(
    "message.timestamp.type",
    "LogAppendTime",
    "with the producers' times, late documents would let retention delete fresh data",
)
