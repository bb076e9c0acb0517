"""S22: a stream divided by document: slots and bytes of a document over all shards, and its cost in each shard.

The same items go to one table and to every table of 8 and of 32 shards. They have the shape of 18 bands of 7 rows. Of
ten, two are edited copies of an item at most 10,000 back (each key is kept with a probability of .5) and one is a copy;
so a shard has to know copies of documents of others: a filter says which (``neardup.stories.windows.seen``), one for
each process, here for all shards. A table has the keys of a row ready, as the shards of one process share them.

``used`` counts what documents take. ``allocated`` adds the slack of the tables; small tables have more of it.

``S22-shards-texts`` gives texts to shards of which each is in a process of its own, with a filter of its own: most
processes, so most memory. Text from templates meets documents of every shard; tables must not hold those for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.real import DATA
from benchmarks.report import Result, Size, Target, checksum
from benchmarks.scripts import generated
from benchmarks.speed.table import empty_table, random_items
from benchmarks.texts import documents as made
from benchmarks.texts import vocabulary
from neardup import Config, Document
from neardup.pairs.pipeline import Matcher
from neardup.pairs.shards import Shard, shards_of, stream_rows
from neardup.pairs.signing import Signer
from neardup.stories.windows.seen import Seen
from neardup.window import FOREIGN, OWN, Items
from neardup.window.steps import step
from neardup_workers.doing.stages.matching.cursors import seen_bytes_max
from neardup_workers.outside.settings.presets import PRESETS

SEED = 22
ID, TEXTS = "S22-shards", "S22-shards-texts"
_DOCUMENTS: dict[Size, int] = {"smoke": 6_000, "default": 1_000_000, "large": 5_000_000}
SHARDS = (1, 8, 32)
_BATCH, _BACK = 2_000, 10_000
_EDITED, _COPIED, _KEPT = 0.2, 0.1, 0.5
# Of the bytes in one table, with at least so many documents: heads lie in pages, which small tables do not fill.
USED_RATIO_MAX, TARGET_DOCUMENTS = 1.15, 1_000_000
_TEXTS: dict[Size, int] = {"smoke": 1_500, "default": 300_000, "large": 1_000_000}
# A text from a template has so many words of it; one in ten is a copy, one in ten has one or two other words.
_TEMPLATES, _TEMPLATE_WORDS, _WORDS = 50, 40, 60
# Bytes of a document over all matchers at most, by the number of shards, with so many documents of one table's size.
BYTES_MAX, TEXTS_MIN = {8: 600, 32: 650}, 300_000


class Shards(NamedTuple):
    """What a number of shards took: bytes used and allocated over all tables, seconds in all tables, pairs, slots; of
    the filter, bytes and seconds."""

    used: int
    allocated: int
    seconds: float
    pairs: int
    slots: int
    filter_bytes: int
    filter_seconds: float


def batches(documents: int, seed: int) -> Iterator[Items]:
    """Items in order of arrival, some of them like an earlier one."""
    rng = np.random.default_rng(seed)
    before: list[Items] = []
    for first in range(0, documents, _BATCH):
        items = random_items(rng, min(_BATCH, documents - first))
        if before:
            known = np.concatenate([part.keys.reshape(len(part.times), -1) for part in before])
            contents = np.concatenate([part.contents for part in before])
            keys = items.keys.reshape(len(items.times), -1)
            kind = rng.random(len(keys))
            source = rng.integers(0, len(known), len(keys))
            copied, edited = kind < _COPIED, (kind >= _COPIED) & (kind < _COPIED + _EDITED)
            kept = (rng.random(keys.shape) < _KEPT) & edited[:, None]
            kept[:, :2] = False
            kept[copied] = True
            kept[:, 1] = False  # every id is new
            keys[kept] = known[source][kept]
            items.contents[copied] = contents[source[copied]]
        before = [*before, items][-_BACK // _BATCH :]
        yield items


def measure(documents: int, shards: int) -> Shards:
    """Give all items to every shard."""
    tables = [empty_table(documents, is_shard=shards > 1) for _ in range(shards)]
    seen = Seen(tables[0].limits)
    seconds, filter_seconds, pairs = 0.0, 0.0, 0
    for items in batches(documents, SEED):
        owners = shards_of(items.contents, shards)
        start = time.perf_counter()
        seen.mark(items, np.zeros(len(items.times), np.bool_))
        filter_seconds += time.perf_counter() - start
        for number, table in enumerate(tables):
            part = items._replace(kinds=np.where(owners == number, OWN, FOREIGN) | items.kinds)
            start = time.perf_counter()
            table.begin()
            pairs += len(table.probe_add(part).items)
            table.commit()
            seconds += time.perf_counter() - start
        if seen.is_small:
            seen.grow(seen_bytes_max(tables))
    used, allocated = (sum(sizes) for sizes in zip(*(table.memory_bytes() for table in tables), strict=True))
    slots = sum(table.documents for table in tables)
    return Shards(used, allocated, seconds, pairs, slots, seen.memory_bytes, filter_seconds)


def run(size: Size) -> Iterator[Result]:
    """Bytes and cost with 1, 8 and 32 shards."""
    documents = _DOCUMENTS[size]
    measure(3_000, 2)  # compiles
    found = {shards: measure(documents, shards) for shards in SHARDS}
    one, is_judged = found[1], documents >= TARGET_DOCUMENTS
    for shards, reading in found.items():
        name = f"{documents:,} documents, {shards} shards"
        check = checksum([(shards, reading.pairs, reading.slots)])
        details = {"pairs": reading.pairs, "slots per document": reading.slots / documents, "checksum": check}
        limit = Target("at most", USED_RATIO_MAX * one.used / documents) if is_judged and shards > 1 else None
        yield Result(ID, f"{name}: used", reading.used / documents, "B/document", limit, details)
        yield Result(ID, f"{name}: allocated", reading.allocated / documents, "B/document")
        yield Result(ID, f"{name}: filter of a process", reading.filter_bytes / documents, "B/document")
        yield Result(ID, f"{name}: cost in the filter", reading.filter_seconds / documents * 1e6, "us/document")
        cost = reading.seconds / documents / shards * 1e6
        yield Result(ID, f"{name}: cost in a shard", cost, "us/document")
        yield Result(ID, f"{name}: cost in all shards", cost * shards, "us/document")


def templated(count: int) -> Iterator[Document]:
    """Half of the new texts have two thirds of their words from one of 50 templates."""
    rng = np.random.default_rng(SEED)
    known, texts = vocabulary(), list[list[str]]()

    def draw(words: int) -> list[str]:
        return [known[at] for at in rng.integers(len(known), size=words).tolist()]

    templates = [draw(_TEMPLATE_WORDS) for _ in range(_TEMPLATES)]
    for i in range(count):
        kind = rng.random()
        words = list(texts[rng.integers(max(0, i - _BACK), i)]) if i and kind < _COPIED + _EDITED / 2 else draw(_WORDS)
        if i and _COPIED <= kind < _COPIED + _EDITED / 2:
            words[rng.integers(_WORDS)], words[rng.integers(_WORDS)] = draw(2)
        elif kind >= _COPIED + _EDITED / 2 and rng.random() < 1 / 2:
            words[:_TEMPLATE_WORDS] = templates[rng.integers(_TEMPLATES)]
        texts.append(words)
        yield Document(f"templated-{i:010d}", " ".join(words))


def _arabic(count: int) -> Iterator[Document]:
    """Made blurbs, some of them edited copies; a fifth have the first half of the one before them. Their exact shingles
    take so much memory that a third of them must do; all are in the window."""
    before = ""
    for i, document in enumerate(generated("Arabic", count // 3, "20w")):
        text = before[: len(before) // 2] + document.text[len(before) // 2 :] if i % 5 == 0 else document.text
        before = document.text
        yield document._replace(text=text, timestamp=i / 10)


def _news(count: int) -> Iterator[Document]:
    """Real news in 55 languages; none where they are absent."""
    path = DATA / "itn_multilingual" / "docs.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for i, row in enumerate(map(json.loads, lines[:count])):
        yield Document(row["id"], row["text"], timestamp=float(i))


# The settings and the documents of each stream.
_STREAMS: dict[str, tuple[Config, Callable[[int], Iterator[Document]]]] = {
    "ordinary": (Config(), lambda count: iter(made("300w", count, SEED))),
    "templated": (Config(), templated),
    "posts of 20 words": (Config(), lambda count: iter(made("20w", count, SEED))),
    "Arabic news": (Config(**PRESETS["news"].values), _arabic),
    "news in 55 languages": (Config(**PRESETS["news"].values), _news),
}


def measure_texts(config: Config, stream: list[Document], shards: int) -> Shards:
    """Give texts to every shard; each is in a process of its own."""
    signer = Signer(config)
    matchers = [Matcher(config, shard=Shard(number, shards) if shards > 1 else None) for number in range(shards)]
    seen = Seen(matchers[0].table.limits)
    seconds, filter_seconds, pairs = 0.0, 0.0, 0
    for first in range(0, len(stream), _BATCH):
        rows = stream_rows(signer.sign(stream[first : first + _BATCH]).batch, config)
        start = time.perf_counter()
        if shards > 1:
            seen.mark(rows.items, rows.removals)
        filter_seconds += time.perf_counter() - start
        start = time.perf_counter()
        for matcher in matchers:
            with step(matcher.table):
                pairs += sum(len(part.items) for part in matcher.slices_of(rows))
        seconds += time.perf_counter() - start
        if seen.is_small:
            seen.grow(seen_bytes_max(matcher.table for matcher in matchers) // shards)
    used, allocated = (sum(of) for of in zip(*(matcher.table.memory_bytes() for matcher in matchers), strict=True))
    slots = sum(matcher.table.documents for matcher in matchers)
    filters = shards * seen.memory_bytes if shards > 1 else 0
    return Shards(used, allocated, seconds, pairs, slots, filters, filter_seconds)


def run_texts(size: Size) -> Iterator[Result]:
    """Slots and bytes of a document over all matchers."""
    for name, (config, stream) in _STREAMS.items():
        documents = list(stream(_TEXTS[size]))
        if not documents:
            yield Result(TEXTS, name, None, "", details={"note": "the data set is absent"})
            continue
        batch = Signer(config).sign(documents).batch
        count, ragged = batch.size, len(batch.ragged) / batch.size
        for shards in SHARDS:
            found = measure_texts(config, documents, shards)
            details = {
                "documents": count, "pairs": found.pairs, "in tables": found.used / count,
                "in filters": found.filter_bytes / count, "exact evidence": ragged,
                "us in all shards": 1e6 * found.seconds / count,
                "checksum": checksum([(shards, found.pairs, found.slots)]),
            }  # fmt: skip
            what = f"{name}, {shards} shards"
            yield Result(TEXTS, f"{what}: slots", found.slots / count, "/document", Target("equal to", 1), details)
            is_judged = shards in BYTES_MAX and count >= TEXTS_MIN
            limit = Target("at most", BYTES_MAX[shards]) if is_judged else None
            used = (found.used + found.filter_bytes) / count - ragged
            yield Result(TEXTS, f"{what}: used without exact evidence", used, "B/document", limit)


SCENARIOS = {ID: run, TEXTS: run_texts}
