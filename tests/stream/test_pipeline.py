"""The pipeline: refusals, order, versions, removal, lateness, floods, and the state after an exception."""

from __future__ import annotations

import pickle
import platform
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from quick_parameters import quick_first

from neardup import Config, ConfigError, Deduplicator, Document, Matcher, Pair, Refusal, Signer
from neardup.documents.chunks import CHUNK_CHARACTERS, CHUNK_DOCUMENTS, chunks
from neardup.pairs.at_once import OneCall
from neardup.pairs.pipeline import match_step
from neardup.schemes.signatures.banding import estimate

STORY = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all, says the owner of the dog."
EDITED = STORY.replace("quick", "quiet")
OTHER = "Rain is expected in the north by the evening; the south stays dry until the end of the week, with some wind."


def names(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.older, pair.newer) for pair in pairs]


def of_window(seconds: float, **settings: object) -> Deduplicator:
    return Deduplicator(Config(window_seconds=seconds, **settings))


def test_near_duplicates_are_found_and_others_are_not() -> None:
    """One word of twenty-two changed; a story of its own; an exact copy."""
    documents = [Document("a", STORY), Document("b", OTHER), Document("c", EDITED), Document("d", STORY)]
    pairs = Deduplicator().process(documents)
    # The copy is linked to the story, and its buckets are not probed.
    assert names(pairs) == [("a", "c"), ("a", "d")]
    assert 0.74 < pairs[0].similarity < 1
    assert pairs[1].similarity == 1
    assert pairs[1].buckets == Config().tuning.bands


def test_a_document_that_cannot_be_used_is_refused_with_its_place_and_reason() -> None:
    """The other documents are accepted; every reason of the library occurs."""
    config = Config(text_characters_max=200)
    dedup = Deduplicator(config)
    refused = [
        ("e", "", None, "empty"),
        ("b", " \t\u3000", None, "empty"),
        ("s", "half \ud83d", None, "surrogate"),
        ("l", "x" * 201, None, "text_too_long"),
        ("i" * 1_025, STORY, None, "id_too_long"),
        ("é" * 513, STORY, None, "id_too_long"),
        ("\udc00", STORY, None, "id_surrogate"),
        ("\udc00" * 1_025, STORY, None, "id_surrogate"),
        ("a\udc00" + "é" * 512, "", None, "id_surrogate"),
        ("i" * 1_025, "", None, "id_too_long"),
    ]
    documents, expected = [Document("a", STORY)], []
    for id_, text, time, reason in refused:
        expected.append(Refusal(len(documents), id_, reason))
        documents += [Document(id_, text, time), Document("a", OTHER)]
    dedup.process([*documents, Document("z", STORY)])
    assert dedup.refusals == expected
    assert dedup.counts()["refused"] == len(refused)
    assert dedup.counts()["items"] == len(documents) - len(refused) + 1
    assert dedup.process([Document("y", STORY)]) == [Pair("z", "y", 1.0, 18)]
    assert dedup.refusals == []


@pytest.mark.parametrize("form", [{}, {"fold": "case,space"}, {"fold": "nfkc,space"}, {"fold": "nfkc,case"}])
def test_a_lone_surrogate_is_refused_in_every_normal_form(form: dict[str, bool]) -> None:
    """No encoding can carry it, so no two systems would agree on it."""
    dedup = Deduplicator(Config(**form))
    assert dedup.process([Document("a", "some text \ud800"), Document("b", "some text \ud800")]) == []
    assert [refusal.reason for refusal in dedup.refusals] == ["surrogate", "surrogate"]


def test_a_blank_text_is_empty_only_where_white_space_is_folded() -> None:
    """Otherwise it is a text of blanks."""
    blanks = [Document("a", "  "), Document("b", "  ")]
    assert Deduplicator().process(blanks) == []
    assert names(Deduplicator(Config(fold="nfkc,case")).process(blanks)) == [("a", "b")]


