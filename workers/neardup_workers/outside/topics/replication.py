"""Replication: the settings of new topics, and a check of existing topics.

A write is committed when ``min.insync.replicas`` nodes have it. So a committed write survives the loss of a node only
if ``min.insync.replicas`` is at least two. Writes continue without a node only if there are more replicas than
``min.insync.replicas``.
"""

from __future__ import annotations

from collections.abc import Mapping

from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.rules import Finding
from neardup_workers.outside.transport.protocol import Replication

REPLICAS_KEY, IN_SYNC_KEY = "replication.factor", "min.insync.replicas"
# With three replicas and two in sync, one node may be lost or restarted at a time.
_REPLICAS_WANTED = 3
_SAFE_MIN = 2
_CHOSEN = -1  # a setting with this value is chosen here


def replicas_wanted(settings: StreamSettings, nodes: int) -> int:
    """Return the replicas of a new topic: the setting, else three, or the number of nodes if it is lower."""
    if settings.replication_factor != _CHOSEN:
        return settings.replication_factor
    return min(_REPLICAS_WANTED, nodes)


def in_sync_wanted(settings: StreamSettings, nodes: int) -> int:
    """Return ``min.insync.replicas`` of a new topic: two, or one if there is one replica."""
    return min(_SAFE_MIN, replicas_wanted(settings, nodes))


def judge_replication(replication: Replication, configs: Mapping[str, str], *, allow_single: bool) -> list[Finding]:
    """Check the replicas and ``min.insync.replicas`` of a topic.

    Too few are a problem on a cluster of several nodes, and a warning on one node, or with ``allow_single``.
    """
    nodes, replicas = replication
    is_refused = nodes > 1 and not allow_single
    remedy = f"; on this cluster of {nodes} nodes allow_single_replica accepts that" if is_refused else ""
    few = (
        f"should be at least {_SAFE_MIN}: what is committed is lost with one disk{remedy}"
        if replicas < _SAFE_MIN
        else ""
    )
    findings = [Finding(REPLICAS_KEY, str(replicas), few if is_refused else "", "" if is_refused else few)]
    if IN_SYNC_KEY not in configs:
        return findings
    in_sync = int(configs[IN_SYNC_KEY])
    problem = warning = ""
    if in_sync > replicas:
        problem = f"must not exceed the number of replicas, {replicas}: the broker refuses every write"
    elif in_sync < _SAFE_MIN <= replicas:
        text = f"should be at least {_SAFE_MIN}: a write is committed when one node has it, and lost with that{remedy}"
        problem, warning = (text, "") if is_refused else ("", text)
    return [*findings, Finding(IN_SYNC_KEY, str(in_sync), problem, warning)]
