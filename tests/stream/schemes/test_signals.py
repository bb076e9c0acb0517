"""Scheme ``signals``: several signals of a document, one table and one rule."""

from __future__ import annotations

import json

import numpy as np
import pytest

from neardup import Config, ConfigError, Deduplicator, Document, Verdict
from neardup.features.meaning.static_model import DIMENSION
from neardup.pairs.json_lines import Fields, decode_document, encode_matches
from neardup.pairs.pipeline import match_step
from neardup.pairs.signing import Signer
from neardup.schemes.kinds import signals

SCHEME = (
    "signals:title=0.6,vector=0.9,dimension=4,picture=0.85,record=0.8,fields=model,brand,price:20,"
    "keys=model,brand+price,hours=2"
)
FIRST = "The ferry to the island leaves at seven and returns before noon, unless fog holds it in the port."
OTHER = "A minister resigned on Friday after reports of a loan; the premier named her successor at once."
THIRD = "There was never so much snow in the valley since the year in which the old bridge fell down."
VECTOR = [1.0, 2.0, 3.0, 4.0]
PICTURE = "ff00ff00ff00ff00"
RECORD = {"model": "MDR-1000 X", "brand": "Sony", "price": "349"}


def decided(*documents: Document, **settings: object) -> list[Verdict]:
    """The verdicts of documents with this scheme."""
    return Deduplicator(Config(scheme=SCHEME, **settings)).decide(documents)


@pytest.mark.parametrize("novelty", ["off", "words"])
@pytest.mark.parametrize(
    ("signal", "one", "other"),
    [
        ("title", "Ferry stays in port", "Ferry stays in the port"),
        ("vector", VECTOR, [2.0, 4.0, 6.0, 8.1]),
        ("picture", PICTURE, "ff00ff00ff00ff01"),
        ("picture", bytes.fromhex(PICTURE), "ff00ff00ff00ff01"),
    ],
)
def test_another_signal_joins_a_story_and_drops_nothing(signal: str, one: object, other: object, novelty: str) -> None:
    """The verdict, the pair and the explanation name it; a document with another value begins a story."""
    first = Document("a", FIRST, 0.0)._replace(**{signal: one})
    second = Document("b", OTHER, 60.0)._replace(**{signal: other})
    verdicts = decided(first, second, Document("c", THIRD, 70.0), novelty=novelty)
    assert [(one.status, one.cluster, one.signal) for one in verdicts] == [
        ("original", 0, None), ("update", 0, signal), ("original", 2, None),
    ]  # fmt: skip
    dedup = Deduplicator(Config(scheme=SCHEME, novelty=novelty))
    [pair] = dedup.process([first, second, Document("c", THIRD, 70.0)])
    assert (pair.older, pair.newer, pair.signal) == ("a", "b", signal)
    assert (dedup.explain("a", "b").reason, dedup.explain("a", "b").signal) == ("pair", signal)
    assert dedup.explain("a", "c").signal is None


@pytest.mark.parametrize("verify", ["sketch", "exact"])
@pytest.mark.parametrize("novelty", ["off", "words"])
def test_the_fields_of_a_record_join_a_story(verify: str, novelty: str) -> None:
    """As scheme ``records`` scores them, with texts of any evidence; a record without a common key joins nothing,
    whatever else brings the two together, and one without a key is like none."""
    settings = {"verify": verify, "novelty": novelty, "threshold": 0.6}
    given = [
        Document("a", FIRST, 0.0, title="Ferry stays in port", fields=RECORD),
        Document("b", OTHER, 60.0, fields=RECORD | {"price": "329", "colour": "black"}),
        Document("c", THIRD, 61.0, fields={"brand": "Sony"}),
        Document("d", THIRD[::-1], 62.0, title="Ferry stays in port", fields={"model": "MDR-1000", "brand": "Sony"}),
        Document("e", FIRST + "!", 63.0, fields={"model": "Y"}),
    ]
    verdicts = decided(*given, **settings)
    assert [(one.status, one.cluster, one.signal) for one in verdicts] == [
        ("original", 0, None), ("update", 0, "record"), ("original", 2, None), ("update", 0, "title"),
        ("duplicate", 0, None),
    ]  # fmt: skip
    dedup = Deduplicator(Config(scheme=SCHEME, **settings))
    pairs = {(pair.older, pair.newer): (pair.similarity, pair.signal) for pair in dedup.process(given)}
    [alone] = Deduplicator(Config(scheme="records:fields=model,brand,price:20,keys=model", threshold=0.8)).process(
        [given[0], given[1]]
    )
    assert pairs["a", "b"] == (alone.similarity, "record")
    assert pairs.keys() == {("a", "b"), ("a", "d"), ("a", "e")}
    why = dedup.explain("a", "b")
    assert (why.reason, why.signal) == ("pair", "record")
    assert why.by_signal is not None
    assert why.by_signal["record"] == alone.similarity