def test_two_empty_texts_are_no_pair() -> None:
    """Two texts without a shingle of the configured kind are no pair either."""
    assert Deduplicator().process([Document("a", ""), Document("b", "")]) == []
    dedup = Deduplicator(Config(shingles="stopwords"))
    assert dedup.process([Document("a", "Buy Sudzo"), Document("b", "Buy Sudzo"), Document("c", "")]) == []
    assert [refusal.reason for refusal in dedup.refusals] == ["no_shingles", "no_shingles", "empty"]


def test_places_of_refusals_count_over_all_chunks() -> None:
    """Documents are signed in chunks; a place is counted from the start of the whole call."""
    documents = [Document(str(n), "" if n % 500 == 499 else f"text number {n}") for n in range(2_000)]
    dedup = Deduplicator()
    dedup.process(iter(documents))
    assert [refusal.position for refusal in dedup.refusals] == [499, 999, 1499, 1999]


def test_older_and_newer_are_by_event_time() -> None:
    """The order of arrival makes no difference."""
    dedup = of_window(100)
    pairs = dedup.process([Document("late", STORY, 50.0), Document("early", EDITED, 10.0)])
    assert names(pairs) == [("early", "late")]


@pytest.mark.parametrize(("first", "second"), [(5.0, 5.0), (None, None), (5.0, None), (None, 5.0)])
def test_ties_and_documents_without_a_time_go_by_arrival(first: float | None, second: float | None) -> None:
    """The first to arrive is the older one, in both orders of the ids."""
    for a, b in ("ab", "ba"):
        dedup = Deduplicator()
        assert names(dedup.process([Document(a, STORY, first), Document(b, EDITED, second)])) == [(a, b)]


def test_documents_further_apart_than_the_window_are_no_pair() -> None:
    """At exactly the window they are a pair; copies and near-duplicates alike."""
    for text in (STORY, EDITED):
        for apart, found in ((10.0, 1), (10.000001, 0)):
            dedup = of_window(10, lateness_seconds=100)
            assert len(dedup.process([Document("a", STORY, 0.0), Document("b", text, apart)])) == found
            dedup = of_window(10, lateness_seconds=100)
            assert len(dedup.process([Document("a", STORY, apart), Document("b", text, 0.0)])) == found


def test_a_late_document_meets_its_window_as_long_as_the_lateness_lasts() -> None:
    """A later document is counted as late, and the guarantee does not cover it."""
    dedup = of_window(10, lateness_seconds=5)
    story, other, late = Document("a", STORY, 100.0), Document("b", OTHER, 115.0), Document("c", EDITED, 110.0)
    assert names(dedup.process([story, other, late])) == [("a", "c")]
    assert dedup.counts()["late"] == 0
    assert dedup.process([Document("d", OTHER[::-1], 117.0), Document("e", EDITED, 99.0)]) == []
    assert dedup.counts()["late"] == 1
    assert dedup.counts()["expired"] == 1


def test_a_document_pushed_out_by_newer_ones_is_not_met() -> None:
    """``window_documents`` counts every document, and evictions are counted."""
    dedup = Deduplicator(Config(window_documents=2))
    stream = [Document("a", STORY), Document("b", OTHER), Document("c", OTHER[::-1]), Document("d", EDITED)]
    assert dedup.process(stream) == []
    assert dedup.counts()["evicted"] == 2
    assert names(dedup.process([Document("e", STORY)])) == [("d", "e")]


def test_an_id_that_comes_again_never_pairs_with_its_own_versions() -> None:
    """It pairs with no equal or similar version of its own id; other documents pair with every version."""
    dedup = Deduplicator()
    assert dedup.process([Document("a", STORY), Document("a", EDITED), Document("a", STORY)]) == []
    assert names(dedup.process([Document("b", EDITED)])) == [("a", "b")]
    assert names(dedup.process([Document("c", STORY.replace("lazy", "idle"))])).count(("a", "c")) >= 1


