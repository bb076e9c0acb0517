"""The cases of the laws: every scheme, and random streams with many near-duplicates."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from record_streams import SQUARES, print_stream, record_stream
from sizes import SEEDS, remembered
from vector_streams import COMPONENT_MAX, DIMENSION, NORM_MAX, vector_stream

from neardup import Config, Document
from neardup.features.texts.shingles import TEXT_SHINGLES
from neardup.features.tokens.token_order import TokenOrder
from neardup.schemes.rows import SCHEMES

# Schemes that sign sets of shingles and estimate their similarity from sketches, without an infinite row.
SKETCHED = ("one_permutation", "minhash", "permutation")
# Schemes whose rows may be infinite, with sets that leave few rows infinite.
PARTIAL = ("partial_minhash", "grouped")
_NO_URLS = "the words of the law differ by digits, which URLs drop: too few sets for errors that are independent"
# (law, case) -> why the law does not hold there. A law is the name of its test function.
EXCLUDED: dict[tuple[str, str], str] = {
    **{("test_where_a_text_is_changed_makes_no_difference", f"{scheme} urls"): _NO_URLS for scheme in SKETCHED},
    **{
        ("test_copies_are_linked_once_each_and_hide_no_other_pair", case): (
            "equal records may be two entities: each pairs with every other, and none stands for the rest"
        )
        for case in ("records exact", "records shingled")
    },
    **{
        (law, case): "only copies are pairs, and this law is about others"
        for law in (
            "test_expired_ones_are_never_returned_and_live_ones_never_lost",
            "test_only_the_last_documents_are_compared",
        )
        for case in ("identical", "identical positions")
    },
    **{
        (
            "test_the_sequence_is_decided_as_it_must_be",
            case,
        ): "copies alone are duplicates, not what is near"
        for case in ("passages", "passages, short", "passages, templates", "parts", "parts, historic")
    },
    ("test_the_sequence_is_decided_as_it_must_be", "signals"): "what is near by its title is kept, in the same story",
    **{
        ("test_the_sequence_is_decided_as_it_must_be", case): "what is near says something new, so it is kept"
        for case in ("new words, exact", "new numbers")
    },
    ("test_a_copy_is_a_pair_of_similarity_1", "vectors dot"): "a dot product with itself is the square of a length",
    ("test_copies_are_linked_once_each_and_hide_no_other_pair", "vectors dot"): "copies are compared like any others",
}

STOPS = ["the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "on", "are", "with", "they", "be", "at"]
# Words of several scripts and lengths, without stop words.
CONTENT = [f"{stem}{ending}" for stem in ("rain", "göal", "marké", "tree", "вест") for ending in range(40)]


def prose(rng: random.Random, words: int) -> list[str]:
    """Words, of which about every third is a stop word."""
    return [rng.choice(STOPS) if rng.random() < 0.35 else rng.choice(CONTENT) for _ in range(words)]


def edited(rng: random.Random, words: list[str], edits: int) -> list[str]:
    """Replace, drop or insert some words."""
    out = list(words)
    for _ in range(edits):
        at = rng.randrange(len(out))
        out[at : at + rng.randint(0, 1)] = prose(rng, rng.randint(0, 1))
        out = out or ["alone"]
    return out


@remembered
def random_stream(
    rng: random.Random,
    size: int,
    *,
    copies: float = 0.25,
    versions: float = 0.0,
    jitter: float | None = None,
    lengths: tuple[int, int] = (12, 60),
) -> list[Document]:
    """New stories, edited stories and, with the given probabilities, exact copies and earlier ids; a few have no text.

    ``lengths`` bounds the number of words. With ``jitter`` event times grow by a second a document on average, and are
    late by at most ``jitter`` seconds.
    """
    stories: list[list[str]] = []
    out: list[Document] = []
    clock = 1000.0
    for n in range(size):
        clock += rng.expovariate(1)
        kind = rng.random()
        if stories and kind < copies:
            words = rng.choice(stories)
        elif stories and kind < copies + 0.4:
            words = edited(rng, rng.choice(stories), rng.randint(1, 4))
        else:
            words = prose(rng, rng.randint(*lengths))
        stories.append(words)
        text = " ".join(words) if rng.random() > 0.02 else rng.choice(["", " \n", "\ud800"])
        id_ = rng.choice(out).id if out and rng.random() < versions else f"d{n}"
        time = None if jitter is None else clock - rng.random() * jitter
        out.append(Document(id_, text, time))
    return out


# Reasons that do not apply to texts -> the file of tests that produces them.
SCHEME_REASONS: dict[str, str] = {
    **dict.fromkeys(("no_tokens", "tokens_type", "no_vector", "vector_type", "vector_base64"), "test_json_lines.py"),
    **dict.fromkeys(("evidence_too_large",), "test_pipeline.py"),
    **dict.fromkeys(("tokens_empty", "tokens_too_many", "token_range", "rating_range"), "test_elements.py"),
    **dict.fromkeys((
        "vector_length", "vector_range", "vector_zero", "vector_sparse", "vector_norm", "vector_component",
        "vector_bit", "vector_half",
    ), "test_vectors.py"),
    **dict.fromkeys(("fields_type",), "test_deduplicator.py"),
    **dict.fromkeys(("vector_padding",), "test_vector_input.py"),
    **dict.fromkeys(("picture", "picture_package"), "test_pictures.py"),
    **dict.fromkeys(("picture_file",), "test_signals_in_outputs.py"),
    **dict.fromkeys(("picture_length",), "test_signals.py"),
    **dict.fromkeys(("no_key",), "test_records.py"),
    **dict.fromkeys(("no_square", "square_range"), "test_grids.py"),
}  # fmt: skip


def url_stream(rng: random.Random, size: int, **settings: Any) -> list[Document]:
    """As ``random_stream``, with a URL for every two words; digits become letters."""
    digits = str.maketrans("0123456789", "abcdefghij")

    def urls(text: str) -> str:
        words = text.translate(digits).split()
        return " ".join(f"http://Host7.org/{a}/{b}.html" for a, b in pairwise(words)) or text

    return [document._replace(text=urls(document.text)) for document in random_stream(rng, size, **settings)]


def token_stream(rng: random.Random, size: int, **settings: Any) -> list[Document]:
    """As ``random_stream``, with words as elements; every fourth element is a number."""
    out = []
    for document in random_stream(rng, size, **settings):
        words = document.text.split()
        out.append(document._replace(text="", tokens=[len(w) if n % 4 == 0 else w for n, w in enumerate(words)]))
    return out


def rating_stream(rng: random.Random, size: int, **settings: Any) -> list[Document]:
    """Each word rated, by its length."""
    documents = random_stream(rng, size, **settings)
    return [x._replace(text="", tokens={word: 1 + len(word) % 5 for word in x.text.split()}) for x in documents]


def copious_stream(rng: random.Random, size: int, **settings: Any) -> list[Document]:
    """As ``random_stream``; every second text is an earlier text in capitals, with other blanks or unchanged."""
    out = random_stream(rng, size, **settings)
    for n, document in enumerate(out):
        if n and rng.random() < 0.5:
            text = out[rng.randrange(n)].text
            out[n] = document._replace(text=rng.choice([text, text.upper().lower(), text.replace(" ", "  ")]))
    return out


def signal_stream(rng: random.Random, size: int, **settings: Any) -> list[Document]:
    """As ``random_stream``; of three documents one has a title, of five one a picture of some, of four one a record."""
    pictures = [rng.randbytes(8) for _ in range(size // 4 + 1)]
    out = random_stream(rng, size, **settings)
    out[::3] = [document._replace(title=" ".join(document.text.split()[:6])) for document in out[::3]]
    out[::5] = [document._replace(picture=rng.choice(pictures)) for document in out[::5]]
    out[::4] = [one._replace(fields={"model": f"M{rng.randrange(size // 8 + 1)}", "price": one.id}) for one in out[::4]]
    return out


class Case(NamedTuple):
    """A case of the laws: the settings of a scheme, and random streams of documents for it."""

    name: str
    settings: dict[str, Any]
    stream: Callable[..., list[Document]] = random_stream

    @property
    def scheme(self) -> str:
        """The name of the scheme, without its options."""
        return str(self.settings.get("scheme", "one_permutation")).partition(":")[0]

    def config(self, **settings: Any) -> Config:
        """Return the configuration; no bucket is truncated unless ``settings`` say so."""
        return Config(**{"bucket_candidates_max": 2**20, **self.settings, **settings})


def long_stream(rng: random.Random, size: int, **settings: Any) -> list[Document]:
    """Stories of some hundred words, which leave few rows infinite."""
    return random_stream(rng, size, lengths=(150, 250), **settings)


def some_order() -> TokenOrder:
    """Return an order of some shingles of random streams, frequent and rare ones mixed."""
    config = Config(scheme="prefix")
    found = SCHEMES["prefix"].features(random_stream(random.Random(0), 10), config.plan).features
    return TokenOrder(np.unique(found.values)[::2])


def some_templates() -> tuple[str, ...]:
    """Return parts of some texts of random streams of the first seed."""
    return tuple(document.text[200:500] for document in long_stream(random.Random(1), 3))


SETS_CASES = [
    Case(
        f"{scheme} {shingles}",
        {"scheme": scheme, "shingles": shingles},
        url_stream if shingles == "urls" else random_stream,
    )
    for scheme in SKETCHED
    for shingles in TEXT_SHINGLES
]
RECORD_CASES = [
    Case("records exact", {"scheme": "records", "threshold": 0.7}, record_stream),
    Case(
        "records shingled",
        {"scheme": "records:keys=phone,shingled=name,address", "threshold": 0.7},
        record_stream,
    ),
    Case("grid", {"scheme": "grid", "scheme_options": {"squares": SQUARES}, "threshold": 0.7}, print_stream),
    Case("grid of one group", {"scheme": "grid", "scheme_options": {"squares": SQUARES, "groups": 1}}, print_stream),
]
# Cases of other ways to bring elements and to measure similarity.
ELEMENT_CASES = [
    Case("tokens", {"shingles": "tokens"}, token_stream),
    Case(
        "tokens of a bag, exact",
        {"shingles": "tokens", "measure": "jaccard_bag", "verify": "exact", "threshold": 0.7},
        token_stream,
    ),
    Case(
        "tokens of a bag by the summed union",
        {"shingles": "tokens", "measure": "jaccard_bag_sum", "verify": "exact", "threshold": 0.4},
        token_stream,
    ),
    Case("ratings", {"shingles": "tokens", "scheme_options": {"ratings": "liked_hated"}}, rating_stream),
    Case(
        "stars", {"shingles": "tokens", "scheme_options": {"ratings": "stars"}, "measure": "jaccard_bag"}, rating_stream
    ),
    Case("exact", {"verify": "exact"}),
    Case("exact, minhash in 4 bytes", {"verify": "exact", "scheme": "minhash:shingle_bytes=4"}),
    Case("bags of words", {"shingles": "words", "measure": "jaccard_bag", "k": 1}),
    Case("containment", {"verify": "exact", "measure": "containment", "rows_max": 256}),
    Case("buckets shared", {"buckets_shared_min": 2, "bands": 32, "rows": 4}),
    Case("new words, exact", {"novelty": "words", "verify": "exact", "threshold": 0.45}),
    Case("new numbers", {"novelty": "numbers", "threshold": 0.6}),
    Case("signals", {"scheme": "signals:title=0.6,picture=0.9,record=0.6,fields=model,price:9"}, signal_stream),
]
PARTIAL_CASES = [
    Case("partial_minhash chars", {"scheme": "partial_minhash"}),
    Case("partial_minhash words", {"scheme": "partial_minhash", "shingles": "words"}, long_stream),
    Case("grouped chars", {"scheme": "grouped"}, long_stream),
    Case("grouped words", {"scheme": "grouped", "shingles": "words", "k": 2}, long_stream),
    Case("grouped, exact", {"scheme": "grouped:shingle_bytes=4", "verify": "exact"}, long_stream),
]
EXACT_CASES = [
    *(
        Case(f"prefix {kind}", {"scheme": "prefix", "shingles": kind, "threshold": 0.6})
        for kind in ("chars", "words", "stopwords")
    ),
    Case(
        "prefix bag of tokens",
        {"scheme": "prefix", "shingles": "tokens", "measure": "jaccard_bag", "threshold": 0.6},
        token_stream,
    ),
    Case("prefix ordered", {"scheme": "prefix", "scheme_options": {"token_order": some_order()}}),
    Case("identical", {"scheme": "identical"}, copious_stream),
    Case("passages", {"scheme": "passages"}, long_stream),
    Case("passages, short", {"scheme": "passages:gram=20,characters=60"}),
    Case("passages, templates", {"scheme": "passages", "scheme_options": {"templates": some_templates()}}, long_stream),
    Case("parts", {"scheme": "parts", "bucket_candidates_max": 256}, long_stream),
    Case("parts, historic", {"scheme": "parts:spelling=historic,score=10", "bucket_candidates_max": 256}, long_stream),
    Case("identical positions", {"scheme": "identical:positions=5"}, copious_stream),
]
_VECTORS: dict[str, dict[str, Any]] = {
    "cosine": {"scheme": "hyperplane", "scheme_options": {"dimension": DIMENSION}},
    "dot": {"scheme": f"hyperplane_dot:dimension={DIMENSION},norm_max={NORM_MAX},evidence=float16"},
    "euclidean": {"scheme": "p_stable", "scheme_options": {"dimension": DIMENSION, "distance_scale": 10.0}},
    "euclidean sketch": {"scheme": f"p_stable:dimension={DIMENSION},distance_scale=10,evidence=sketch"},
    "hamming": {"scheme": "bit_sampling", "scheme_options": {"dimension": 8 * DIMENSION}},
    "symbols": {"scheme": "bit_sampling", "measure": "hamming_symbols", "scheme_options": {"dimension": DIMENSION}},
    "l1": {
        "scheme": f"bit_sampling:dimension={DIMENSION},component_max={COMPONENT_MAX},distance_scale=200",
        "measure": "l1",
    },
}  # fmt: skip
VECTOR_CASES = [
    Case(f"vectors {name}", settings, vector_stream(name.split()[0])) for name, settings in _VECTORS.items()
]
CASES: dict[str, Case] = {
    case.name: case
    for cases in (SETS_CASES, ELEMENT_CASES, PARTIAL_CASES, EXACT_CASES, VECTOR_CASES, RECORD_CASES)
    for case in cases
}


# One case of each kind of scheme, on which ``make check`` runs the laws; ``make test`` runs them on all. The
# case of grids takes longest, so that it is left to ``make test``.
QUICK = {
    "one_permutation chars", "one_permutation words", "minhash urls", "tokens", "exact", "containment",
    "new words, exact", "grouped, exact", "prefix chars", "identical", "passages", "parts", "vectors cosine",
    "records exact",
}  # fmt: skip

# These laws take longest, so that ``make check`` runs them on few cases.
SLOW_LAWS = {
    "test_a_batch_gives_what_one_by_one_gives",
    "test_a_batch_is_decided_as_its_documents_one_by_one",
    "test_a_probe_reports_what_adding_would_and_changes_nothing",
    "test_a_stream_of_several_collections_is_decided_as_one_of_each",
    "test_an_explanation_says_pair_of_the_pairs_and_of_no_others",
    "test_copies_repeat_no_pair_of_contents",
    "test_shards_find_together_what_one_table_finds",
    "test_shards_that_are_added_on_the_way_find_together_what_one_table_finds",
    "test_the_evidence_knows_the_common_keys",
    "test_a_growth_repeats_no_pair_of_contents",
    "test_memory_is_bounded_by_the_window",
}
# These laws see texts and other elements. All others see keys and evidence: of cases of a scheme that differ in their
# elements alone, one or two are enough for them.
OF_TEXTS = {
    "test_a_batch_signs_as_one_by_one_does",
    "test_a_copy_is_a_pair_of_similarity_1",
    "test_an_item_without_a_key_has_its_content_for_one",
    "test_evidence_has_the_width_that_the_scheme_says",
    "test_no_input_is_changed",
}
OTHER_ELEMENTS = {case.name for case in SETS_CASES} - {"minhash chars", "permutation chars"} - QUICK
OTHER_ELEMENTS |= {"ratings", "stars", "prefix words", "prefix stopwords", "partial_minhash words", "grouped words"}
FEW = {"one_permutation chars", "exact", "identical", "vectors cosine"}


def every_case(law: Callable[..., None]) -> Callable[..., None]:
    """Run a law on every ``case`` that is not excluded from it by its name."""
    return pytest.mark.parametrize("case", parameters(_included(law), law))(law)


def every_stream(law: Callable[..., None]) -> Callable[..., None]:
    """Run a law on every ``case`` that is not excluded from it by its name, with the ``seed`` of its stream.

    A case in ``QUICK`` has three seeds, for the others share its code; the tests take one of them, not the same for all
    cases, and ``make torture`` all.
    """
    rows = []
    for case in _included(law):
        first, *more = seeds_of(case)
        rows.append(pytest.param(case, first, id=case.name, marks=_marks(case, law)))
        rows += [pytest.param(case, seed, id=f"{case.name}, stream {seed}", marks=pytest.mark.long) for seed in more]
    return pytest.mark.parametrize(("case", "seed"), rows)(law)


def seeds_of(case: Case) -> tuple[int, ...]:
    """The seeds of the streams of a case; ``make check`` takes the first, if the case is in ``QUICK``."""
    if case.name not in QUICK:
        return (1,)
    seeds, turn = (1, 2, 3), sorted(QUICK).index(case.name) % 3
    return (seeds[turn:] + seeds[:turn])[:SEEDS]


def every_set_case(law: Callable[..., None]) -> Callable[..., None]:
    """Run a law about elements on every ``case`` of sketched sets that is not excluded from it by its name."""
    return pytest.mark.parametrize("case", parameters(_not_excluded(SETS_CASES, law), law))(law)


def parameters(cases: Iterable[Case], law: Callable[..., None] | None = None) -> list[Any]:
    """Cases as parameters of a test; those that ``make check`` leaves out are marked as long."""
    return [pytest.param(case, id=case.name, marks=_marks(case, law)) for case in cases]


def _marks(case: Case, law: Callable[..., None] | None) -> Any:
    is_slow = law is not None and law.__name__ in SLOW_LAWS
    return () if case.name in (FEW if is_slow else QUICK) else pytest.mark.long


def _included(law: Callable[..., None]) -> list[Case]:
    left_out = set() if law.__name__ in OF_TEXTS else OTHER_ELEMENTS
    return [case for case in _not_excluded(CASES.values(), law) if case.name not in left_out]


def _not_excluded(cases: Iterable[Case], law: Callable[..., None]) -> list[Case]:
    return [case for case in cases if (law.__name__, case.name) not in EXCLUDED]


def same(a: Iterable[npt.NDArray[Any]], b: Iterable[npt.NDArray[Any]]) -> bool:
    """Whether two rows of arrays (evidence, keys, a batch) are equal."""
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
