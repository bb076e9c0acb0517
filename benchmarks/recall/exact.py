"""S9: the exact rows: speed on short real texts next to ``one_permutation`` and an exact join; recall.

All contenders start from the texts and return pairs, except SetSimilaritySearch: ``all_pairs`` gets ready-made sets of
numbers of distinct contents, all at once, so its time contains no reading. It computes the frequencies itself.
``prefix`` runs with an order of tokens learned on a tenth of the texts, and without an order.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import interleaved
from benchmarks.real import DATA, REAL_SETS, bags, read_documents
from benchmarks.recall.sets import measure
from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import KINDS, similar_pairs
from benchmarks.texts import documents as generated
from neardup import Config, Deduplicator, Document, Pair
from neardup.features.tokens.token_order import NO_FREQUENCIES, TokenOrder, counted, most_frequent
from neardup.schemes.rows import SCHEMES

SEED = 9
ID, RECALL = "S9-exact-short-texts", "S9-exact-recall"
SETS = ("itn_multilingual char5", "ja_jglue char3")
THRESHOLD = 0.9
PEER = "SetSimilaritySearch"
# An exact row may be so many times slower than one_permutation; without an order of tokens there is no target.
SLOWER_MAX_OF = {"prefix, learned order": 3.0, "identical": 1.0}
# Every so many-th text is in the sample that the order is learned on.
_SAMPLE = 10
_ORDER_TOKENS = 1 << 16
_DOCUMENTS: dict[Size, int | None] = {"smoke": 200, "default": None, "large": None}
_REPEATS = 5
# Sizes of unions that have pairs of every threshold measured, and how many such pairs.
_UNIONS = (10, 20, 50, 500, 5000)
_PAIRS: dict[Size, int] = {"smoke": 40, "default": 2000, "large": 20_000}


def learned(documents: list[Document], config: Config) -> Config:
    """The configuration with the order of the tokens in some documents."""
    values = SCHEMES["prefix"].features(documents, config.plan).features.values
    order = TokenOrder(most_frequent(counted(NO_FREQUENCIES, values, 16 * _ORDER_TOKENS), _ORDER_TOKENS))
    return config.model_copy(update={"scheme_options": {"token_order": order}})


def contents_of(documents: list[Document], config: Config) -> tuple[dict[str, int], list[npt.NDArray[np.uint64]]]:
    """The number of each document's content, and the set of each content."""
    first: dict[bytes, int] = {}
    number: dict[str, int] = {}
    sets: list[npt.NDArray[np.uint64]] = []
    for document, bag in zip(documents, bags(documents, config), strict=True):
        number[document.id] = first.setdefault(bag.tobytes(), len(first))
        if number[document.id] == len(sets):
            sets.append(np.unique(bag))
    return number, sets


def _peer() -> Callable[..., Any] | None:
    try:
        importlib.metadata.version(PEER)
    except importlib.metadata.PackageNotFoundError:
        return None
    from SetSimilaritySearch import all_pairs

    join: Callable[..., Any] = all_pairs
    return join


def run(size: Size) -> Iterator[Result]:
    """For each set of texts: microseconds a document of every contender, and whether the pairs are the true pairs."""
    for name in SETS:
        row = REAL_SETS[name]
        if not (DATA / row.documents[0]).exists():
            yield Result(ID, name, None, "", details={"note": "the folder of real data is not there"})
            continue
        documents = read_documents(row.documents)[: _DOCUMENTS[size]]
        common: dict[str, Any] = {"shingles": row.shingles, "k": row.k, "threshold": THRESHOLD}
        prefix = Config(scheme="prefix", **common)
        configs = {
            "prefix, learned order": learned(documents[::_SAMPLE], prefix),
            "prefix": prefix,
            "identical": Config(scheme="identical", threshold=THRESHOLD),
            "one_permutation": Config(scheme="one_permutation", **common),
        }
        yield from _measured(name, documents, configs, size)


