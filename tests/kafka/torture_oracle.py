"""Documents for the torture of the workers, and the verdict on what came out: brute force over committed documents.

The verdict looks at two topics alone, read committed: which documents are there, and which candidates. Bands are
compared as bytes of the sketches and the similarity is counted from them, so of the library only signing is trusted.
A pair of distinct contents is promised once if all documents of both lie within one window, and forbidden if no two of
them do; n copies of one content are promised n - 1 links that join them. What is neither is counted as undecided.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np

from stream.config import Config
from stream.documents import Document
from stream.pipeline import Signer

WORDS = 60
FAMILY_MAX = 30  # far below bucket_candidates_max, which may cut nothing here
JITTER_SECONDS = 20.0
MICROSECONDS = 1_000_000
EPOCH_SECONDS = 1_700_000_000
EXAMPLES_MAX = 5


class _Family:
    def __init__(self, at: int, words: list[str]) -> None:
        self.at, self.texts, self.echoed = at, [words], False


def documents(count: int, window: int, seed: int) -> list[dict[str, object]]:
    """A document a second: new ones, copies, near-copies, and echoes, which come when a window is over.

    A family (a new text, its copies and near-copies) lasts a third of a window, and is echoed once at most, by a
    near-copy later than a window after its last member: so every pair is either promised or forbidden.
    """
    chance = random.Random(seed)
    lexicon = [f"word{i}" for i in range(4_000)]
    families: list[_Family] = []
    recent = 0  # the first family that may still grow
    old = 0  # the first that has not been looked at for an echo
    out = []
    for i in range(count):
        while recent < len(families) and families[recent].at < i - window // 3:
            recent += 1
        while old < len(families) and families[old].at < i - window // 3 - window - 3 * JITTER_SECONDS:
            old += 1
        draw = chance.random()
        family = chance.choice(families[recent:]) if recent < len(families) else None
        echo = families[chance.randrange(old)] if old else None
        if family is not None and draw < 0.40 and len(family.texts) < FAMILY_MAX:
            words = list(chance.choice(family.texts))
            if draw > 0.12:
                _edit(words, lexicon, chance)
            family.texts.append(words)
        else:
            words = [chance.choice(lexicon) for _ in range(WORDS)]
            if echo is not None and draw > 0.95 and not echo.echoed:
                echo.echoed, words = True, list(echo.texts[0])
                _edit(words, lexicon, chance)
            families.append(_Family(i, words))
        seconds = EPOCH_SECONDS + i + round(chance.uniform(-JITTER_SECONDS, JITTER_SECONDS), 3)
        out.append({"id": f"d{i}", "text": " ".join(words), "timestamp": seconds})
    return out


def _edit(words: list[str], lexicon: Sequence[str], chance: random.Random) -> None:
    """From one word to so many that the similarity falls below the cut."""
    for _ in range(chance.choice((1, 1, 2, 3, 4, 6, 8))):
        words[chance.randrange(WORDS)] = chance.choice(lexicon)


class Seen(NamedTuple):
    """One committed document."""

    id: str
    time: int  # microseconds
    content: int


@dataclass
class Verdict:
    """What is committed, against what is promised; ``examples`` tell of the first of each kind of fault."""

    documents: int = 0
    published: int = 0
    expected: int = 0  # pairs of distinct contents
    links: int = 0  # between copies
    forbidden: int = 0  # similar enough, but apart in time
    undecided: int = 0
    lost: int = 0
    repeated: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.lost and not self.repeated and not self.wrong

    def fault(self, kind: str, what: object, count: int = 1) -> None:
        if count:
            setattr(self, kind, getattr(self, kind) + count)
            if sum(line.startswith(kind) for line in self.examples) < EXAMPLES_MAX:
                self.examples.append(f"{kind}: {what}")


class Sketches:
    """The distinct contents of documents, and the similarity of those that share a band."""

    def __init__(self, config: Config, rows: Sequence[Mapping[str, object]]) -> None:
        signed = Signer(config).sign([Document(str(row["id"]), str(row["text"]), row["timestamp"]) for row in rows])  # type: ignore[arg-type]
        assert not signed.refusals, signed.refusals[:3]
        batch, tuning = signed.batch, config.tuning
        assert tuning.sketch_bits == 8, "a row is a byte here"
        numbers: dict[bytes, int] = {}
        first: list[int] = []  # the row that a content came with
        contents = []
        for i, row in enumerate(batch.contents):
            contents.append(numbers.setdefault(row.tobytes(), len(first)))
            if contents[-1] == len(first):
                first.append(i)
        self.seen = {
            str(row["id"]): Seen(str(row["id"]), time, content)
            for row, time, content in zip(rows, batch.times.tolist(), contents, strict=True)
        }
        evidence = batch.fixed[first].reshape(len(first), tuning.bands, tuning.rows)
        self.pairs: dict[tuple[int, int], tuple[float, int]] = {}  # similarity and bands in common
        for a, b in _sharing(evidence):
            equal = evidence[a] == evidence[b]
            similarity = float(np.clip((equal.mean() - 2.0**-8) / (1 - 2.0**-8), 0, 1))
            if similarity >= tuning.score_min:
                self.pairs[a, b] = similarity, int(equal.all(axis=1).sum())


def _sharing(evidence: np.ndarray) -> set[tuple[int, int]]:
    """The pairs, smaller number first, that have the bytes of a band in common."""
    pairs: set[tuple[int, int]] = set()
    for band in range(evidence.shape[1]):
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for number, rows in enumerate(evidence[:, band]):
            buckets[rows.tobytes()].append(number)
        for bucket in buckets.values():
            pairs.update(combinations(bucket, 2))
    return pairs


def judge(rows: Sequence[Mapping[str, object]], values: Iterable[bytes], config: Config) -> Verdict:
    """Compare committed documents with the committed values of ``candidates``."""
    assert len({row["id"] for row in rows}) == len(rows), "an id was loaded twice: a fault of the harness"
    sketches, out = Sketches(config, rows), Verdict(documents=len(rows))
    window = round((config.window_seconds or 0) * MICROSECONDS)
    members: dict[int, list[Seen]] = defaultdict(list)
    for one in sketches.seen.values():
        members[one.content].append(one)
    published: Counter[tuple[int, int]] = Counter()
    links: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for value in values:
        out.published += 1
        pair = json.loads(value)
        older, newer = sketches.seen.get(pair.get("older")), sketches.seen.get(pair.get("newer"))
        if older is None or newer is None:
            out.fault("wrong", f"of a document that is not there: {pair}")
            continue
        a, b = sorted((older.content, newer.content))
        similarity, buckets = sketches.pairs.get((a, b), (0.0, 0)) if a != b else (1.0, config.tuning.bands)
        right = (
            buckets > 0
            and abs(pair["similarity"] - similarity) < 1e-3
            and pair["buckets"] == buckets
            and newer.time - older.time <= window
            and (older.time, older.id) < (newer.time, newer.id)
        )
        if not right:
            out.fault("wrong", f"{pair}; expected similarity {similarity}, buckets {buckets}; {older} {newer}")
        elif a == b:
            links[a].append((older.id, newer.id))
        else:
            published[a, b] += 1
    _judge_pairs(out, sketches, members, published, window)
    _judge_links(out, members, links, window)
    return out


def _judge_pairs(
    out: Verdict,
    sketches: Sketches,
    members: Mapping[int, list[Seen]],
    published: Counter[tuple[int, int]],
    window: int,
) -> None:
    for a, b in sketches.pairs:
        found, what = published[a, b], (members[a], members[b])
        nearest = min(abs(one.time - other.time) for one in members[a] for other in members[b])
        if _extent(members[a] + members[b]) <= window:
            out.expected += 1
            out.fault("lost", what, int(found == 0))
            out.fault("repeated", f"{found} times: {what}", max(0, found - 1))
        elif nearest > window:
            out.forbidden += 1
            out.fault("wrong", f"apart in time: {what}", found)
        else:
            out.undecided += 1


def _judge_links(
    out: Verdict, members: Mapping[int, list[Seen]], links: Mapping[int, list[tuple[str, str]]], window: int
) -> None:
    for content, group in members.items():
        if _extent(group) > window:
            out.undecided += 1
            continue
        out.links += len(group) - 1
        root = {one.id: one.id for one in group}
        joined = 0
        for older, newer in links[content]:
            a, b = _root(root, older), _root(root, newer)
            out.fault("repeated", f"link {older} {newer} of {group}", int(a == b))
            joined += a != b
            root[a] = b
        out.fault("lost", f"links {links[content]} of {group}", len(group) - 1 - joined)


def _root(root: dict[str, str], name: str) -> str:
    while root[name] != name:
        name = root[name]
    return name


def _extent(group: Sequence[Seen]) -> int:
    times = [one.time for one in group]
    return max(times) - min(times)
