"""Lets the simulation act before each call of a worker to its transport, and counts what workers report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from memory_cluster import MemoryCluster

from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.signed import position_of

# Calls that fail, and calls in which a process ends.
FAULTS = (
    "bounds", "group_offsets", "read", "trim", "poll", "committed", "producer", "send", "flush", "send_offsets",
    "send_offsets_after", "commit_before", "commit_after", "abort", "abort_after",
)  # fmt: skip
CRASHES = ("send", "flush", "send_offsets", "send_offsets_after", "commit_before", "commit_after", "poll", "read")


class Watched:
    """A transport, consumer or producer that calls ``before`` ahead of every call."""

    def __init__(self, inner: Any, before: Callable[[str], None]) -> None:
        self._inner, self._before = inner, before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._before(name)
            made = found(*args, **named)
            if name == "reader":  # of all that a reader does only this waits for the broker
                poll = made.poll
                made.poll = lambda *what: (self._before("read"), poll(*what))[1]
            return made

        return call


class Counting(Observer):
    """Counts what all processes ever reported of canaries and of tables."""

    def __init__(self) -> None:
        self.canaries: Counter[str] = Counter()
        self.takeovers: Counter[str] = Counter()
        self.standby_documents = 0

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        if name in ("canaries", "canary_probes"):
            self.canaries[label or name] += int(amount)
        elif name == "takeovers":
            self.takeovers[label] += int(amount)
        elif name == "standby_documents":
            self.standby_documents += int(amount)


def check_fence(worker: object, memory: MemoryCluster) -> None:
    """No standby is ahead of what the owner of its shard, or the linker, has committed."""
    if isinstance(worker, MatchWorker) and worker.standbys.ready:
        offsets = memory.offsets(worker.member.membership.group, worker.plan.topics.links)
        for shard in worker.standbys.ready:
            bound = position_of(offsets[shard].offset, decode_window(offsets[shard].metadata).row)
            assert worker.standbys.tables[shard].position <= bound, f"shard {shard} is ahead of its commit"
    if isinstance(worker, LinkWorker) and worker.held.is_level:
        signed = memory.offsets(worker.member.membership.group, worker.plan.topics.signed)[0]
        assert worker.state.arrivals <= decode_signed_metadata(signed).arrivals, "the standby is ahead of the linker"
