"""The values that a seed decides before the first action, and the places of the workers in a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sim_documents import Habits

from neardup.schemes.config import Config
from neardup_workers.doing.stages.filtering.filter import FilterWorker
from neardup_workers.doing.stages.matching.cursors import TRAIL_BYTES
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.sign_worker import SignWorker
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.outside.settings.kafka import LIMITS


class Crash(BaseException):
    """The process ends in the middle of a call."""


@dataclass
class Scenario:
    """The values that a seed decides before the first action."""

    config: Config
    habits: Habits
    documents_partitions: int = 1
    shards: int = 4
    signers: int = 1
    matchers: int = 1
    linkers: int = 0  # none: no verdicts
    filters: int = 0
    forward: tuple[str, ...] = ("original",)
    representative: str = "first"  # or "longest", or "timestamp"
    static: bool = True  # whether members have instance names
    actions: int = 0
    interleaved: float = 0.0  # chance that other workers run before a call
    weights: dict[str, float] = field(default_factory=dict)
    message_bytes: int = 512 << 10
    stretch_records: int = 500
    step_bytes: int = LIMITS.step_bytes_max
    step_pairs: int = LIMITS.step_pairs_max  # and the candidates of a slice
    undecided_max: int = LIMITS.undecided_max
    messages_bytes: int = LIMITS.messages_bytes_max  # of signed in a linker
    step_seconds: float = 0.5  # of a matcher
    link_rows: int = 50_000  # of a linker's step
    link_pairs: int = 1 << 19
    sources_stories: int = 20_000  # stories that change before a linker writes its ledger of sources
    canaries_every: int = 3  # documents
    standbys: int = 0  # of each shard
    trail_bytes: int = TRAIL_BYTES


@dataclass(eq=False)
class Place:
    """The place of a worker; workers come and go."""

    kind: str
    name: str
    static: bool
    worker: SignWorker | MatchWorker | LinkWorker | FilterWorker | None = None
    consumer: Any = None
    producer: Any = None
    paused_until: int = 0
    abandoned: bool = False  # a zombie: another worker has its place
    taken: int = 0
    kept: dict[int, ShardTable] = field(default_factory=dict)  # the tables that the last worker of the process left