def test_a_record_is_part_of_what_makes_a_copy() -> None:
    """Equal texts with other records are no copies, so that later records meet both."""
    other = RECORD | {"model": "WH-9", "price": "99"}
    given = [Document("a", FIRST, 0.0, fields=RECORD), Document("b", FIRST, 1.0, fields=other)]
    dedup = Deduplicator(Config(scheme=SCHEME))
    assert [pair.similarity < 1 for pair in dedup.process(given)] == [True]
    [pair] = dedup.process([Document("c", OTHER, 2.0, fields=other)])
    assert (pair.older, pair.signal) == ("b", "record")
    [again] = dedup.process([Document("d", OTHER, 3.0, fields=other)])
    assert (again.older, again.similarity) == ("c", 1.0)


def _turned(id_: str, degrees: float, **values: object) -> Document:
    """A text of its own with a vector of this angle."""
    angle = np.radians(degrees)
    text = " ".join(f"w{degrees}x{k}" for k in range(30))
    return Document(id_, text, vector=[np.cos(angle), np.sin(angle), 0, 0])._replace(**values)


def test_a_story_of_vectors_does_not_drift_and_drops_the_copies_of_all_its_members() -> None:
    """Each vector is 8 degrees from the one before, and one of more than 25 degrees tells another story: the last is
    near to one of the first eight contents only, and to members behind them. The content of the ninth never came in."""
    sent = [_turned(f"n{n}", 8.0 * n) for n in range(11)]
    copy = Document("copy", sent[8].text + " w", vector=[0, 0, 0, 1])
    verdicts = decided(*sent, copy, window_seconds=3600.0)
    assert [one.status for one in verdicts] == ["original", *["update"] * 9, "original", "duplicate"]
    assert verdicts[11].cluster == 0


def test_a_vector_joins_a_story_that_two_vectors_in_time_tell() -> None:
    """The second-nearest decides. One is enough for versions of the id that began the story, and where the others have
    no vector, or came at another time."""
    pair = [_turned("a", 0), _turned("b", 20)]
    far, between, own = _turned("c", 40), _turned("d", 12), _turned("a", -20, title="New title")
    assert [one.status for one in decided(*pair, far)] == ["original", "update", "original"]
    found = decided(*pair, between, own)
    assert [(one.status, one.signal) for one in found[1:]] == [("update", "vector")] * 3
    assert (found[2].similarity, found[2].matched) == (pytest.approx(np.cos(np.radians(12)), abs=1e-3), 0)
    titled = [one._replace(title="Ferry stays in port") for one in pair]
    lacking = decided(titled[0], titled[1]._replace(vector=None), _turned("c", -20))
    assert [one.status for one in lacking] == ["original", "update", "update"]
    late = decided(
        titled[0]._replace(timestamp=0.0), titled[1]._replace(timestamp=7000.0), far._replace(timestamp=8000.0)
    )
    assert [one.status for one in late] == ["original", "update", "update"]


def test_a_vector_that_is_apart_counts_whatever_its_text_says() -> None:
    """Two contents of the story can be compared by vectors, and one of them is near; the text of the other one is near
    to the new text, which says so much else that it tells another story."""
    text = [f"word{n}" for n in range(80)]
    numbers = [" ".join(str(10_007 * k + 31 * n) for n in range(6)) for k in (1, 2)]
    changed = " ".join([*text[:60], *(f"own{n}" for n in range(20)), numbers[0]])
    story = [_turned("a", 0), _turned("b", 20)]
    newer = _turned("c", 40)._replace(text=" ".join([*text, numbers[1]]))
    for first in (changed, "Of something else there is no word here but these few ones."):
        said = decided(story[0]._replace(text=first), story[1], newer, novelty="numbers", threshold=0.5)
        assert [one.status for one in said] == ["original", "update", "original"]


def test_one_vector_of_a_story_that_is_not_compared_whole_does_not_tell_it() -> None:
    """64 contents are compared: seven stories with eight and one with seven leave room for one of the ninth."""
    axes, sent = np.linalg.qr(np.random.default_rng(1).normal(size=(128, 128)))[0], []
    for story, size in enumerate([8] * 7 + [7, 8]):
        own = axes[1 + story]
        vectors = [0.75 * axes[0] + 0.66 * own]
        vectors += [0.2 * axes[0] + 0.98 * own + 0.08 * axes[40 + 8 * story + n] for n in range(size - 1)]
        sent += [Document(f"{story}.{n}", f"text {story} {n} of its own", vector=one) for n, one in enumerate(vectors)]
    new = Document("new", "none of these", vector=axes[0])
    verdicts = Deduplicator(Config(scheme="signals:vector=0.6,dimension=128")).decide([*sent, new])
    assert verdicts[-1].status == "original"
    assert sorted({one.cluster: 0 for one in verdicts}) == [0, 8, 16, 24, 32, 40, 48, 56, 63, 71]


