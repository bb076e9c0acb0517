"""The deduplicator: wrong values, exceptions of the caller, threads."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Thread

import numpy as np
import pytest
from quick_parameters import quick_first

from neardup import Config, Deduplicator, Document, Pair, Refusal
from neardup.documents.document import REASONS
from neardup.pairs import at_once
from neardup.pairs.window_message import WireError
from neardup.stories.verdicts import deciding, decisions, records, stories
from neardup.window import band_table, heads
from neardup.window.pages import Pages

STORY = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all, says the owner of the dog."


def names(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.older, pair.newer) for pair in pairs]


WRONG = {
    "text_type": [Document("x", b"bytes"), Document("x", 7), Document("x", ["a"])],
    "no_text": [Document("x", None)],
    "id_type": [Document(None, STORY), Document(7.5, STORY), Document(b"x", STORY)],
    "timestamp_type": [Document("x", STORY, wrong) for wrong in (b"2024-01-01", True)],
}  # fmt: skip


def test_a_wrong_value_is_a_refusal_and_the_documents_around_it_are_processed():
    """Each refusal has its place and reason, as for a line of JSON; no exception is raised."""
    for reason, documents in WRONG.items():
        for wrong in documents:
            dedup = Deduplicator()
            pairs = dedup.process([Document("a", STORY), wrong, Document("", ""), Document("b", STORY)])
            assert names(pairs) == [("a", "b")]
            assert dedup.refusals == [Refusal(1, str(wrong.id), reason), Refusal(2, "", "empty")]
            assert {refusal.reason for refusal in dedup.refusals} <= REASONS.keys()
            assert dedup.counts()["refused"] == 2


def test_wrong_tokens_vectors_and_fields_are_refusals_too():
    """Nested, of other types, or missing."""
    for config, wrong in (
        (Config(shingles="tokens"), [{"tokens": [["a"], ["b", "c"]]}, {"tokens": "ab"}, {"tokens": [None]}, {}]),
        (Config(scheme="hyperplane:dimension=2"), [{"vector": [[1, 2], [3]]}, {"vector": "ab"},
                                                    {"vector": [None, 1]}, {}]),
        (Config(scheme="records:fields=name,keys=name"),
         [{"fields": {"name": 7}}, {"fields": ["name"]}, {"fields": {"name": None}}, {}]),
    ):  # fmt: skip
        dedup = Deduplicator(config)
        assert dedup.process([Document(f"{i}", **values) for i, values in enumerate(wrong)]) == []
        assert [refusal.position for refusal in dedup.refusals] == [0, 1, 2, 3]
        assert {refusal.reason for refusal in dedup.refusals} <= REASONS.keys()
        assert (dedup.refusals[0].reason == "fields_type") == (config.scheme == "records")


def test_numbers_of_numpy_are_timestamps():
    """Values of a column have these types."""
    dedup = Deduplicator(Config(window_seconds=10))
    assert dedup.process([Document("a", STORY, np.float64(0)), Document("b", STORY, np.int64(20))]) == []
    assert dedup.refused == 0


def test_an_exception_of_the_iterable_carries_the_pairs_of_what_was_added():
    """The documents before the exception are in the table; a second call continues after them."""

    def documents():
        for i in range(600):
            yield Document(f"d{i}", STORY)
        raise RuntimeError("the source broke")

    dedup = Deduplicator()
    with pytest.raises(RuntimeError, match="the source broke") as raised:
        dedup.process(documents())
    assert len(raised.value.pairs) == 599
    assert names(dedup.process([Document("last", STORY)])) == [("d599", "last")]


def test_threads_share_one_deduplicator():
    """Every document is in the table once, and every copy has its link."""
    dedup = Deduplicator()
    found: list[Pair] = []

    def work(name):
        found.extend(dedup.process(Document(f"{name}-{i}", STORY) for i in range(400)))

    threads = [Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1599
    assert dedup.counts()["items"] == 1600


def stream_of(rng: random.Random, count: int) -> list[Document]:
    """Copies, versions, near-duplicates and strangers, in and out of order, some without a time."""
    stories = [f"{STORY} {rng.random()} {i}" for i in range(8)]
    documents = []
    for n in range(count):
        text = rng.choice(stories)
        text = text if rng.random() < 0.4 else text.replace("quick", rng.choice(["quiet", "slow", "red"]))
        time = None if rng.random() < 0.3 else float(n + rng.randint(-9, 9))
        documents.append(Document(f"d{rng.randrange(count)}", text, time))
    return documents


@pytest.mark.parametrize("seed", quick_first(range(12), 4))
@pytest.mark.parametrize("scheme", ["one_permutation", "prefix", "identical"])
def test_a_loaded_window_goes_on_as_the_saved_one_does(seed, scheme):
    """The same pairs for all later documents: copies, versions, removals, documents without a time."""
    rng = random.Random(seed)
    config = Config(scheme=scheme, threshold=0.6, window_seconds=rng.choice([None, 40.0]), lateness_seconds=5,
                    window_documents=rng.choice([30, 1000]))  # fmt: skip
    documents = stream_of(rng, 160)
    saved = Deduplicator(config)
    saved.process(documents[:100])
    if seed % 3 == 0:
        saved.remove(documents[99].id)
    loaded = Deduplicator(config)
    loaded.load(saved.save())
    assert loaded.process(documents[100:]) == saved.process(documents[100:])
    assert loaded.save() == saved.save()


def test_a_window_of_another_configuration_or_none_is_refused():
    """A deduplicator that has documents refuses to load a window."""
    dedup = Deduplicator()
    dedup.process([Document("a", STORY)])
    data = dedup.save()
    for wrong, config in ((data, Config(seed=2)), (data[:-1], None), (b"text", None), (data[:30], None)):
        with pytest.raises(WireError):
            Deduplicator(config).load(wrong)
    with pytest.raises(ValueError, match="into a new Deduplicator"):
        dedup.load(data)
    empty = Deduplicator()
    empty.load(Deduplicator().save())
    assert empty.process([Document("a", STORY)]) == []


def test_growth_that_fails_anywhere_changes_no_later_verdict(monkeypatch: pytest.MonkeyPatch):
    """Arrays, maps and pages grow one after the other: whichever has no memory, the call can be made again."""
    rng = random.Random(3)
    texts = [" ".join(f"w{rng.randrange(900)}" for _ in range(20)) for _ in range(300)]
    calls = [[Document(f"{rng.randrange(900)}", f"{rng.choice(texts)} {rng.randrange(5)}") for _ in range(500)]
             for _ in range(3)]  # fmt: skip
    made = [0, -1]  # growths so far, and the number of the one that fails

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def grows(*given: object) -> object:
            made[0] += 1
            if made[0] == made[1]:
                raise MemoryError
            return real(*given)

        return grows

    names = "grow", "add_pages", "new_scratch", "grown_journal", "new_buffer", "fill_map", "fill_marks"
    for module in (band_table, heads, decisions, records, stories):
        for name in (name for name in names if name in vars(module)):
            monkeypatch.setattr(module, name, counted(getattr(module, name)))
    monkeypatch.setattr(Pages, "extend", counted(Pages.extend))

    def decided(failing: int) -> list[tuple[str, str, str | None]]:
        made[1] = -1
        dedup, found = Deduplicator(), []
        made[:] = 0, failing
        for call in calls:
            try:
                verdicts = dedup.decide(call)
            except MemoryError:
                verdicts = dedup.decide(call)
            found += [(one.id, one.status, one.duplicate_of) for one in verdicts]
        return found

    expected = decided(-1)
    growths = made[0]
    assert growths > 50
    assert all(decided(failing) == expected for failing in range(1, growths + 1))


@pytest.mark.parametrize(
    ("call", "module", "kernel"),
    [("process", at_once, "run"), ("decide", deciding, "run"), ("decide", deciding, "decide_arrivals")],
)
def test_a_signal_that_comes_during_a_kernel_undoes_the_whole_step(
    monkeypatch: pytest.MonkeyPatch, call: str, module: object, kernel: str
):
    """It is raised between the return of the kernel and the next line; what is given next has not seen the step."""
    dedup, fresh, real = Deduplicator(), Deduplicator(), getattr(module, kernel)

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    for one in (dedup, fresh):
        for texts in (range(1), range(1, 41)):
            getattr(one, call)([Document(f"t{n}", f"{n} {n * n} {n**3} {n**4} {n**5}") for n in texts])
    given = [
        Document(f"d{n}", f"{n} ships lie in the harbour of a town that is cut off since {n} hours") for n in (7, 8)
    ]
    with monkeypatch.context() as patch:
        patch.setattr(module, kernel, interrupted)
        # With a document that is refused, pairs come from one call and decisions from another.
        refused = [Document("none", "")] if kernel == "decide_arrivals" else []
        with pytest.raises(KeyboardInterrupt):
            getattr(dedup, call)([Document("lost", given[0].text), *refused])
    for _ in range(2):
        assert getattr(dedup, call)(given) == getattr(fresh, call)(given)
    assert dedup.save() == fresh.save()
