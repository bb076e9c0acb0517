"""Parts: a quote is found wherever it stands, and nothing else is."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from neardup import Config, Deduplicator, Document
from neardup.documents.document import Relation
from neardup.errors import ConfigError
from neardup.features.ordered.word_codes import word_codes
from neardup.features.texts.normalize import NormalForm, code_points
from neardup.pairs.pipeline import Matcher, match_step
from neardup.pairs.signing import Signer
from neardup.schemes.interface import Evidence
from neardup.schemes.kinds import parts
from neardup.schemes.rows import SCHEMES
from neardup.schemes.signatures.word_seeds import EQUAL_CODES, ordered_units
from neardup.schemes.signatures.word_units import positions_of, restored, stored

CONFIG = Config(scheme="parts")
_SCRIPTS = {
    "latin": "abcdefghijklmnoprstuvwy", "cyrillic": "абвгдежзиклмнопрстуф", "arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "hangul": "가나다라마바사아자차카타파하거너더러머버서", "devanagari": "कखगघचछजझटठडढणतथदधनपफबभम",
}  # fmt: skip
# Scripts without blanks, and a token that never ends.
_UNSPACED = {
    "han": "".join(map(chr, range(0x4E00, 0x5200))), "kana": "".join(map(chr, range(0x3042, 0x3094))),
    "thai": "กขคงจฉชซญดตถทธนบปผพฟภมยรลวสหอ", "base64": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
}  # fmt: skip


def prose(rng: random.Random, letters: str, characters: int) -> str:
    """Random words with blanks and points between them."""
    words, size = [], 0
    while size < characters:
        words.append("".join(rng.choices(letters, k=rng.randint(1, 12))) + rng.choice(("", "", "", ",", ".")))
        size += len(words[-1]) + 1
    return " ".join(words)[:characters]


def text_in(rng: random.Random, script: str, characters: int) -> str:
    """A random text of a script."""
    if script in _UNSPACED:
        return "".join(rng.choices(_UNSPACED[script], k=characters))
    return prose(rng, _SCRIPTS[script], characters)


def relations(texts: list[str], config: Config = CONFIG) -> dict[tuple[str, str], Relation]:
    """What documents with these texts are to each other; their ids are their numbers."""
    pairs = Deduplicator(config).process([Document(str(n), text) for n, text in enumerate(texts)])
    return {(pair.older, pair.newer): pair.relation for pair in pairs if pair.relation is not None}


def evidence(text: str, config: Config = CONFIG) -> Evidence:
    """The evidence of one text."""
    return Signer(config).sign([Document("", text)]).batch.evidence


@pytest.mark.parametrize("script", [*_SCRIPTS, *_UNSPACED])
def test_a_run_of_150_characters_is_found_wherever_it_stands(script: str) -> None:
    """In texts of any length, whatever is around it, and cut within words."""
    rng = random.Random(script)
    for _ in range(40):
        source, host = (text_in(rng, script, int(10 ** rng.uniform(2.3, 4.6))) for _ in range(2))
        at, to = rng.randrange(len(source) - 150), rng.randrange(len(host))
        host = host[:to] + source[at : at + 150] + host[to:]
        texts = [source, host] if rng.random() < 0.5 else [host, source]
        assert ("0", "1") in relations(texts)


def test_a_run_that_repeats_itself_is_found_inside_a_longer_word() -> None:
    """A cut after so many letters from its begin would fall elsewhere in each text."""
    rng = random.Random(5)
    for n in range(60):
        run = ("".join(rng.choices(_SCRIPTS["devanagari"], k=1 + n % 20)) * 150)[:150]
        ends = ["".join(rng.choices(_SCRIPTS["devanagari"], k=size)) for size in (60 + n, 71, 45, 33 + n)]
        assert ("0", "1") in relations([ends[0] + run + ends[1], ends[2] + run + ends[3]])


def test_a_quote_with_changed_words_is_found_and_its_place_is_exact() -> None:
    """The range in each text begins and ends with words that match."""
    rng = random.Random(1)
    quote = prose(rng, _SCRIPTS["latin"], 300)
    changed = " ".join(word if n % 5 else "instead" for n, word in enumerate(quote.split(), 1))
    first, second = (prose(rng, _SCRIPTS["latin"], size) for size in (3000, 40_000))
    relation = relations([f"{first} {quote} {first[::-1]}", f"{second} {changed} {second[::-1]}"])["0", "1"]
    assert relation.kind == "shares"
    ((begin, end, other, other_end),) = relation.passages
    assert abs(begin - 3001) <= 12
    assert abs(end - 3301) <= 24
    assert abs(other - 40_001) <= 12
    assert abs(other_end - (40_001 + len(changed))) <= 24
    assert relation.older_fraction == pytest.approx((end - begin) / (len(first) * 2 + 302), abs=0.001)


@pytest.mark.parametrize("words", [100, 6000])
def test_a_part_lies_where_the_text_has_it(words: int) -> None:
    """Whether the selected seeds of a text are bits or a list: places follow from the codes and the gaps."""
    rng = random.Random(words)
    quote = prose(rng, _SCRIPTS["latin"], 200).strip(" ,.")
    texts = [
        f"{prose(rng, _SCRIPTS['latin'], 7 * words)} -- {quote} -- {prose(rng, _SCRIPTS['latin'], 99)}" for _ in "ab"
    ]
    for one, other in (texts, texts[::-1], [texts[0], f"begin {quote} end"], [f"begin {quote} end", texts[1]]):
        ((begin, end, first, last),) = relations([one, other])["0", "1"].passages
        assert one[begin:end] == other[first:last] == quote


@pytest.mark.parametrize("letters", ["ab ", "ab漢か 7 ", "漢字"])
@pytest.mark.parametrize("words", [0, 1, 255, 256, 257, 3000, 5000])
def test_every_place_is_exact(letters: str, words: int) -> None:
    """Evidence tells where each word stands, whatever stands between them, and takes little for the usual blank."""
    rng = random.Random(f"{letters} {words}")
    signs = ["", "", ", ", " -- ", "." * rng.choice([15, 16, 17, 40, 700])]
    text = "".join("".join(rng.choices(letters, k=rng.randint(1, 12))) + rng.choice(signs) for _ in range(words))
    in_order = word_codes(code_points([text], NormalForm()))
    window = rng.choice([1, 4, 8, 64])
    units, starts = ordered_units(in_order, window, EQUAL_CODES)
    every, count = np.arange(len(in_order.values)), np.array([len(in_order.values)])
    texts = restored(*stored(units, starts, count), count, EQUAL_CODES, window)
    assert texts.units[: len(units)].tolist() == units.tolist()
    begins, ends = positions_of(texts, np.zeros_like(every), every)
    assert begins.tolist() == in_order.positions.tolist()
    assert set((ends - begins).tolist()) <= set(range(1, 11))


@pytest.mark.parametrize(("text", "most"), [("words of a text " * 60, 1.1), ("漢字かな" * 60, 2.1)])
def test_a_word_takes_two_bytes_and_little_more_a_short_one_one(text: str, most: float) -> None:
    """Sixteen bits of code, eight of up to five letters in ASCII; two thirds of one for its place and the selection."""
    held = evidence(text)
    words = int(held.fixed.view("<u4")[0, 0])
    assert len(held.ragged) <= most * words


def test_texts_that_share_no_run_are_no_pair() -> None:
    """Common words, tables of digits and repeated phrases make no chain."""
    rng = random.Random(2)
    common = [
        "the",
        "of",
        "and",
        "to",
        "in",
        "a",
        "is",
        "that",
        "for",
        "it",
        "was",
        "on",
        "as",
        "with",
        "be",
        "at",
        "by",
    ]
    frames = [
        " ".join(rng.choice(common) if rng.random() < 0.4 else prose(rng, _SCRIPTS["latin"], 7) for _ in range(2000))
        for _ in range(6)
    ]
    bits = [" ".join(rng.choices("01", k=3000)) for _ in range(4)]
    tables = [" ".join(f"{rng.random() * 1000:.2f}" for _ in range(2000)) for _ in range(4)]
    assert relations([*frames, *bits, *tables]) == {}


def drawn(rng: random.Random, letters: range, vocabulary: int) -> list[str]:
    """Texts of random draws from a few random words."""
    words = ["".join(rng.choices(_SCRIPTS["latin"], k=rng.choice(letters))) for _ in range(vocabulary)]
    return [" ".join(rng.choices(words, k=170)) for _ in range(60)]


@pytest.mark.parametrize("letters", [range(1, 4), range(2, 10), range(7, 10)])
@pytest.mark.parametrize(("vocabulary", "most"), [(5, 3), (10, 4), (20, 17)])
def test_random_draws_from_a_few_words_make_no_chain(letters: range, vocabulary: int, most: int) -> None:
    """Few of 1,770 pairs of texts that say the same words in another order share a part."""
    texts = drawn(random.Random(f"{letters} {vocabulary}"), letters, vocabulary)
    assert len(relations(texts)) <= most


def test_a_run_is_found_among_words_that_chain() -> None:
    """A run of 150 characters in texts of the same few words, whether of these words or of others."""
    rng = random.Random(6)
    for _ in range(20):
        texts = drawn(rng, range(2, 10), 10)[:2]
        for run in (" ".join(drawn(rng, range(2, 10), 10)[0].split()[:60]), prose(rng, _SCRIPTS["latin"], 160)):
            one, other = (text.split() for text in texts)
            at, to = rng.randrange(170), rng.randrange(170)
            hosts = [" ".join([*one[:at], run[:160], *one[at:]]), " ".join([*other[:to], run[:160], *other[to:]])]
            assert relations(hosts)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (
            "As he which hath called you is holy, so he ye holy in all manner ot conversation",
            "As he which has called you is holy, so be ye holy in all manner of conversation",
        ),
        (
            "If I go awaf, I will come again and receive you unto myself",
            "If I go I will come again, and receive you unto myself",
        ),
        (
            "If we confess our sins, he is faithful and just to forgive us our sins",
            "If we confess our sins, He is faithful and just to forgive us our sins",
        ),
    ],
)
def test_a_quote_may_say_a_word_twice(older: str, newer: str) -> None:
    """Verses do; a word that is said again counts half a point."""
    assert ("0", "1") in relations([f"he wrote: {older}. Old", f"and she: {newer}! New"])


def test_one_word_a_million_times_takes_linear_work() -> None:
    """A step limit bounds an alignment: the rows grow with the text, not with its square."""
    texts = ["word " * 200_000, "word " * 200_000 + "end", "la la ha " * 60_000, "x" * 300_000, "x" * 300_000 + " y"]
    found = relations(texts)
    assert found["0", "1"].older_fraction == pytest.approx(1, abs=0.01)
    assert ("3", "4") in found
    assert ("0", "2") not in found


@pytest.mark.parametrize(
    ("letters", "candidates"),
    [
        ("0123456789", 0.1),
        ([f"{n:02d}" for n in range(60)], 0.1),
        ("01", 0.1),
        ("abc0123456", 100),
        (_UNSPACED["kana"][:8], 120),
        ("".join(_SCRIPTS.values()), 2),
    ],
)
def test_few_different_words_have_few_candidates(letters: str | list[str], candidates: float) -> None:
    """Tables of numbers meet no other table, tables of a few letters those of their keys; none is a pair."""
    rng = random.Random("".join(letters))
    matcher = Matcher(CONFIG)
    texts = [" ".join(rng.choices(letters, k=200)) for _ in range(300)]
    matches = match_step(matcher, Signer(CONFIG).sign([Document(str(n), text) for n, text in enumerate(texts)]).batch)
    assert len(matches.pairs()) == 0
    assert matcher.table.counts()["candidates"] <= candidates * len(texts)


def test_tables_of_the_same_few_words_are_given_up_soon() -> None:
    """Rows of addresses share seeds everywhere; a run of other words behind them is found nevertheless."""
    rng = random.Random(10)
    words = ["".join(rng.choices(_SCRIPTS["latin"], k=rng.randint(4, 8))) for _ in range(18)]
    tables = [
        "\n".join(
            f"{rng.choice(words[:6])}, {rng.randint(1, 199)} {rng.choice(words[6:14])}, {rng.choice(words[14:])}"
            for _ in range(2000)
        )
        for _ in range(8)
    ]
    run = prose(rng, _SCRIPTS["latin"], 170)
    assert sum(len(relation.passages) for relation in relations(tables).values()) <= 40
    found = relations([f"{table}\n{run}" for table in tables])
    assert len(found) == 28
    assert all(max(end - begin for *_, begin, end in one.passages) >= 150 for one in found.values())


def test_a_document_that_equals_many_others_is_linked_once_each() -> None:
    """Equal contents are copies, whatever they share."""
    text = prose(random.Random(3), _SCRIPTS["latin"], 400)
    pairs = list(Deduplicator(CONFIG).process([Document(str(n), text) for n in range(2000)]))
    assert len(pairs) == 1999
    assert {pair.similarity for pair in pairs} == {1.0}


def test_a_part_is_the_same_for_the_library_as_for_the_pair() -> None:
    """``parts_of`` gives the places and the score of each."""
    rng = random.Random(4)
    quotes = [prose(rng, _SCRIPTS["latin"], 200).strip(" ,.") for _ in range(2)]
    one, other = (
        f"{prose(rng, _SCRIPTS['latin'], 900)} {quotes[n]} {prose(rng, _SCRIPTS['latin'], 900)} {quotes[1 - n]}"
        for n in range(2)
    )
    (found,) = parts.parts_of(evidence(other), evidence(one), CONFIG.plan)
    assert {other[slice(*part.newer)] for part in found} == {one[slice(*part.older)] for part in found} == set(quotes)
    assert all(part.score >= 18 for part in found)
    common = SCHEMES["parts"].common(evidence(other), evidence(one), CONFIG.plan)
    assert common.conditions.tolist() == [True]


def test_historic_spellings_of_a_word_are_one() -> None:
    """With ``spelling=historic`` only."""
    old = (
        "And the Lorde saide vnto them haue yee not knowen that the wordes of the prophetes \u017fhall bee fulfilled "
        "in the la\u017ft dayes"
    )
    new = (
        "and the Lord said unto them have ye not known that the words of the prophets shall be fulfilled in the last "
        "days"
    )
    assert relations([old, new]) == {}
    assert ("0", "1") in relations([old, new], Config(scheme="parts:spelling=historic"))


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("one two-three", [3, 3, 5]),
        ("internationalisations", [10, 10, 1]),
        ("漢字かな a 7 98765 123456 7b", [11, 11, 12, 12, 1, 13, 13, 6, 2]),
        ("e\u0301a", [2]),
        ("... --- ...", []),
    ],
)
def test_words_have_the_kinds_that_weigh_them(text: str, lengths: list[int]) -> None:
    """A word is cut at ten letters, an ideograph, a kana and a short number have a kind of their own."""
    words = word_codes(code_points([text], NormalForm()))
    assert (words.codes & 15).tolist() == lengths


@pytest.mark.parametrize(
    ("options", "message"), [({"score": 2}, "score"), ({"window": 0}, "window"), ({"spelling": "old"}, "spelling")]
)
def test_options_have_bounds(options: dict[str, Any], message: str) -> None:
    """Value, rule, remedy."""
    with pytest.raises(ValueError, match=message):
        Config(scheme="parts", scheme_options=options)


def test_a_text_is_held_by_few_seeds_and_looked_up_by_all() -> None:
    """One of ``window`` seeds in a row is added; the keys of the others are probed, each once."""
    rng = random.Random(8)
    words = ["".join(rng.choices(_SCRIPTS["latin"], k=6)) for _ in range(400)]
    keys = SCHEMES["parts"].keys(evidence(" ".join(words)), CONFIG.plan)
    count, (added,) = len(words) - 1, keys.added.tolist()
    assert len(set(keys.values.tolist())) == len(keys.values) == count
    assert count / 8 - 1 <= added <= count / 7
    again = SCHEMES["parts"].keys(evidence(" ".join(words * 2)), CONFIG.plan)
    assert set(keys.values.tolist()) <= set(again.values.tolist())


def test_templates_are_left_out_and_what_is_around_them_is_found_in_its_place() -> None:
    """They are part of the name of a signature; those of fewer than six words count for nothing."""
    rng = random.Random(9)
    menu, quote = (prose(rng, _SCRIPTS["latin"], 300).strip(" ,.") for _ in range(2))
    texts = [f"{menu} {prose(rng, _SCRIPTS['latin'], 300)}", f"{quote} {menu}", f"{menu} a new one: {quote}"]
    config = Config(scheme="parts", scheme_options={"templates": (f"{menu}.",)})
    assert set(relations(texts)) == {("0", "1"), ("0", "2"), ("1", "2")}
    ((pair, relation),) = relations(texts, config).items()
    ((begin, end, _, last),) = relation.passages
    assert (pair, begin, last) == (("1", "2"), 0, len(texts[2]))
    assert len(quote) <= end <= len(quote) + 12
    assert config.signing_fingerprint != CONFIG.signing_fingerprint
    few = "five words are too few"
    more = Config(scheme="parts", scheme_options={"templates": (few, f"{menu}.", "")})
    assert (more.signing_fingerprint, more.plan.short_templates) == (config.signing_fingerprint, 2)
    for templates in ((few,), ()):
        with pytest.raises(ConfigError, match="no text of parts:templates has 6 words"):
            Config(scheme="parts", scheme_options={"templates": templates})


def test_a_text_without_words_is_equal_to_itself_only() -> None:
    """It has no key but its content."""
    keys = SCHEMES["parts"].keys(evidence("... !!! ..."), CONFIG.plan)
    assert np.diff(keys.starts).tolist() == [0]
    assert ("0", "1") in relations(["... !!! ...", "... !!! ..."])