def test_versions_that_come_again_do_not_move_the_first_contents_of_a_story() -> None:
    """The ninth and tenth content of the story do not tell it, so what is near to them alone does not."""
    degrees = [0.0, 1, 2, 3, 4, 5, 6, 7, 20, 22, 1, 2, 40]
    sent = [_turned("x" if n < 12 else "y", angle) for n, angle in enumerate(degrees)]
    verdicts = Deduplicator(Config(scheme="signals:vector=0.9,dimension=4")).decide(sent)
    assert [one.status for one in verdicts] == ["original", *["update"] * 11, "original"]


def test_the_text_alone_drops_whatever_the_others_say() -> None:
    """Equal titles, vectors and pictures are no reason; a near text is, and then it is named by nothing else."""
    same = {"title": "Ferry stays in port", "vector": VECTOR, "picture": PICTURE}
    copy, near, other = (
        Document(name, text, 1.0)._replace(**same)
        for name, text in (("copy", FIRST), ("near", FIRST + "!"), ("other", OTHER))
    )
    verdicts = decided(Document("a", FIRST, 0.0)._replace(**same), copy, near, other)
    assert [one.status for one in verdicts] == ["original", "duplicate", "duplicate", "update"]
    assert [one.signal for one in verdicts] == [None, None, None, "title"]


def test_a_signal_counts_within_its_hours_and_the_text_longer() -> None:
    """A document without a time is near in time to all."""
    first = Document("a", FIRST, 0.0, title="Ferry stays in port")
    late = Document("b", OTHER, 7_300.0, title="Ferry stays in port")
    assert [one.status for one in decided(first, late)] == ["original", "original"]
    assert [one.status for one in decided(first, late._replace(timestamp=None))] == ["original", "update"]
    assert [one.status for one in decided(first, late._replace(text=FIRST))] == ["original", "duplicate"]


def test_a_copy_with_other_signals_hides_no_signal_of_the_first() -> None:
    """The copy of a text lacks the picture, and a third document has it."""
    first, third = Document("a", FIRST, 0.0, picture=PICTURE), Document("c", OTHER, 2.0, picture=PICTURE)
    verdicts = decided(first, Document("b", FIRST, 1.0), third)
    assert [(one.status, one.signal) for one in verdicts] == [
        ("original", None),
        ("duplicate", None),
        ("update", "picture"),
    ]


def test_a_signal_that_cannot_be_read_refuses_the_document_and_an_absent_one_does_not() -> None:
    """An empty title or picture and a vector of zeros have nothing to compare."""
    verdicts = decided(
        Document("a", FIRST, vector=[1.0]), Document("b", FIRST, picture="no digits"), Document("c", "", vector=VECTOR),
        Document("d", FIRST, title="", vector=[0.0] * 4), Document("e", OTHER, title="?", picture=""),
        Document("f", OTHER, fields={"brand": "\ud800"}), Document("g", THIRD, fields={"model": 7}),  # type: ignore[dict-item]
    )  # fmt: skip
    assert [one.reason for one in verdicts] == [
        "vector_length", "picture_length", "empty", None, None, "surrogate", "fields_type",
    ]  # fmt: skip


def test_a_window_that_was_saved_knows_the_signals() -> None:
    """The story of a document that came before is joined after ``load``."""
    config = Config(scheme=SCHEME, verify="exact", novelty="words")
    before, after = Deduplicator(config), Deduplicator(config)
    before.decide([Document("a", FIRST, 0.0, vector=VECTOR), Document("r", THIRD, 0.0, fields=RECORD)])
    after.load(before.save())
    [verdict] = after.decide([Document("s", THIRD[::-1], 60.0, fields=RECORD)])
    assert (verdict.status, verdict.cluster, verdict.signal) == ("update", 1, "record")
    [verdict] = after.decide([Document("b", OTHER, 60.0, vector=np.array(VECTOR, np.float32))])
    assert (verdict.status, verdict.cluster, verdict.signal) == ("update", 0, "vector")


def test_a_part_of_a_report_is_dropped_where_records_are_compared() -> None:
    """It is no pair, and leads to the report by its words alone, whatever stands behind them."""
    scheme, text = "signals:record=0.8,fields=model,brand,keys=model,hours=2", f"{FIRST} {OTHER} {THIRD}"
    documents = [Document("a", text, 0.0, fields=RECORD), Document("b", text[:-110], 60.0)]
    verdicts = Deduplicator(Config(scheme=scheme, novelty="words", verify="exact", k=3)).decide(documents)
    assert [one.status for one in verdicts] == ["original", "duplicate"]