def _measured(name: str, documents: list[Document], configs: dict[str, Config], size: Size) -> Iterator[Result]:
    number, sets = contents_of(documents, configs["prefix"])
    truth = set(similar_pairs(sets, THRESHOLD))
    answers: dict[str, list[Pair]] = {}
    peer = _peer()
    ready = [part.tolist() for part in sets]

    def race(contender: str) -> None:
        answers[contender] = Deduplicator(configs[contender]).process(documents)

    races: dict[str, Callable[[], object]] = {contender: functools.partial(race, contender) for contender in configs}
    if peer is not None:
        races[PEER] = lambda: list(peer(ready, similarity_func_name="jaccard", similarity_threshold=THRESHOLD))
    for contender in configs:
        race(contender)  # the time must not contain compilation
    repeats = dict.fromkeys(races, 1 if size == "smoke" else _REPEATS)
    times = {contender: min(taken) for contender, taken in interleaved(races, repeats).items()}
    for contender, config in configs.items():
        pairs = {tuple(sorted((number[p.older], number[p.newer]))) for p in answers[contender]}
        pairs = {pair for pair in pairs if pair[0] != pair[1]}
        details = {
            "us/document": times[contender] / len(documents) * 1e6,
            "links of copies": len(answers[contender]) - len(pairs),
            "checksum": checksum(answers[contender]),
        }
        if config.scheme != "identical":
            details |= {
                "pairs": len(pairs), "true pairs": len(truth), "missed": len(truth - pairs),
                "below the threshold": len(pairs - truth),
            }  # fmt: skip
        ratio = times[contender] / times["one_permutation"]
        target = Target("at most", SLOWER_MAX_OF[contender]) if contender in SLOWER_MAX_OF else None
        yield Result(ID, f"{name}: {contender}, times one_permutation", ratio, "x", target, details)
    if PEER not in times:
        yield Result(ID, f"{name}: {PEER}", None, "", details={"note": f"{PEER} is not installed"})
        return
    faster = (times[PEER] / len(sets)) / (times["prefix, learned order"] / len(documents))
    details = {"us/document": times[PEER] / len(sets) * 1e6, "documents": len(sets)}
    yield Result(ID, f"{name}: prefix faster than {PEER} by", faster, "x", Target("at least", 1.0), details)


def recall(size: Size) -> Iterator[Result]:
    """The emitted fraction of generated pairs at the threshold: all of them, at every size of the sets."""
    for threshold in (0.5, 0.8, 0.9, 1.0):
        config = Config(scheme="prefix", threshold=threshold)
        for union in _UNIONS:
            got = measure(config, union, threshold, _PAIRS[size], SEED)
            details = {"pairs": got.pairs, "candidates": got.candidates / got.pairs, "checksum": checksum([got])}
            what = f"prefix, union of {union:,}: recall at {threshold}"
            yield Result(RECALL, what, got.emitted / got.pairs, "", Target("equal to", 1.0), details)
    yield from _copies(size)


def _copies(size: Size) -> Iterator[Result]:
    """Repeated texts in another case and with other blanks are found; unrelated texts are never identical."""
    for kind in KINDS:
        distinct = list(dict.fromkeys(one.text for one in generated(kind, _PAIRS[size], SEED)))
        texts = [Document(str(i), text) for i, text in enumerate(distinct)]
        again = [Document(f"copy of {one.id}", f"  {one.text.upper()}\n") for one in texts]
        found = Deduplicator(Config(scheme="identical")).process(texts + again)
        right = {(one.id, copy.id) for one, copy in zip(texts, again, strict=True)}
        hits = {(pair.older, pair.newer) for pair in found}
        assert hits <= right, "texts that differ were called identical"
        details = {"pairs": len(right), "checksum": checksum(found)}
        what = f"identical, {kind} texts: recall of copies"
        yield Result(RECALL, what, len(hits) / len(right), "", Target("equal to", 1.0), details)


SCENARIOS = {ID: run, RECALL: recall}
