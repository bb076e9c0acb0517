"""Laws of verdicts, for every scheme: each document has one, a duplicate has an original, and a model agrees."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from cases import Case, every_case
from verdict_model import Compared, Event, VerdictModel

from neardup import Config, ConfigError, Deduplicator, Document, Pair, Verdict
from neardup.documents.document import SIGNALS
from neardup.pairs.batches import CONTENT_HALF, MICROSECONDS, bucket_keys
from neardup.pairs.comparing import compared, comparing_limits
from neardup.pairs.pair_rule import compares_directly
from neardup.pairs.window_message import WireError
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts.decisions import Decisions
from neardup.stories.verdicts.kept import Holdings
from neardup.stories.verdicts.row_columns import VerdictLimits
from neardup.stories.verdicts.saved import decode, encode, held_of

TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."


def stream_of(case: Case, seed: int, size: int = 150) -> list[Document]:
    """Documents with an event time each, a minute apart."""
    documents = case.stream(random.Random(seed), size)
    if case.settings.get("novelty") == "words":  # parts of earlier documents
        for n in range(10, size, 10):
            words = documents[n - 7].text.split()
            documents[n] = documents[n]._replace(text=" ".join(words[: len(words) // 3]))
    return [document._replace(timestamp=60.0 * n) for n, document in enumerate(documents)]


def directly(config: Config, documents: Sequence[Document]) -> Callable[[int, int], Compared]:
    """What a comparison of two contents says by their evidence alone, by their hashes (``comparing.compared``)."""
    batch = Deduplicator(config).signer.sign(documents).batch
    row = {int(content): n for n, content in enumerate(batch.contents[:, CONTENT_HALF])}

    def compare(one: int, other: int) -> Compared:
        sides = (batch.evidence.select(np.array([row[content]])) for content in (one, other))
        ((similarity, said, new_numbers, signal),) = compared(config, *sides).tolist()
        return Compared(similarity, said, int(new_numbers), int(signal))

    return compare


def met_in_runs(case: Case, config: Config, documents: Sequence[Document], pairs: Sequence[Pair]) -> list[Pair]:
    """What meets in runs of words alone, which ``process`` does not say. Copies meet nothing."""
    if case.settings.get("novelty") != "words":
        return []
    batch = Deduplicator(config).signer.sign(documents).batch
    keys = bucket_keys(batch, config)
    probed = [keys.values[first:end].tolist() for first, end in pairwise(keys.starts.tolist())]
    held = [set(own[:added]) for own, added in zip(probed, keys.counts_added.tolist(), strict=True)]
    ids, contents = batch.ids_at(np.arange(batch.size)), batch.contents[:, CONTENT_HALF].tolist()
    known, newest, out = {(pair.older, pair.newer) for pair in pairs}, dict[int, int](), []
    for n, content in enumerate(contents):
        for other in newest.values() if content not in newest else ():
            near = batch.times[n] - batch.times[other] <= 3600 * MICROSECONDS
            if near and held[other].intersection(probed[n]) and (ids[other], ids[n]) not in known:
                sides = batch.evidence.select(np.array([n])), batch.evidence.select(np.array([other]))
                common = SCHEMES[config.scheme].common(*sides, config.plan)
                if common.keys[0] == 0:
                    out.append(Pair(ids[other], ids[n], float(common.similarity[0]), 0))
        newest[content] = n
    return out


def modelled(
    case: Case, documents: Sequence[Document], pairs: Sequence[Pair], refused: dict[int, str]
) -> list[Verdict]:
    """Return the model's decisions from the candidates that ``process`` finds; ids are distinct."""
    config = case.config(window_seconds=3600.0)
    place = {document.id: n for n, document in enumerate(documents)}
    signer = Deduplicator(config).signer
    compare = directly(config, documents) if compares_directly(config) else None

    def leads(one: int, other: int, similarity: float) -> bool:
        """Whether two documents that are no pair lead to a story: one of them says nothing new to the other."""
        if compare is None or config.novelty != "words" or similarity < 0.2:
            return False
        contents = [int(signer.sign([documents[n]]).batch.contents[0, CONTENT_HALF]) for n in (one, other)]
        return max(compare(*contents).similarity, compare(*contents[::-1]).similarity) >= 0

    found: dict[int, list[tuple[int, float]]] = {}
    pairs = [*pairs, *met_in_runs(case, config, documents, pairs)]
    for pair in pairs:
        if SCHEMES[config.scheme].shared is not None and pair.similarity < 1:
            continue  # what shares a passage is no duplicate
        earlier, later = sorted((place[pair.older], place[pair.newer]))
        is_pair = pair.similarity >= config.tuning.score_min or pair.signal is not None
        if not is_pair and not leads(later, earlier, pair.similarity):
            continue
        found.setdefault(later, []).append((earlier, float(np.float32(pair.similarity))))
    model = VerdictModel(3600 * MICROSECONDS, 0, SCHEMES[config.scheme].by_content, compare, **comparing_limits(config))
    out = []
    for n, document in enumerate(documents):
        if n in refused:
            out.append(Verdict(document.id, "refused", reason=refused[n]))
            continue
        content = int(signer.sign([document]).batch.contents[0, CONTENT_HALF])
        event = Event(n, content, round(document.timestamp or 0.0) * MICROSECONDS, tuple(found.get(n, ())))
        decision = model.decide(n, event)
        original = None if decision.original is None else documents[decision.original].id
        out.append(
            Verdict(
                document.id,
                decision.status,
                original,
                decision.similarity or None,
                decision.cluster,
                decision.related,
                None,
                decision.matched,
                against=decision.against,
                said=decision.said or None,
                new_numbers=decision.new_numbers or None,
                signal=SIGNALS[decision.signal - 1] if decision.signal else None,
            )
        )
    return out


