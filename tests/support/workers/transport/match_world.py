"""A broker in memory with signed documents, and matchers by name, for the tests of the matcher."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from topics_world import TopicsWorld

from neardup import Config, Signer
from neardup.pairs.json_lines import Fields
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.plan import MatchPlan
from neardup_workers.doing.stages.signer import SignPlan, sign_records
from neardup_workers.outside.telemetry.observer import SILENT, Observer
from neardup_workers.outside.topics.messages import Envelope
from neardup_workers.outside.topics.names import generation, topic_names
from neardup_workers.outside.transport.protocol import Record

CONFIG = Config(
    threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5, window_seconds=100.0, lateness_seconds=10.0
)
TOPICS = topic_names("", generation(CONFIG.signing_fingerprint, 2))
SIGN = SignPlan(CONFIG, Fields(), TOPICS, 1, 60.0, "earliest")
ENVELOPE = Envelope("one_permutation", "0123456789ab")
PLAN = MatchPlan(CONFIG, TOPICS, 2, 2, ENVELOPE, start="earliest", allow_gap=False, link_group="linkers")
TEXT = "some words that are long enough to be read and to be compared with others of their kind, one by one"
NOW = 1_600_000_000.0


class MatchWorld(TopicsWorld):
    """Topics with signed documents, and matchers by name."""

    def __init__(self) -> None:
        super().__init__({TOPICS.signed: 1, TOPICS.links: 2, TOPICS.candidates: 2})
        self.signer = Signer(CONFIG)
        self._offset = 0

    def worker(self, name: str = "one", plan: MatchPlan = PLAN, observer: Observer = SILENT) -> MatchWorker:
        return MatchWorker(self.member(TOPICS.links, "matchers", name, observer), plan)

    def documents(self, rows: Sequence[tuple[str, float, str]]) -> None:
        """Write ids, seconds and texts as one step of a signer."""
        values = [orjson.dumps({"id": id_, "text": text, "timestamp": NOW + at}) for id_, at, text in rows]
        self._append([Record(0, i, int((NOW + 10_000) * 1000), None, value) for i, value in enumerate(values)])

    def document(self, name: str, seconds: float = 0.0, text: str = TEXT) -> None:
        self._sign(name, orjson.dumps({"id": name, "text": text, "timestamp": NOW + seconds}))

    def remove(self, name: str) -> None:
        self._sign(name, None)

    def _sign(self, name: str, value: bytes | None) -> None:
        self._offset += 1
        record = Record(0, self._offset, int((NOW + 10_000) * 1000), name.encode(), value)
        self._append([record])

    def _append(self, records: Sequence[Record]) -> None:
        for message in sign_records(records, self.signer, SIGN).messages:
            self.memory.append(message.topic, message.partition, message.value or b"")

    def said(self) -> list[str]:
        out = []
        for record in self.memory.records(TOPICS.candidates):
            fields = orjson.loads(record.value or b"")
            out.append(f"-{fields['removed']}" if "removed" in fields else f"{fields['older']} {fields['newer']}")
        return sorted(out)

    def offsets(self) -> dict[int, int]:
        return self.committed("matchers", TOPICS.links)