def test_a_new_version_is_linked_to_the_latest_copy_of_another_id() -> None:
    """The latest copy has the same id, so the new version is linked to the copy before it."""
    dedup = Deduplicator()
    dedup.process([Document("a", STORY), Document("b", STORY)])
    assert names(dedup.process([Document("b", STORY)])) == [("a", "b")]


def test_a_removed_id_is_never_reported_again() -> None:
    """Every version is removed; the call returns their number; the id may arrive again."""
    dedup = Deduplicator()
    dedup.process([Document("a", STORY), Document("a", EDITED), Document("b", OTHER)])
    assert dedup.remove("a") == 2
    assert dedup.remove("a") == dedup.remove("never seen") == 0
    assert dedup.process([Document("c", STORY.replace("owner", "keeper"))]) == []
    assert dedup.counts()["removed"] == 2
    assert names(dedup.process([Document("a", STORY)])) == [("c", "a")]


@pytest.mark.parametrize("id_", ["", "\ud800", "é" * 40_000])
def test_removing_an_id_that_cannot_be_there_changes_nothing(id_: str) -> None:
    """The ids are empty, not encodable or too long: no document has them, and the next call works."""
    dedup = Deduplicator()
    dedup.process([Document("a", STORY)])
    assert dedup.remove(id_) == 0
    assert names(dedup.process([Document("b", STORY)])) == [("a", "b")]


def test_after_a_removal_the_copy_before_it_is_found() -> None:
    """The story is still in the window under another id."""
    dedup = Deduplicator()
    dedup.process([Document("a", STORY), Document("b", STORY)])
    dedup.remove("b")
    assert names(dedup.process([Document("c", EDITED)])) == [("a", "c")]


def test_a_probe_looks_and_adds_nothing() -> None:
    """Each document is looked up alone: twins in one probe are no pair, and later documents do not find them."""
    dedup = Deduplicator()
    dedup.process([Document("a", STORY)])
    probes = [Document("x", EDITED), Document("y", EDITED), Document("z", OTHER), Document("e", "")]
    assert names(dedup.probe(probes)) == [("a", "x"), ("a", "y")]
    assert [refusal.reason for refusal in dedup.refusals] == ["empty"]
    assert dedup.matcher.table.documents == 1
    assert names(dedup.process([Document("b", EDITED)])) == [("a", "b")]


def test_candidates_below_the_cut_are_emitted_on_request() -> None:
    """With ``candidates=True`` every candidate is emitted; the pairs from ``score_min`` on are the same."""
    rng = np.random.default_rng(3)
    words = [f"word{n}" for n in range(40)]
    texts = [" ".join(rng.choice(words[: rng.integers(20, 40)], 30)) for _ in range(120)]
    documents = [Document(str(n), text) for n, text in enumerate(texts)]
    config = Config(threshold=0.5, recall=0.8, bands=25, rows=4)
    few, all_ = Deduplicator(config), Deduplicator(config, candidates=True)
    pairs, candidates = few.process(documents), all_.process(documents)
    assert [pair for pair in candidates if pair.similarity >= config.tuning.score_min] == pairs
    assert len(candidates) > len(pairs)
    assert few.counts() == all_.counts()
    assert len(candidates) == all_.counts()["candidates"] + all_.counts()["copies"]


def test_a_pair_at_the_cut_is_emitted() -> None:
    """The estimate is exactly ``min_similarity``, also 1: equal sets of shingles in different bags."""
    dedup = Deduplicator(Config(min_similarity=1.0))
    often, more_often = ("the cat and the dog, " * n for n in (5, 9))
    assert dedup.process([Document("a", often), Document("b", more_often)]) == [Pair("a", "b", 1.0, 18)]
    assert dedup.counts()["copies"] == 0


@pytest.mark.parametrize("bits", quick_first([16, 8, 32], 1))
def test_as_many_equal_rows_as_the_cut_asks_for_pass_it(bits: int) -> None:
    """Their estimate is ``score_min`` to the last digit; with one row less it is below."""
    for threshold in np.linspace(0.55, 1, 10):
        tuning = Config(threshold=threshold, recall=0.5, sketch_bits=bits).tuning
        rows, least = tuning.bands * tuning.rows, tuning.agreements_min
        below, at = estimate(np.array([least - 1, least], np.int32), rows, bits)
        assert below < tuning.score_min <= at