@every_case
def test_verdicts_equal_those_of_the_model(case: Case) -> None:
    """The model decides from the candidates that ``process`` finds in the same documents."""
    documents = stream_of(case, 1)
    config = case.config(window_seconds=3600.0)
    processed = Deduplicator(config, candidates=True)
    pairs = processed.process(documents)
    refused = {refusal.position: refusal.reason for refusal in processed.refusals}
    found = Deduplicator(config).decide(documents)
    expected = modelled(case, documents, pairs, refused)
    plain = {"similarity": None, "relation": None, "new": ()}
    assert [v._replace(**plain) for v in found] == [v._replace(**plain) for v in expected]
    assert [v.similarity or 0 for v in found] == pytest.approx([v.similarity or 0 for v in expected], abs=1e-6)
    assert {verdict.status for verdict in found} >= {"original", "duplicate"}


@every_case
def test_no_document_is_dropped_without_an_original_that_it_was_compared_with(case: Case) -> None:
    """Contents are compared, not documents: a copy of the original or of the document is enough."""
    documents = stream_of(case, 2)
    config = case.config(window_seconds=3600.0)
    pairs = Deduplicator(config).process(documents)
    signer = Deduplicator(config).signer
    verdicts = Deduplicator(config).decide(documents)
    assert [verdict.id for verdict in verdicts] == [document.id for document in documents]
    content = {
        document.id: int(signer.sign([document]).batch.contents[0, CONTENT_HALF])
        for document, verdict in zip(documents, verdicts, strict=True)
        if verdict.status != "refused"
    }
    compare = directly(config, documents)
    paired = {frozenset((content[pair.older], content[pair.newer])) for pair in pairs}
    status = {verdict.id: verdict.status for verdict in verdicts}
    for verdict in verdicts:
        if verdict.status == "duplicate":
            assert verdict.duplicate_of is not None
            assert status[verdict.duplicate_of] == "original"
            least = 0.0 if config.novelty == "words" else config.tuning.score_min
            assert (verdict.similarity or 0.0) >= least - 1e-6
            assert verdict.matched is not None
            both = content[verdict.id], content[documents[verdict.matched].id]
            compared = compares_directly(config) and compare(*both).similarity == pytest.approx(verdict.similarity)
            assert compared or frozenset(both) in paired


@every_case
def test_a_batch_is_decided_as_its_documents_one_by_one(case: Case) -> None:
    """With versions, copies and expiry."""
    documents = stream_of(case, 3)
    rng = random.Random(3)
    documents = [
        document._replace(id=documents[rng.randrange(n)].id) if n and rng.random() < 0.2 else document
        for n, document in enumerate(documents)
    ]
    whole, single = (Deduplicator(case.config(window_seconds=3600.0)) for _ in range(2))
    assert whole.decide(documents) == [verdict for document in documents for verdict in single.decide([document])]


