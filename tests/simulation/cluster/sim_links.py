"""A linker with ``signed`` and ``links`` written by the test, in any order that signers and matchers can produce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from topics_world import TopicsWorld, turns

from neardup.pairs.batches import id_columns
from neardup.pairs.shards import table_limits
from neardup.schemes.config import Config
from neardup.schemes.interface import fixed_evidence
from neardup.schemes.rows import SCHEMES
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.deciding import verdict_limits
from neardup.stories.verdicts.rule import DOCUMENT, REFUSAL, REMOVAL
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.topics.links import NO_PROGRESS, LinkMessage, Links, encode_links, similarity_steps
from neardup_workers.outside.topics.names import LINK, generation, topic_names
from neardup_workers.outside.topics.places import place_of
from neardup_workers.outside.topics.shown import encode_shown
from neardup_workers.outside.topics.signed import SignedRows, encode_signed, position_of
from neardup_workers.outside.topics.verdicts import parse_run

CONFIG = Config(window_seconds=100.0, lateness_seconds=10.0)
FINGERPRINT = CONFIG.signing_fingerprint
SECOND = 1_000_000
KINDS = {"-": REMOVAL, "!": REFUSAL}


def _sketch(content: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The evidence of a content: those that begin with the same letter are pairs, no others."""
    sketch = np.random.default_rng(ord(content[0]) if content else 0).integers(0, 256, CONFIG.plan.width, np.uint8)
    if len(content) > 1:
        sketch[np.random.default_rng(number_of(content)).integers(0, CONFIG.plan.width, 4)] += 1
    return sketch


def number_of(content: str) -> int:
    """The hash of a content."""
    return int.from_bytes(content.encode())


class LinkWorld(TopicsWorld):
    """Topics of a linker with some shards; documents are in partition 0, offset by offset."""

    def __init__(self, shards: int = 1, **plan: Any) -> None:
        self.topics = topic_names("", generation(FINGERPRINT, shards))
        topics = self.topics
        super().__init__({
            topics.signed: 1, topics.links: shards, topics.verdicts: 2, topics.clusters: 1, topics.originals: 1,
            topics.sources: 1,
        })  # fmt: skip
        limits = verdict_limits(CONFIG, table_limits(CONFIG, SCHEMES[CONFIG.scheme]))
        self.plan = LinkPlan(CONFIG, self.topics, shards, 1, limits, "earliest", False, "matchers")._replace(**plan)
        self.metrics = Metrics(LINK)
        self.offsets: dict[str, int] = {}
        self.contents: dict[str, str] = {}
        self.ranks: dict[str, float] = {}  # of ids that have one, for ``arrive``
        self.sources: dict[str, str] = {}  # the same
        self.sent = 0
        self.positions = [0]  # before each row of ``signed``, then at its end
        self.linker = self.start()

    def start(self, name: str = "one") -> LinkWorker:
        """Start a new linker in the place of the previous one."""
        self.linker = LinkWorker(self.member(self.topics.signed, "linkers", name, self.metrics), self.plan)
        return self.linker

    def arrive(self, *rows: tuple[str, str, float]) -> None:
        """Write the rows of one record: id (``-id`` a removal, ``!`` a refusal), content, seconds."""
        names = [id_.lstrip("-!") for id_, _, _ in rows]
        kinds = [KINDS.get(id_[0], DOCUMENT) for id_, _, _ in rows]
        for name, kind in zip(names, kinds, strict=True):
            if kind == DOCUMENT:
                self.offsets[name] = self.sent
            self.sent += 1
        places = np.arange(self.sent - len(rows), self.sent) + place_of(0, 0)
        documents = [row for row, kind in zip(rows, kinds, strict=True) if kind == DOCUMENT]
        times = np.array([round(at * SECOND) for _, _, at in documents], np.int64)
        self.contents.update((name, content) for name, content, _ in documents)
        contents = np.array([2 * [number_of(content)] for _, content, _ in documents], np.uint64)
        sketches = [_sketch(content) for _, content, _ in documents]
        evidence = fixed_evidence(np.array(sketches, np.uint8).reshape(len(documents), CONFIG.plan.width))
        ranks = np.array([self.ranks.get(name, NO_RANK) for name in names])
        columns = id_columns([name.encode() for name in names])
        shown = encode_shown([(self.sources.get(name), None, None) for name, _, _ in documents])
        made = SignedRows(
            np.array(kinds, np.uint8), places, *columns, ranks, times, contents.reshape(-1, 2), evidence, shown
        )  # fmt: skip
        (value,) = encode_signed(made, FINGERPRINT)
        offset = self.memory.append(self.topics.signed, 0, value)
        self.positions[-1:] = [position_of(offset, row) for row in range(len(rows))] + [position_of(offset + 1)]

    def link(
        self, pairs: Sequence[tuple[str, str, float]] = (), done: tuple[int, int] | None = None, shard: int = 0
    ) -> None:
        """Write one record of links: pairs of ids with their similarity, and the progress of a shard from one row of
        ``signed`` to another."""
        sides = [sorted(pair[:2], key=lambda id_: self.offsets[id_]) for pair in pairs]
        earlier, later = (
            np.array([place_of(0, self.offsets[ids[side]]) for ids in sides], np.int64) for side in (0, 1)
        )
        contents = [
            np.array([number_of(self.contents[ids[side]]) for ids in sides], np.uint64) for side in (1, 0)
        ]  # fmt: skip
        links = Links(later, earlier, *contents, similarity_steps(np.array([pair[2] for pair in pairs])))
        progress = (NO_PROGRESS, NO_PROGRESS) if done is None else tuple(self.positions[row] for row in done)
        for value in encode_links(LinkMessage(links, *progress), FINGERPRINT):
            self.memory.append(self.topics.links, shard, value)

    def turns(self, count: int = 4) -> LinkWorld:
        turns(self.linker, count=count)
        return self

    def representatives(self) -> list[str]:
        """The best members of the cluster that changed last, best first."""
        last = self.memory.records(self.topics.clusters)[-1]
        return [member["id"] for member in orjson.loads(last.value or b"")["representatives"]]

    def verdicts(self) -> list[str]:
        """``id status original`` of each verdict in order, without missing ids and originals."""
        lines = [line for record in self.memory.records(self.topics.verdicts) for line in parse_run(record.value)]
        return [" ".join(filter(None, [x.get("id"), x["status"], x.get("duplicate_of")])) for x in lines]