def test_an_exception_half_way_takes_back_the_step_and_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch before it stays, its own batch is undone, and the next call works."""
    dedup = Deduplicator()
    first = dedup.process([Document("a", STORY), Document("b", OTHER)])
    before = dedup.counts()

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug in scoring")

    monkeypatch.setattr(OneCall, "found", fail)
    with pytest.raises(RuntimeError, match="a bug in scoring"):
        dedup.process([Document("c", OTHER[::-1]), Document("d", STORY), Document("e", EDITED)])
    monkeypatch.undo()
    assert (first, dedup.counts(), dedup.matcher.table.documents) == ([], before, 2)
    assert names(dedup.process([Document("d", EDITED), Document("c", OTHER[::-1])])) == [("a", "d")]


def test_a_flood_of_copies_gives_a_link_each() -> None:
    """16,000 copies of one story: 15,999 pairs, each with the copy before it."""
    dedup = Deduplicator()
    pairs = dedup.process(Document(str(n), STORY) for n in range(16_000))
    assert names(pairs) == [(str(n), str(n + 1)) for n in range(15_999)]
    assert {(pair.similarity, pair.buckets) for pair in pairs} == {(1.0, 18)}
    assert (dedup.counts()["copies"], dedup.counts()["cuts"]) == (15_999, 0)


def test_a_flood_of_near_copies_is_cut_and_counted() -> None:
    """No bucket gives more candidates than ``bucket_candidates_max``, the newest first."""
    dedup = Deduplicator(Config(bucket_candidates_max=5))
    pairs = dedup.process(Document(str(n), f"{STORY} {n:05}") for n in range(500))
    assert dedup.counts()["cuts"] > 0
    assert len(pairs) < 500 * 5 * 18
    assert ("498", "499") in names(pairs)


@pytest.mark.parametrize(("size", "count"), [(10, 3 * CHUNK_DOCUMENTS + 1), (CHUNK_CHARACTERS, 3), (5_000, 200)])
def test_chunks_are_bounded_by_documents_and_characters(size: int, count: int) -> None:
    """Nothing is lost or moved; only the last document of a chunk may pass the bound."""
    documents = [Document(str(n), "x" * size) for n in range(count)]
    found = list(chunks(iter(documents)))
    assert [document for chunk in found for document in chunk] == documents
    assert all(1 <= len(chunk) <= CHUNK_DOCUMENTS for chunk in found)
    assert all((len(chunk) - 1) * size < CHUNK_CHARACTERS for chunk in found)


def test_a_signer_and_a_matcher_apart_do_what_a_deduplicator_does() -> None:
    """They share only the batch."""
    documents = [Document("a", STORY), Document("", ""), Document("b", EDITED, 3.0), Document("c", STORY)]
    config = Config()
    signed = Signer(config).sign(documents)
    assert match_step(Matcher(config), signed.batch).pairs() == Deduplicator(config).process(documents)
    assert signed.batch.ids_at(np.arange(3)) == ["a", "b", "c"]
    assert signed.characters == sum(len(document.text) for document in documents)
    assert signed.shingles == signed.characters - 3 * 4


def test_no_documents_make_no_pairs() -> None:
    """An empty list, an empty iterator, and a list with only refused documents."""
    dedup = Deduplicator()
    assert dedup.process([]) == dedup.process(iter([])) == dedup.probe([]) == dedup.process([Document("a", "")]) == []
    assert dedup.counts()["items"] == 0


def test_what_would_take_too_much_room_is_refused() -> None:
    """A signer with a limit for an item refuses a larger one; the others of its batch keep their places."""
    documents = [Document("a", "some text"), Document("b" * 300, "some other text"), Document("c", "")]
    signed = Signer(Config(), item_bytes_max=300).sign([*documents, Document("d", "some text")])
    assert signed.batch.ids_at(np.arange(2)) == ["a", "d"]
    assert [(refusal.position, refusal.reason) for refusal in signed.refusals] == [
        (1, "evidence_too_large"),
        (2, "empty"),
    ]


def test_pairs_of_too_few_common_buckets_are_not_emitted() -> None:
    """With ``buckets_shared_min`` only pairs with so many common buckets remain; a copy has all of them."""
    documents = [Document(str(n), f"{'word ' * 3}a text of some length, and its number is {n % 50}") for n in range(80)]
    shape = {"bands": 18, "rows": 7, "min_similarity": 0.73}
    everything = Deduplicator(Config(**shape)).process(documents)
    for least in (2, 9, 18):
        config = Config(buckets_shared_min=least, **shape)
        assert Deduplicator(config).process(documents) == [pair for pair in everything if pair.buckets >= least]
    assert 0 < sum(pair.buckets >= 9 for pair in everything) < len(everything)
    assert Config(buckets_shared_min=2, **shape).matching_fingerprint != Config(**shape).matching_fingerprint


def test_a_probe_stops_after_so_many_candidates() -> None:
    """With ``probe_candidates_max``; each stop is counted as a cut."""
    documents = [Document(str(n), f"a text of some length, and the number of it is {n}") for n in range(30)]
    dedup = Deduplicator(Config(probe_candidates_max=3), candidates=True)
    found = Counter(pair.newer for pair in dedup.process(documents))
    assert max(found.values()) == 3
    assert dedup.counts()["cuts"] == sum(count == 3 for count in found.values()) > 10


def test_a_probe_stops_after_two_candidates_a_band_where_the_limit_says_so() -> None:
    """Twice the bands: Indyk, Motwani, "Approximate nearest neighbors", STOC 1998; an exact scheme refuses it."""
    documents = [Document(str(n), f"a text of some length, and the number of it is {n}") for n in range(60)]
    config = Config(bands=6, rows=4, probe_candidates_max=12)
    dedup = Deduplicator(config, candidates=True)
    found = Counter(pair.newer for pair in dedup.process(documents))
    assert 2 * config.tuning.bands == config.probe_limit == max(found.values()) == 12
    # Near the limit a probe compares only the oldest of a further bucket, and counts it. Three had met the others.
    assert dedup.counts()["truncated"] == sum(count >= 9 for count in found.values()) == 51
    assert sum(count == 12 for count in found.values()) == 48
    for scheme in ("prefix", "identical"):
        with pytest.raises(ConfigError, match="leave"):
            Config(scheme=scheme, probe_candidates_max=12)


def test_candidates_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the evidence and however small the parts, the pairs are the same."""
    documents = [Document(str(n), f"a text of some length, and the number of it is {n % 37}") for n in range(150)]
    config = Config(threshold=0.7, verify="exact")
    whole = Deduplicator(config).process(documents)
    monkeypatch.setattr("neardup.pairs.pipeline._COMPARED_BYTES", 1000)
    assert Deduplicator(config).process(documents) == whole
    assert len(whole) > 500


@pytest.mark.processes
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries return memory by other rules")
def test_the_buffers_of_a_chunk_are_not_returned_to_the_system() -> None:
    """With a signer, a process that takes, frees and takes five megabytes again gets the same pages."""
    code = """
import resource
from neardup import Config, Document, Signer
Signer(Config()).sign([Document("a", "a text of some words")])
faults = []
for _ in range(10):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    buffers = [bytearray(100_000) for _ in range(50)]
    del buffers
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(faults) < 100)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"True\n"


def test_what_was_signed_keeps_no_texts() -> None:
    """It is kept, and sent to other processes, without them; texts beyond ASCII take another way."""
    for letter in "aé":
        document = Document("a", f"{letter} text of some words " * 10_000)
        assert len(pickle.dumps(Signer(Config()).sign([document]))) < 10_000
