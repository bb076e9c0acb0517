"""S24: after how many documents a fault of one of eight shards is noticed by the canaries in ``signed``; their cost.

A signer writes a stream of a document every two seconds with its canaries; eight shards of one matcher read it, with a
window of six hours. A third of the documents are near-duplicates. Then one shard begins to fail. The figures count
documents of the whole stream.

The cost is the CPU time within the functions of canaries in a signer's steps and in a matcher's, without the broker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import orjson

from benchmarks.recall.canaries import (
    SECONDS,
    STEP,
    WARM,
    WINDOW,
    WORDS,
    Spent,
    Watched,
    lose_a_band_of,
    noticed,
    silent,
)
from benchmarks.report import Result, Size, Target
from benchmarks.texts import documents as texts_of
from neardup import Config, Signer
from neardup.pairs.json_lines import Fields
from neardup.pairs.shards import Shard
from neardup.stories.canaries.allowance import Allowance
from neardup.stories.canaries.looks import Looks
from neardup_workers.doing.stages.canary_writer import CanaryWriter
from neardup_workers.doing.stages.matching.canaries import ShardLooks
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.stretches import read_stretches
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.signer import SignPlan, sign_records
from neardup_workers.outside.settings.serve import LIMITS
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.names import generation, topic_names
from neardup_workers.outside.topics.signed import position_of
from neardup_workers.outside.transport.protocol import Record

ID, COST, SEED = "S24-shard-faults", "S24-shard-cost", 24
SHARDS, _SHARD, _EVERY, _NOTICED_MIN = 8, 3, 100, 0.95
_STREAMS: dict[Size, int] = {"smoke": 1, "default": 20, "large": 100}
# Documents of the healthy stream, each with a canary.
_HEALTHY: dict[Size, int] = {"smoke": 2_560, "default": 20_000, "large": 200_000}
_COST_DOCUMENTS: dict[Size, int] = {"smoke": 400, "default": 100_000, "large": 1_000_000}
_COST_TURNS: dict[Size, int] = {"smoke": 1, "default": 3, "large": 9}
_COST_STEP, _COST_MAX = 2_000, 0.01
_PER_SECOND = LIMITS.canaries_per_second_max
_COSTS = Config(window_seconds=1e6)
_TOPICS = topic_names("", generation(WINDOW.signing_fingerprint, SHARDS))


def texts(rng: random.Random) -> Iterator[str]:
    """Texts of 3 to 60 words; a third have a word of one of the last hundred changed, or none."""
    recent: list[list[str]] = []
    while True:
        words = rng.choices(WORDS, k=rng.randint(3, 60))
        if recent and rng.random() < 1 / 3:
            words = list(rng.choice(recent))
            words[rng.randrange(len(words))] = rng.choice([*WORDS[:3], words[0]])
        recent = [*recent[-99:], words]
        yield " ".join(words)


class World(Watched):
    """A signer, the log, and the shards of one matcher."""

    def __init__(self, seed: int, every: int = _EVERY) -> None:
        self._texts = texts(random.Random(seed))
        self._signer, self._writer = Signer(WINDOW), CanaryWriter(WINDOW, every)
        self._plan = SignPlan(WINDOW, Fields(), _TOPICS, 1, 1e9, "earliest")
        self.log: list[Record] = []
        self.tables = [ShardTable(WINDOW, Shard(shard, SHARDS)) for shard in range(SHARDS)]
        self.canaries = ShardLooks(WINDOW, Observer(), on=True)

    @property
    def looks(self) -> Looks:
        """What came of its canaries."""
        return self.canaries.looks

    def run(self, documents: int) -> None:
        """Run until so many documents came in all."""
        while self.documents < documents:
            self._write()
            (stretch,) = read_stretches(self.log[-1:], WINDOW)
            for table in self.tables:
                first = table.position
                for _ in table.apply(stretch):
                    pass
                table.commit()
                self.canaries.look(table, first, [stretch])

    def restored(self, shard: int, *, lacks_last: bool = False) -> ShardTable:
        """Return a table of a shard that is restored from the log, without its last step if it ``lacks_last``."""
        place = self.tables[shard].committed()
        window, end = decode_window(place.metadata), position_of(place.offset)
        table = ShardTable(WINDOW, Shard(shard, SHARDS), window)
        stretches = list(read_stretches(self.log[window.start :], WINDOW))
        for stretch in stretches:
            until = position_of(len(self.log) - 1) if lacks_last else end
            for _ in table.apply(stretch.until(until), publish=False):
                pass
        table.skip_to(end)
        table.commit()
        self.canaries.restored(table, stretches)
        return table

    def _write(self) -> None:
        """Sign a step of documents into one message."""
        records = []
        for n in range(self.documents, self.documents + STEP):
            time = SECONDS * n
            value = orjson.dumps({"id": f"d{n}", "text": next(self._texts), "timestamp": time})
            records.append(Record(0, n, round(time * 1e3), None, value))
        self._writer.begin(1.0)
        (message,) = sign_records(records, self._signer, self._plan, canaries=self._writer).messages
        self.log.append(Record(0, len(self.log), 0, None, message.value))
        self.documents += STEP


def _lose_a_band(world: World) -> None:
    """From now on the shard does not add the key of one band."""
    lose_a_band_of(world.tables[_SHARD].matcher.table)


def _shorten_the_window(world: World) -> None:
    """From now on documents leave the shard an hour early."""
    table = world.tables[_SHARD].matcher.table
    table.limits = table.limits._replace(window=table.limits.window - 3_600_000_000)


def _restore_without_the_last_step(world: World) -> None:
    """A member takes the shard over, and its table lacks the last message."""
    world.tables[_SHARD] = world.restored(_SHARD, lacks_last=True)


FAULTS: dict[str, Callable[[World], None]] = {
    "a lost band": _lose_a_band,
    "a window an hour short": _shorten_the_window,
    "a restore without its last step": _restore_without_the_last_step,
}


def run(size: Size) -> Iterator[Result]:
    """Each fault in one shard on its streams, and a healthy stream with restores."""
    within = Target("at least", _NOTICED_MIN) if size != "smoke" else None
    faults = {f"{name} of one of {SHARDS}": fault for name, fault in FAULTS.items()}
    yield from noticed(ID, faults, _warm, _STREAMS[size], within)
    healthy = World(SEED, every=1)
    for part in range(1, 5):
        healthy.run(part * _HEALTHY[size] // 4)
        healthy.tables = [healthy.restored(shard) for shard in range(SHARDS)]
    yield silent(ID, healthy, restores=4 * SHARDS)


def _warm(seed: int) -> World:
    world = World(seed)
    world.run(WARM)
    assert not world.notices, f"seed {seed} notices {world.notices} before the fault"
    return world


class Cpu(NamedTuple):
    """CPU seconds: all, and those within the functions of canaries."""

    all: float
    canaries: float


def cost(size: Size) -> Iterator[Result]:
    """What canaries add to the CPU time of a signer and of matchers with two and with eight shards, each as busy as it
    can be: the time within their functions by all other time. *Difference* is that to runs without, in turns. The
    canaries of a second come in a second of its own."""
    for kind, count in (("20w", _COST_DOCUMENTS[size]), ("5kb", _COST_DOCUMENTS[size] // 10)):
        lines = [orjson.dumps({"id": one.id, "text": one.text}) for one in texts_of(kind, count, SEED)]
        records = [Record(0, n, 1_000 * n, None, line) for n, line in enumerate(lines)]
        _, plain_log = _signed(records, 0, 0.0)
        for user in ("signer", "matcher of 2 shards", f"matcher of {SHARDS} shards"):
            if user == "signer":
                seconds = _signed(records, 0, 0.0)[0].all / count
                plain, watched = (partial(_signing, records, every, seconds) for every in (0, _EVERY))
            else:
                shards = int(user.split()[2])
                seconds = _matched(plain_log, shards).all / count
                _, log = _signed(records, _EVERY, seconds)
                plain, watched = (partial(_matched, one, shards) for one in (plain_log, log))
            watched()  # compiles
            turns = [(plain(), watched()) for _ in range(_COST_TURNS[size])]
            share, difference = (
                float(np.median(column))
                for column in (
                    [cpu.canaries / (cpu.all - cpu.canaries) for _, cpu in turns],
                    [cpu.all / without.all - 1 for without, cpu in turns],
                )
            )
            target = Target("at most", _COST_MAX) if size != "smoke" else None
            details = {"documents": count, "microseconds a document": seconds * 1e6, "difference": difference}
            yield Result(COST, f"{kind}, {user}", share, "of the time", target, details)


def _signing(records: Sequence[Record], every: int, document_seconds: float) -> Cpu:
    return _signed(records, every, document_seconds)[0]


def _signed(records: Sequence[Record], every: int, document_seconds: float) -> tuple[Cpu, list[Record]]:
    """The time of signing records in steps, and the messages. A document takes ``document_seconds`` of the time that
    bounds canaries."""
    signed, log = [0], list[Record]()
    allowance = Allowance(_PER_SECOND, lambda: signed[0] * document_seconds)
    signer, writer = Signer(_COSTS), CanaryWriter(_COSTS, every, allowance)
    plan, spent = SignPlan(_COSTS, Fields(), _TOPICS, 1, 1e9, "earliest"), Spent(writer, "begin", "take", "end")
    began = time.process_time()
    for first in range(0, len(records), _COST_STEP):
        writer.begin(1.0)
        made = sign_records(records[first : first + _COST_STEP], signer, plan, canaries=writer)
        signed[0] += _COST_STEP
        log += [Record(0, len(log) + n, 0, None, message.value) for n, message in enumerate(made.messages)]
    return Cpu(time.process_time() - began, spent.seconds), log


def _matched(log: Sequence[Record], shards: int) -> Cpu:
    """The time of a matcher that reads messages, one a step."""
    tables = [ShardTable(_COSTS, Shard(shard, shards)) for shard in range(shards)]
    canaries = ShardLooks(_COSTS, Observer(), on=True)
    spent, began = Spent(canaries, "look"), time.process_time()
    for record in log:
        (stretch,) = read_stretches([record], _COSTS)
        for table in tables:
            first = table.position
            for _ in table.apply(stretch):
                pass
            table.commit()
            canaries.look(table, first, [stretch])
    return Cpu(time.process_time() - began, spent.seconds)


SCENARIOS = {ID: run, COST: cost}