def test_a_line_brings_the_signals_and_a_pair_names_its_own() -> None:
    """Vector as numbers or in base64; what has another type is no signal, but a vector that is none is refused. Fields
    are read where records are compared."""
    scheme = "signals:title=0.6,record=0.8,fields=price"
    fields = Fields(kind=Config(scheme=scheme).plan.kind, source="source")
    named = {"text": FIRST, "title": "Ferry", "picture": PICTURE, "source": "Post"}
    line = {"id": "a", "vector": VECTOR, **named, "price": 9.5}
    read = decode_document(json.dumps(line).encode(), fields)
    record = named | {"price": "9.5"}
    assert read == Document("a", FIRST, title="Ferry", vector=VECTOR, picture=PICTURE, source="Post", fields=record)
    assert decode_document(json.dumps(line | {"vector": "no"}).encode(), fields) == "vector_base64"
    plain = decode_document(json.dumps(line | {"vector": None, "title": 1, "picture": 2}).encode(), fields)
    assert plain == Document("a", FIRST, source="Post", fields={"text": FIRST, "source": "Post", "price": "9.5"} | {
        "title": "1", "picture": "2",
    })  # fmt: skip
    dedup = Deduplicator(Config(scheme=SCHEME))
    of_texts = fields._replace(kind=Config(scheme="signals:title=0.6").plan.kind)
    assert decode_document(json.dumps(line).encode(), of_texts) == read._replace(fields=None)
    batch = dedup.signer.sign([read, read._replace(id="b", text=OTHER)]).batch
    assert json.loads(encode_matches(match_step(dedup.matcher, batch)))["signal"] == "title"


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("signals", "set one of title, vector, picture, record"),
        ("signals:vector=0.8", "option dimension is not set"),
        ("signals:title=0.8,dimension=3", "signals:dimension has no meaning"),
        ("signals:title=0.8,model=wordllama", "signals:model has no meaning"),
        ("signals:vector=0.8,model=wordllama,dimension=3", "have 256: leave dimension out"),
        ("signals:record=0.8", "option fields is empty"),
        ("signals:record=0.8,fields=brand,keys=model", "names 'model', which is not among"),
        ("signals:title=0.8,fields=brand", "signals:fields has no meaning"),
    ],
)
def test_settings_that_say_nothing_are_refused(scheme: str, message: str) -> None:
    """By name, with the remedy."""
    with pytest.raises(ConfigError, match=message):
        Config(scheme=scheme)


def test_a_model_makes_the_vectors_of_titles_that_documents_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a text without a title too; a vector that a document brings stays."""
    texts: list[str] = []

    class Model:
        def vectors(self, given: list[str]) -> list[np.ndarray]:
            texts.extend(given)
            return [np.eye(DIMENSION, dtype=np.float32)[len(text) % 2] for text in given]

    monkeypatch.setattr(signals, "model_of", lambda name: Model())
    dedup = Deduplicator(Config(scheme="signals:vector=0.9,model=wordllama"))
    own = np.eye(DIMENSION)[0]
    given = [Document("a", FIRST, title="even"), Document("b", OTHER, title="odd"), Document("c", THIRD, vector=own)]
    assert [one.signal for one in dedup.decide(given)] == [None, None, "vector"]
    assert texts == ["even", "odd"]
    assert dedup.decide([Document("d", "A text of an odd length, and no title.")])[0].signal == "vector"


def test_each_signal_of_a_pair_is_measured_whatever_its_threshold() -> None:
    """A side that lacks a signal has none of it, and the first that makes the pair is one of them."""
    config = Config(scheme=SCHEME, verify="exact")
    given = [
        Document("a", FIRST, 0.0, title="Ferry stays in port", vector=VECTOR, picture=PICTURE, fields=RECORD),
        Document("b", FIRST + " Again.", 0.0, title="Minister resigns", vector=[4.0, 3.0, 2.0, 1.0], fields=RECORD),
        Document("c", OTHER, 9e9, title="Ferry stays in the port", picture="ff00ff00ff00ff01"),
    ]
    evidence = Signer(config).sign(given).batch.evidence
    older, newer = (evidence.select(np.array(rows)) for rows in ([0, 0], [1, 2]))
    found = signals.SCHEME.strengths(newer, older, config.plan)
    assert list(found) == ["text", "title", "vector", "picture", "record"]
    assert found["vector"][0] == pytest.approx(2 / 3, abs=1e-3)
    assert found["picture"][1] == 63 / 64
    assert found["record"][0] == 1
    assert np.isnan([found["vector"][1], found["picture"][0], found["record"][1]]).all()
    assert found["text"][0] > 0.8 > 0.2 > found["text"][1]
    assert found["title"][1] > 0.6 > 0.3 > found["title"][0]