@every_case
def test_a_continued_stream_is_decided_as_one_that_was_not_interrupted(case: Case) -> None:
    """``save`` and ``load`` carry the decisions over: with versions, removals, places and expiry."""
    documents = stream_of(case, 4, 100)
    documents[60] = documents[60]._replace(id=documents[10].id)
    documents[70] = documents[49]._replace(timestamp=documents[70].timestamp)
    config = case.config(window_seconds=2400.0)
    whole, first, second = (Deduplicator(config) for _ in range(3))
    for dedup in (whole, first):
        dedup.decide(documents[:20])
        dedup.remove(documents[15].id)
        dedup.decide(documents[20:50])
    second.load(first.save())
    assert second.save() == first.save()
    found = second.decide(documents[50:])
    assert found == whole.decide(documents[50:])
    assert {verdict.status for verdict in found} >= {"original", "duplicate"}


def test_a_window_without_decisions_is_loaded_and_its_documents_count_for_nothing() -> None:
    """They count like documents that were processed before the first decision."""
    processed, dedup = Deduplicator(), Deduplicator()
    processed.process([Document("a", TEXT)])
    dedup.load(processed.save())
    assert [verdict.status for verdict in dedup.decide([Document("b", TEXT)])] == ["original"]


def test_decisions_that_are_cut_off_are_refused() -> None:
    """Loading raises an error with a sentence, before the first decision."""
    parts = list(encode(Decisions(VerdictLimits(1, 0, 9)).saved(3, held_of(Holdings(), 0, 0))))
    assert decode(parts).places == 3
    for wrong in ([parts[0][:-1], parts[1]], [parts[0] + b"x", parts[1]], [parts[0], parts[1][:-1]], parts[:1]):
        with pytest.raises(WireError, match="decisions of a window are truncated"):
            decode(wrong)


def test_a_page_that_comes_again_is_unchanged_and_one_that_changed_is_a_new_version() -> None:
    """``unchanged`` repeats the previous decision; a new version names the previous version."""
    dedup = Deduplicator()
    found = dedup.decide([Document("a", TEXT), Document("a", TEXT), Document("a", "Something else entirely.")])
    assert found == [
        Verdict("a", "original", cluster=0),
        Verdict("a", "unchanged", cluster=0, previous=0, matched=0),
        Verdict("a", "original", cluster=2, related=0, previous=1),
    ]


def test_refused_documents_have_verdicts_too() -> None:
    """They have places, too, so that a verdict's cluster is the number of a line."""
    found = Deduplicator().decide([Document("a", ""), Document("b", TEXT), Document("c", TEXT)])
    assert [(verdict.status, verdict.cluster) for verdict in found] == [
        ("refused", None), ("original", 1), ("duplicate", 1),
    ]  # fmt: skip


def test_documents_are_not_processed_between_two_decisions() -> None:
    """A document without a decision would hide an original."""
    dedup = Deduplicator()
    dedup.decide([Document("a", TEXT)])
    dedup.process([Document("b", TEXT)])
    with pytest.raises(ConfigError, match="1 documents were processed and not decided"):
        dedup.decide([Document("c", TEXT)])


def test_an_exception_of_the_iterable_carries_the_verdicts_before_it() -> None:
    """Decisions made before the exception are not lost."""

    def documents():  # type: ignore[no-untyped-def]
        yield Document("a", TEXT)
        raise OSError("the disk is gone")

    dedup = Deduplicator()
    with pytest.raises(OSError, match="gone") as caught:
        dedup.decide(documents())
    assert caught.value.verdicts == [Verdict("a", "original", cluster=0)]  # type: ignore[attr-defined]
    assert dedup.decide([Document("b", TEXT)])[0].duplicate_of == "a"


@pytest.mark.long
@pytest.mark.parametrize("verify", ["sketch", "exact"])
def test_a_flood_of_near_copies_has_one_original(verify: str) -> None:
    """Every text differs from the first in two words; most probes are truncated before the original."""
    rng = random.Random(11)
    words = [f"word{rng.randrange(10**6)}" for _ in range(150)]
    documents = []
    for n in range(2000):
        text = list(words)
        for place in rng.sample(range(150), 2) if n else ():
            text[place] = f"other{rng.randrange(10**6)}"
        documents.append(Document(str(n), " ".join(text)))
    verdicts = Deduplicator(Config(verify=verify, probe_candidates_max=16)).decide(documents)
    assert [verdict.duplicate_of for verdict in verdicts] == [None, *["0"] * 1999]
