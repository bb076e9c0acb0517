"""Laws of novelty: a document is dropped only if what it says was said before."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import pairwise
from string import ascii_lowercase

import numpy as np
import pytest
from cases import CONTENT
from verdict_sequences import NEW_SEQUENCES, TEXTS, WINDOW_SECONDS, words_of

from neardup import Config, ConfigError, Deduplicator, Document, Verdict
from neardup.documents.document import Column, DocumentColumns
from neardup.features.said.names import names_in
from neardup.features.said.spoken import ABBREVIATIONS
from neardup.features.said.word_tables import _hash_of_word
from neardup.features.texts.normalize import NormalForm
from neardup.features.texts.reading import raw_texts_of
from neardup.pairs.batches import bucket_keys
from neardup.pairs.signing import Signer

SETTINGS = {
    "words": {"novelty": "words", "verify": "exact", "threshold": 0.45},
    "numbers": {"novelty": "numbers", "threshold": 0.6},
}
COMPANIES = [f"{a}{b}" for a in ("Amber", "Birch", "Cobalt", "Dover", "Elm", "Fjord", "Grove", "Harbor") for b in (
    "bridge", "dale", "field", "ford", "gate", "haven", "land", "mark", "mont", "point", "ridge", "shore", "stone",
    "ton", "vale", "view", "ville", "ward", "water", "way", "well", "wick", "wood", "worth", "yard")]  # fmt: skip
RELEASE = (
    "{name} Inc reported quarterly net profit of {profit} mln dlrs, or {share} cts a share, on revenue of {revenue} "
    "mln dlrs. The directors of {name} declared a regular dividend, payable in April to holders of record in March."
)

THAI = "เกิดแผ่นดินไหวครั้งใหญ่ในกรุงเทพ มีผู้ได้รับบาดเจ็บจำนวนมาก ผู้เสียชีวิต 40 คน " * 3
QUAKE = "東京で大きな地震があり、多くの人がけがをした。死者は40人。" * 3


def numbers(text: str) -> set[str]:
    """The runs of digits of a text."""
    return set(re.findall(r"\d+", text))


def stream(seed: int, size: int) -> list[Document]:
    """Texts of a few forms that differ in words and numbers, cuts and exact copies of them."""
    rng = random.Random(seed)
    forms = [[rng.choice(CONTENT) for _ in range(40)] for _ in range(4)]
    texts: list[str] = []
    for _ in range(size):
        words = list(rng.choice(forms))
        for _ in range(rng.choice((0, 0, 1, 3))):
            words[rng.randrange(40)] = rng.choice([str(rng.randrange(60)), rng.choice(CONTENT)])
        kind = rng.random()
        if texts and kind < 0.2:
            words = rng.choice(texts).split()
        elif kind < 0.4:
            words = words[: rng.randint(20, 40)]
        texts.append(" ".join(words))
    return [Document(str(n), text) for n, text in enumerate(texts)]


@pytest.mark.parametrize("novelty", SETTINGS)
def test_a_dropped_document_has_no_number_that_the_kept_one_lacks(novelty: str) -> None:
    """The kept one is the content that it was compared with: an original, or a version of one."""
    documents = stream(3, 400)
    verdicts = Deduplicator(Config(**SETTINGS[novelty])).decide(documents)
    dropped = [verdict for verdict in verdicts if verdict.status == "duplicate"]
    assert len(dropped) > 100
    for verdict in dropped:
        assert verdict.matched is not None
        assert verdicts[verdict.matched].status in ("original", "update")
        assert numbers(documents[int(verdict.id)].text) <= numbers(documents[verdict.matched].text)
    off = Deduplicator(Config(**{**SETTINGS[novelty], "novelty": "off"})).decide(documents)
    lost = [v for v in off if v.status == "duplicate" and v.matched is not None
            and not numbers(documents[int(v.id)].text) <= numbers(documents[v.matched].text)]  # fmt: skip
    assert lost, "without novelty some of these numbers are lost"


def test_releases_of_200_companies_are_200_originals() -> None:
    """The form is the same, the names and numbers are not; reprints of each are dropped."""
    rng = random.Random(4)
    texts = [
        RELEASE.format(name=name, profit=rng.randint(1, 999), share=rng.randint(1, 99), revenue=rng.randint(1000, 9999))
        for name in COMPANIES[:200]
    ]
    dedup = Deduplicator(Config(**SETTINGS["words"]))
    assert [v.status for v in dedup.decide([Document(f"a{n}", text) for n, text in enumerate(texts)])] == [
        "original"
    ] * 200
    reprints = [Document(f"b{n}", f"{text} (Wire)") for n, text in enumerate(texts)]
    again = dedup.decide(reprints)
    assert [verdict.duplicate_of for verdict in again] == [f"a{n}" for n in range(200)]


def test_a_toll_that_rises_is_kept_each_time() -> None:
    """And a copy of each bulletin is dropped, also one that was cut."""
    body = "Rescue teams searched the ruins of the market after the fire in the old town, officials said."
    tolls = (40, 47, 57, 60, 71, 88, 90, 96, 101, 110, 115, 117)
    bulletins = [Document(f"t{toll}", f"{toll} dead in market fire. {body}") for toll in tolls]
    dedup = Deduplicator(Config(**SETTINGS["words"]))
    assert [verdict.status for verdict in dedup.decide(bulletins)] == ["original"] * len(tolls)
    copies = [Document(f"c{toll}", f"{toll} dead in market fire. {body[:75]}") for toll in tolls]
    assert [verdict.duplicate_of for verdict in dedup.decide(copies)] == [f"t{toll}" for toll in tolls]


@pytest.mark.parametrize("third", range(3))
def test_a_text_that_was_cut_to_a_third_is_dropped(third: int) -> None:
    """It is no pair of the whole, and says nothing new. Nearly all are found; a third with another number is kept."""
    rng = random.Random(6)
    wholes = [["".join(rng.choices(ascii_lowercase, k=rng.randint(3, 9))) for _ in range(120)] for _ in range(60)]
    thirds = [" ".join(words[40 * third : 40 * third + 40]) for words in wholes]
    dedup = Deduplicator(Config(**SETTINGS["words"]))
    texts = [*(" ".join(words) for words in wholes), *thirds, *(f"{text} 57" for text in thirds)]
    verdicts = dedup.decide([Document(str(n), text) for n, text in enumerate(texts)])
    found = [(verdict.id, verdict.duplicate_of) for verdict in verdicts if verdict.status == "duplicate"]
    assert found == [(str(60 + n), str(n)) for n in range(60) if (str(60 + n), str(n)) in found]
    assert len(found) >= 58
    pairs = Deduplicator(Config(**SETTINGS["words"])).process([Document("a", texts[0]), Document("b", thirds[0])])
    assert not pairs


def test_a_version_that_says_something_new_updates_its_story() -> None:
    """And another document that repeats the new version is a copy of the story."""
    body = "Rescue teams searched the ruins of the market after the fire in the old town, officials said."
    dedup = Deduplicator(Config(**SETTINGS["words"]))
    stream = [Document("a", f"40 dead. {body}"), Document("a", f"47 dead. {body}"), Document("b", f"47 dead. {body}!")]
    assert [verdict.status for verdict in dedup.decide(stream)] == ["original", "update", "duplicate"]


@pytest.mark.parametrize("sequence", NEW_SEQUENCES)
def test_a_sequence_with_novelty_is_decided_as_the_table_says(sequence: str) -> None:
    """Updates by anyone, other reports in the same form, and removals."""
    arrivals, expected = NEW_SEQUENCES[sequence]
    dedup, found = Deduplicator(Config(**SETTINGS["words"], window_seconds=WINDOW_SECONDS)), list[Verdict]()
    for one in arrivals:
        if one.content is None:
            dedup.remove(one.id)
        else:
            found += dedup.decide([Document(one.id, TEXTS[one.content], one.time)])
    assert words_of(verdict._asdict() for verdict in found) == expected


def test_a_flood_of_notices_with_a_counter_is_one_story_of_eight_contents() -> None:
    """Each is kept. Near a content that the story holds no longer, a notice is an update again: none is lost."""
    body = (
        "of the survey of May 2024 at 17 sites, 33 wells and 512 springs of Volterra, measured for 49 days by 9 teams."
    )
    notices = [Document(f"n{n}", f"Notice {n + 1_000} {body}") for n in range(60)]
    dedup = Deduplicator(Config(**SETTINGS["words"]))
    assert [(one.status, one.cluster) for one in dedup.decide(notices)] == [("original", 0), *[("update", 0)] * 59]
    near = [Document(f"c{n}", f"Notice {n + 1_000} again {body}") for n in (0, 20, 59)]
    assert [one.status for one in dedup.decide(near)] == ["duplicate", "update", "duplicate"]
    equal = [document._replace(id=f"e{document.id}") for document in notices]
    assert {one.status for one in dedup.decide(equal)} == {"duplicate"}


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("\U0001f600 \U0001f680 " * 30, "\U0001f600 \U0001f680 " * 30 + "\U0001f525", True),
        ("1,204 33 512 49 18 2024 " * 20, "1,204 33 512 49 18 2025 " * 20, True),
        ("1,204 33 512 49 18 2024 " * 20, "1,204 33 512 49 18 2024 " * 21, False),
        (QUAKE, QUAKE.replace("40", "57"), True),
        (QUAKE, QUAKE.replace("。", "！"), False),
        (THAI, THAI.replace("40", "57"), True),
        (THAI, THAI.replace(" ", ""), False),
        (" ".join(map(str, range(400_000))), " ".join(map(str, range(1, 400_001))), True),
        (" ".join(f"w{n}x" for n in range(5_000)), " ".join(f"w{n}x" for n in range(5_000)) + " end", True),
    ],
)  # fmt: skip
def test_texts_without_words_tables_and_long_texts_lose_nothing(first: str, second: str, kept: bool) -> None:
    """Symbols alone are dropped as copies only; a set that holds no more says that something is new."""
    verdicts = Deduplicator(Config(**SETTINGS["words"])).decide([Document("a", first), Document("b", second)])
    assert (verdicts[1].status in ("original", "update")) == kept
    again = Deduplicator(Config(**SETTINGS["words"])).decide([Document("a", first), Document("b", first)])
    assert again[1].status == "duplicate"


def test_a_page_that_is_fetched_again_is_dropped_without_novelty_alone() -> None:
    """Its times and counters are new numbers: so the preset of crawls has no novelty."""
    rng = random.Random(8)
    page = " ".join("".join(rng.choices(ascii_lowercase, k=6)) for _ in range(300))
    visits = [Document("a", f"{page} 25 minutes ago, 1,204 views"), Document("b", f"{page} 3 hours ago, 1,377 views")]
    kept = {
        novelty: Deduplicator(Config(threshold=0.9, shingles="words", k=5, novelty=novelty)).decide(visits)[1].status
        for novelty in ("off", "numbers")
    }
    assert kept == {"off": "duplicate", "numbers": "original"}


def test_novelty_needs_texts() -> None:
    """Elements have no words, and schemes that keep no words say so."""
    with pytest.raises(ConfigError, match="novelty=words asks for new words, but documents bring tokens"):
        Config(novelty="words", shingles="tokens")
    with pytest.raises(ConfigError, match="novelty has no meaning with scheme identical"):
        Config(novelty="words", scheme="identical")
    with pytest.raises(ConfigError, match="must be one of off, numbers, words"):
        Config(novelty="word")


WRECK = (
    "The ferry {ship} ran aground off the northern port of {port} in thick fog, and the coast guard brought all of the "
    "people on board to land. {owner} said that it would pay for the hotels of those who had to wait for a train."
)
WRECKED = {"ship": "Aurora", "port": "Volterra", "owner": "Nordic Lines"}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"port": "Carrara"}, "update"), ({"ship": "Borealis"}, "update"), ({"owner": "Baltic Ferries"}, "update"),
        ({"ship": "Аврора"}, "update"), ({"port": "Volterra itself"}, "duplicate"), ({"ship": "AURORA"}, "duplicate"),
        ({"ship": "aurora"}, "duplicate"), ({"owner": "The owner"}, "duplicate"), ({"ship": "of"}, "duplicate"),
        ({"port": "Southern"}, "update"), ({"owner": "Nordic Lines Inc"}, "duplicate"),
    ],
)  # fmt: skip
def test_a_name_in_the_place_of_another_is_new(changed: dict[str, str], status: str) -> None:
    """A correction of a name is kept, also where a word has runs of it (northern); a name that is only added or left
    out, or written otherwise, says nothing, as the form of a company does."""
    older, newer = WRECK.format(**WRECKED), WRECK.format(**{**WRECKED, **changed})
    dedup = Deduplicator(Config(**SETTINGS["words"]))
    verdicts = dedup.decide([Document("a", older), Document("b", newer), Document("c", newer.replace(", and", " and"))])
    assert [verdict.status for verdict in verdicts] == ["original", status, "duplicate"]
    assert not verdicts[1].new_numbers
    numbers = Deduplicator(Config(**SETTINGS["numbers"]))
    assert [one.status for one in numbers.decide([Document("a", older), Document("b", newer)])][1] == "duplicate"


@pytest.mark.parametrize("columns", [False, True], ids=["documents", "columns"])
def test_names_are_those_of_running_text(columns: bool) -> None:
    """Not words of headlines, nor the first word of a sentence unless the next one is a name too; of any alphabet."""
    texts = [
        "Police Seek Driver After Crash On Bridge\nThe driver of the lorry, Erik Sund, was seen in Malmö on Friday",
        "Erik Sund was seen by neighbours. No one answered.",
        "Партия Юрия Петрова победила вчера на выборах",
        "NATO AND OPEC SAY nothing more",
        "Im Hafen von Genua lief die Fähre auf einen Felsen",
        "東京 Tokyo",
        "",
    ]
    names = [
        "erik sund malmö friday", "erik sund", "партия юрия петрова", "", "hafen genua fähre felsen", "", "",
    ]  # fmt: skip
    documents: Sequence[Document] = [Document(str(n), text) for n, text in enumerate(texts)]
    if columns:
        data = [text.encode() for text in texts]
        ends = np.cumsum([0, *map(len, data)])
        column = Column(np.frombuffer(b"".join(data), np.uint8), ends)
        documents = DocumentColumns(column, np.full(len(texts), np.nan), column)
    held = raw_texts_of(documents, 1000)
    found = names_in(held, NormalForm())
    for n, expected in enumerate(names):
        own = found.tokens[found.starts[n] : found.starts[n + 1]].tolist()
        assert own == [_hash_of_word(name) for name in expected.split()]
    some = names_in(held, NormalForm(), refused=[0, 6])
    assert some.tokens.tolist() == found.tokens[found.starts[1] :].tolist()


@pytest.mark.parametrize(
    ("again", "status"),
    [
        ("The Borealis had left {port} at noon.", "update"), ("The {ship} had left Carrara at noon.", "update"),
        ("The ferry had left {port} at noon.", "duplicate"),
        ("The {ship} had left {port} at noon, {port} says.", "duplicate"),
    ],
)  # fmt: skip
def test_a_name_in_one_of_the_places_of_another_is_new(again: str, status: str) -> None:
    """The other one stands elsewhere too, and occurs less often; one that only occurs more or less says nothing."""
    body = "The {ship} had left {port} at noon."
    older, newer = (f"{WRECK} {part}".format(**WRECKED) for part in (body, again))
    verdicts = Deduplicator(Config(**SETTINGS["words"])).decide([Document("a", older), Document("b", newer)])
    assert [verdict.status for verdict in verdicts] == ["original", status]
    if status == "update":
        assert [word.text for word in verdicts[1].new or ()] == [again.split()[1 if "Borealis" in again else 4]]


def run_keys_of(config: Config, *texts: str) -> list[set[int]]:
    """The keys of each text behind those of its bands."""
    batch = Signer(config).sign([Document(str(n), text) for n, text in enumerate(texts)]).batch
    keys = bucket_keys(batch, config)
    return [set(keys.values[first + config.tuning.bands : end].tolist()) for first, end in pairwise(keys.starts)]


def test_a_text_and_its_beginning_share_the_runs_of_the_text_that_stand_there() -> None:
    """The keys are the least of the runs, so those of the beginning that are not greater than all of the text are of
    the text, too."""
    config, rng, shared = Config(**SETTINGS["words"]), random.Random(7), 0
    known = ["".join(rng.choices(ascii_lowercase, k=8)) for _ in range(500)]
    for _ in range(100):
        words = rng.sample(known, 60)
        begin, whole = run_keys_of(config, " ".join(words[:20]), " ".join(words))
        assert {key for key in begin if key <= max(whole)} <= whole
        shared += bool(begin & whole)
    assert shared >= 95


def test_a_text_below_the_least_length_has_no_runs() -> None:
    """It is compared for equality only, though a longer text has all of it."""
    text = " ".join(["harbour", "station", "council", "weather", "holiday", "cabinet", "library", "railway", "theatre"])
    found = [run_keys_of(Config(**SETTINGS["words"], characters_min=least), text)[0] for least in (60, len(text) + 1)]
    assert [len(keys) for keys in found] == [7, 0]


def test_no_text_below_the_least_length_has_runs_in_any_script() -> None:
    """Words that overlap, as those of scripts without blanks do, say nothing of a length."""
    rng, found = random.Random(8), 0
    known = ["harbour", "council", "railway", "rückzug", "the", "大地震", "กรุงเทพ", "三百", "한국어로", "9", "ab"]
    for _ in range(300):
        text = rng.choice(["", " ", "-", "5"]).join(rng.choices(known, k=rng.randint(6, 16)))
        named = " ".join(f"{word}{n}" for n, word in zip("abcdefghi", known * 2, strict=False))
        for one in (text, named, f"{text} {named}"):
            has_runs = bool(run_keys_of(Config(**SETTINGS["words"], characters_min=60), one)[0])
            found += has_runs
            assert not has_runs or len(one) >= 60
    assert found > 150


def test_a_line_of_abbreviations_is_not_as_long_as_the_words_that_they_stand_for() -> None:
    """It is below the least length, so it is compared for equality only."""
    config, short = Config(**SETTINGS["words"], characters_min=60), list(ABBREVIATIONS)
    lines = [" ".join(short[n:] + short[:n])[: 59 - n] for n in range(len(short))]
    lines.append("Avg oper shr cts, qtly div dlrs, govt revs pct, mths, yrs")
    assert run_keys_of(config, *lines) == [set()] * len(lines)
    report = " ".join([lines[-1], "harbour station council weather holiday cabinet library railway theatre company"])
    decided = Deduplicator(config).decide([Document("a", report), Document("b", lines[-1])])
    assert [one.status for one in decided] == ["original", "original"]


def test_the_first_sentence_of_a_report_meets_it() -> None:
    """A part of a hundred characters, with fifty letters in words of five or more: sixty are not asked for."""
    config = Config(**SETTINGS["words"], characters_min=60)
    said = "The target of an unfriendly cash offer by another company said its shareholders rejected it"
    rest = "".join(f" {word}" for word in ("against", "proposal", "yesterday", "meeting", "lawyers", "expected"))
    part, whole = run_keys_of(config, said, said + rest)
    assert part & whole


def test_scripts_without_blanks_have_no_runs() -> None:
    """Two letters, or four of Thai, are no word of five."""
    assert run_keys_of(Config(**SETTINGS["words"]), THAI * 3) == [set()]


@pytest.mark.parametrize("size", [1, 2])
def test_a_part_leads_to_the_whole_however_many_keys_a_pair_needs(size: int) -> None:
    """One document a call and in one call."""
    dedup = Deduplicator(Config(novelty="words", buckets_shared_min=2))
    documents = [Document("a", "w130 w316 w49"), Document("b", "w130 w316")]
    verdicts = [verdict for n in range(0, 2, size) for verdict in dedup.decide(documents[n : n + size])]
    assert [verdict.related for verdict in verdicts] == [None, 0]


def test_what_limits_leave_out_of_runs_is_no_loss() -> None:
    """They make no pair. All texts share a footer, whose runs are keys of most."""
    rng = random.Random(3)
    known = ["".join(rng.choices(ascii_lowercase, k=rng.randint(3, 9))) for _ in range(5_000)]
    footer, texts = " ".join(rng.sample(known, 25)), [rng.choices(known, k=300) for _ in range(300)]
    for n in range(3, 300, 4):
        texts[n] = [*texts[n - 1][:5], *rng.choices(known, k=10), *texts[n - 1][15:]]
    dedup = Deduplicator(Config(**{**SETTINGS["words"], "bucket_candidates_max": 20}))
    dedup.decide([Document(str(n), f"{' '.join(words)} {footer}") for n, words in enumerate(texts)])
    counts = dedup.counts()
    assert counts["candidates"] > 5 * 300
    assert [counts[name] for name in ("truncated", "missed_pairs", "lone_documents")] == [0, 0, 0]
