"""S1, S2: text to candidates, end to end, next to the peers; and the memory of each for a document.

``python -m benchmarks.peers NAME SHINGLES DOCUMENTS`` prints the memory of one contender in a separate process.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.contenders import CONTENDERS, IdPairs
from benchmarks.measure import in_subprocess, interleaved, resident_bytes
from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import Ints, char_shingles, documents, jaccard, shingle_sets, similar_pairs, word_shingles
from neardup import Document

SEED = 1
THRESHOLD = 0.8
# Documents in the memory runs. The texts are short: the stored bytes do not depend on their length.
_HELD: dict[Size, int] = {"smoke": 0, "default": 20_000, "large": 200_000}
_WARM_UP: dict[Size, int] = {"smoke": 4, "default": 64, "large": 64}


class Setting(NamedTuple):
    """A scenario: kinds of texts and shingles, number of documents, targets of speed by peer, whether memory counts."""

    kind: str
    shingles: str
    documents: dict[Size, int]
    targets: dict[str, float]
    memory: bool


SETTINGS: dict[str, Setting] = {
    "S1-5kb-chars5": Setting(
        "5kb", "chars", {"smoke": 60, "default": 1500, "large": 10_000},
        {"datasketch": 100, "datasketch-fastest": 20, "rensa": 15, "fastsketchlsh": 15}, memory=True,
    ),
    "S2-300w-words3": Setting(
        "300w", "words", {"smoke": 60, "default": 6000, "large": 60_000}, {"rensa": 4}, memory=False
    ),
}  # fmt: skip


def run(scenario: str, size: Size) -> Iterator[Result]:
    """One row for each contender: how many times faster ``neardup`` is, with details."""
    kind, shingles, counts, targets, weigh = SETTINGS[scenario]
    stream = documents(kind, counts[size], SEED)
    warm_up = documents(kind, _WARM_UP[size], SEED + 1)
    truth = Truth(stream, shingles)
    entrants = {name: row for name, row in CONTENDERS.items() if shingles in row.shingles}
    present = [name for name, row in entrants.items() if row.version]
    answers: dict[str, IdPairs] = {}

    def race(name: str) -> None:
        process = entrants[name].start(shingles, *entrants[name].shape)
        answers[name] = process(stream)

    for name in present:
        entrants[name].start(shingles, *entrants[name].shape)(warm_up)
    repeats = {name: 1 if size == "smoke" else entrants[name].repeats for name in present}
    times = interleaved({name: functools.partial(race, name) for name in present}, repeats)
    for name, row in entrants.items():
        if name not in present:
            yield Result(scenario, row.title, None, "", details={"note": f"{row.package} is not installed"})
            continue
        best = min(times[name])
        ours = min(times["neardup-16x8" if row.shape == (16, 8) else "neardup"])
        details = {
            "documents/s": round(len(stream) / best),
            "us/document": best / len(stream) * 1e6,
            **truth.judge(answers[name]),
            **_held(name, shingles, _HELD[size] if weigh else 0),
            "version": row.version,
            "checksum": checksum(answers[name]),
        }
        target = Target("at least", targets[name]) if name in targets else None
        yield Result(scenario, row.title, best / ours, "times slower", target, details)


class Truth:
    """The exact pairs of a stream, over distinct contents, and the measures of candidates."""

    def __init__(self, stream: list[Document], shingles: str) -> None:
        cut = {"chars": char_shingles, "words": word_shingles}[shingles]
        self.sets: list[Ints] = shingle_sets([document.text for document in stream], cut)
        self.places = {document.id: i for i, document in enumerate(stream)}
        self.pairs = similar_pairs(self.sets, THRESHOLD)

    def judge(self, answers: IdPairs) -> dict[str, Any]:
        """Recall and precision of candidates, against pairs at or above the threshold."""
        found = {tuple(sorted((self.places[a], self.places[b]))) for a, b in answers}
        assert len(found) == len(answers), "a pair was reported twice"
        assert all(a != b for a, b in found), "a document was paired with itself"
        wrong = [pair for pair in found if pair not in self.pairs]
        assert all(jaccard(self.sets[a], self.sets[b]) < THRESHOLD for a, b in wrong), "the oracle missed a pair"
        right = len(found) - len(wrong)
        return {
            "recall": right / len(self.pairs) if self.pairs else 1.0,
            "precision": right / len(found) if found else 1.0,
            "pairs": len(self.pairs),
            "candidates": len(found),
        }


def _held(name: str, shingles: str, count: int) -> dict[str, float]:
    if not count:
        return {}
    answer: dict[str, float] = in_subprocess("benchmarks.peers", name, shingles, str(count))
    return answer


def memory(name: str, shingles: str, count: int) -> dict[str, float]:
    """Bytes stored for a document, id included: growth of resident memory over short documents, 1000 at a time."""
    row = CONTENDERS[name]
    row.start(shingles, *row.shape)(documents("20w", 1000, SEED + 2))  # code and libraries are in memory now
    process = row.start(shingles, *row.shape)
    before = resident_bytes()
    for part in range(count // 1000):
        process(documents("20w", 1000, SEED + 3 + part, edited_fraction=0.0))
    out = {"bytes/document": (resident_bytes() - before) / count}
    dedup = getattr(process, "dedup", None)
    if dedup is not None:
        live, allocated = dedup.matcher.table.memory_bytes()
        out |= {"live bytes/document": live / count, "allocated bytes/document": allocated / count}
    return out


SCENARIOS = {scenario: functools.partial(run, scenario) for scenario in SETTINGS}


if __name__ == "__main__":
    print(json.dumps(memory(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
