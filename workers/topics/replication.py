"""How many copies of each record exist: what new topics are made with, and what is wrong with those that exist.

A write is committed when ``min.insync.replicas`` nodes have it. So what is committed survives the loss of a node only
if that number is at least two; and writes go on without a node only if there are more replicas than that.
"""

from __future__ import annotations

from collections.abc import Mapping

from workers.settings.kafka import StreamSettings
from workers.topics.rules import Finding
from workers.transport.protocol import Replication

REPLICAS_KEY, IN_SYNC_KEY = "replication.factor", "min.insync.replicas"
# With three replicas and two in sync, one node may be lost or restarted at a time.
_REPLICAS_WANTED = 3
_SAFE_MIN = 2
_CHOSEN = -1  # of a setting: chosen here


def replicas_wanted(settings: StreamSettings, nodes: int) -> int:
    """Replicas of a new topic: as set, else three, or as many as there are nodes."""
    if settings.replication_factor != _CHOSEN:
        return settings.replication_factor
    return min(_REPLICAS_WANTED, nodes)


def in_sync_wanted(settings: StreamSettings, nodes: int) -> int:
    """Replicas that must have a write of a new topic: as set, else two, or one where there is one replica."""
    if settings.min_insync_replicas != _CHOSEN:
        return settings.min_insync_replicas
    return min(_SAFE_MIN, replicas_wanted(settings, nodes))


def judge_replication(replication: Replication, configs: Mapping[str, str], *, allow_single: bool) -> list[Finding]:
    """Replicas and ``min.insync.replicas`` of a topic, and what is wrong with them.

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
