"""The ledger equals a replay in plain Python; beyond its bounds it counts what it forgets."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_replay import One, check, replay

from neardup import Config, Deduplicator, Document
from neardup.pairs.batches import MICROSECONDS
from neardup.stories.sources import ledger_stories
from neardup.stories.sources.ledger import HOURS_MAX, PARTS, Ledger
from neardup.stories.sources.names import source_of
from neardup.stories.sources.reports import Kept, Reports
from neardup.stories.verdicts.rule import STATUSES
from neardup.window import NO_TIME


def reports(verdicts: Sequence[One]) -> Reports:
    """Verdicts as columns."""
    times = [
        np.array([NO_TIME if one is None else round(one * MICROSECONDS) for one in column], np.int64)
        for column in ([one.arrival for one in verdicts], [one.date for one in verdicts])
    ]
    return Reports(
        [one.source for one in verdicts],
        np.array([STATUSES.index(one.status) for one in verdicts], np.uint8),
        np.array([one.cluster for one in verdicts], np.int64),
        np.array([one.late for one in verdicts], np.bool_),
        *times,
    )


def stream(draw: Callable[[Any], Any]) -> list[One]:
    """Verdicts of a few sources about a few stories."""
    seconds = st.one_of(st.none(), st.integers(0, 5 * 3600).map(float))
    verdicts: list[One] = []
    stories: list[int] = []
    for place in range(draw(st.integers(0, 40))):
        statuses = ["original", "refused", *(["duplicate", "duplicate", "update", "unchanged"] if stories else [])]
        status, late = draw(st.sampled_from(statuses)), draw(st.integers(0, 9)) == 0
        cluster = draw(st.sampled_from(stories)) if status in ("duplicate", "update", "unchanged") else place
        arrival = draw(st.one_of(st.none(), st.just(float(place * 700))))
        is_late = late and status != "refused"
        verdicts.append(
            One(draw(st.sampled_from(["a", "b", "c", ""])), status, cluster, is_late, arrival, draw(seconds))
        )
        if status == "original" and not is_late:
            stories.append(place)
    return verdicts


@pytest.mark.long
@given(st.data())
def test_the_ledger_equals_a_replay_in_plain_python(data: st.DataObject) -> None:
    """However the verdicts are divided into steps, also if steps are undone, and if it is stored and read again."""
    verdicts = stream(data.draw)
    is_stored = data.draw(st.booleans())
    ledger, first = Ledger(stored=PARTS if is_stored else ()), 0
    stored: dict[tuple[str, tuple[Any, ...]], tuple[Any, ...] | None] = {}
    while first < len(verdicts):
        end = data.draw(st.integers(first + 1, len(verdicts)))
        step = reports(verdicts[first:end])
        first = end
        if not is_stored:
            ledger.add(step)
            continue
        if data.draw(st.booleans()):
            with suppress(KeyError), ledger.step():
                ledger.add(step)
                raise KeyError
        with ledger.step():
            ledger.add(step)
            stored |= {(kind, key): value for kind, key, value in ledger.pending()}
        if data.draw(st.booleans()):
            ledger = Ledger(stored=PARTS)
            ledger.resume(Kept(*key, value) for key, value in stored.items() if value is not None)
    expected = replay(verdicts)
    assert {one["source"] for one in ledger.largest(99)} == {one["source"] for one in expected.values()}
    for name, values in expected.items():
        found = ledger.source(name)
        assert found is not None
        check(found, values)
    assert not ledger.exceeded


@pytest.mark.parametrize("name", ["itn_multilingual", "html_articles"])
def test_the_ledger_equals_a_replay_on_real_texts(name: str, real_data: Callable[[str], Path]) -> None:
    """News items with their dates, by language; articles by the host of their address."""
    folder = real_data(name)
    if name == "itn_multilingual":
        rows = map(json.loads, (folder / "docs.jsonl").read_text(encoding="utf-8").splitlines())
        documents = [
            Document(row["id"], row["text"], datetime.fromisoformat(row["ts"]).timestamp(), source=row["lang"])
            for row in rows
        ]
    else:
        truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
        articles = [(row["url"], row["articleBody"]) for row in truth.values()]
        documents = [Document(f"{url}#{n}", text, n * 60.0) for n in range(2) for url, text in articles]
    verdicts = Deduplicator(Config(threshold=0.6)).decide(documents)
    assert sum(one.status == "duplicate" for one in verdicts) > 100
    ones = [
        One(source_of(document) or "", one.status, -1 if one.cluster is None else one.cluster, one.late, None,
            document.timestamp)
        for document, one in zip(documents, verdicts, strict=True)
    ]  # fmt: skip
    ledger = Ledger()
    for first in range(0, len(ones), 100):
        ledger.add(reports(ones[first : first + 100]))
    expected = replay(ones)
    hours = sorted({hour for one in expected.values() for hour in one["hours"] if hour != "all"})
    forgotten = set(hours[: max(0, len(hours) - HOURS_MAX)])
    assert ledger.exceeded == ({"hours": len(forgotten)} if forgotten else {})
    for source, values in expected.items():
        values["hours"] = {hour: one for hour, one in values["hours"].items() if hour not in forgotten}
        found = ledger.source(source)
        assert found is not None
        check(found, values)


def test_the_source_with_the_fewest_documents_is_forgotten() -> None:
    """The new source begins with its number, which is said to be uncertain; the largest keep their counts, also of the
    hour that they shared with it."""
    ledger = Ledger(sources_max=3)
    ledger.add(reports([One(source, "original", place, date=60.0) for place, source in enumerate("aaabbcdd")]))
    assert ledger.exceeded == {"sources": 1}
    found = {one["source"]: (one["documents"], one["uncertain"]) for one in ledger.largest(9)}
    assert found == {"a": (3, 0), "b": (2, 0), "d": (3, 1)}
    assert ledger.source("c") is None
    largest = ledger.source("a")
    assert largest is not None
    assert [(one["hour"], one["documents"]) for one in largest["hours"]] == [(0, 3)]


def test_a_source_with_originals_is_not_forgotten_for_one_without() -> None:
    """Twelve thousand invented sources that copy take each other's room; one with originals takes theirs first."""
    ledger = Ledger(sources_max=4)
    ledger.add(reports([One("real", "original", 0), *[One(f"copy{n % 3}", "duplicate", 0) for n in range(60)]]))
    for n in range(100):
        ledger.add(reports([One(f"invented{n}", "duplicate", 0), One(f"invented{n}", "duplicate", 0)]))
    assert ledger.source("real") is not None
    assert ledger.exceeded["sources"] == 100
    ledger.add(reports([One(f"paper{n}", "original", 1 + n) for n in range(3)]))
    assert {one["source"] for one in ledger.largest(9)} == {"real", "paper0", "paper1", "paper2"}
    ledger.add(reports([One("invented", "duplicate", 0), One("invented", "update", 1)]))
    assert ledger.source("invented") is None
    assert ledger.exceeded["sources"] == 104


def test_the_oldest_stories_hours_and_rare_pairs_are_forgotten() -> None:
    """Each bound is counted when it is exceeded."""
    ledger = Ledger(stories_max=2)
    ledger.add(reports([One("a", "original", place, date=place * 3600.0) for place in range(HOURS_MAX + 3)]))
    assert ledger.exceeded == {"stories": HOURS_MAX + 1, "hours": 3}
    found = ledger.source("a")
    assert found is not None
    assert found["documents"] == HOURS_MAX + 3
    assert [one["hour"] for one in found["hours"]] == [n * 3600 for n in range(3, HOURS_MAX + 3)]
    ledger.add(reports([One("b", "duplicate", 0), One("b", "duplicate", HOURS_MAX + 2)]))
    assert found["later_in"] == []
    later = ledger.source("a")
    assert later is not None
    assert later["later_in"] == [{"source": "b", "documents": 1}]
    few = Ledger(sources_max=1)
    few.add(reports([One("a", "original", 0), *[One(f"s{n}", "duplicate", 0) for n in range(17)]]))
    assert few.exceeded["pairs"] == 8


@given(st.data())
def test_known_stories_equal_a_dictionary_and_hold_few_chunks(data: st.DataObject) -> None:
    """Whichever begin, also again, change and end, a chunk goes when few of its stories stand in it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_CHUNK_BITS", 3), ("_MASK", 7), ("_LEFT_MIN", 2)):
            patch.setattr(ledger_stories, name, value)
        known, expected = ledger_stories.KnownStories(), dict[int, ledger_stories.Story]()
        places = st.lists(st.integers(0, 30), unique=True, max_size=12)
        for n in range(data.draw(st.integers(0, 12))):
            begun = data.draw(places)
            known.begin(
                reports([One("a", "original", one, False, float(n), None) for one in begun]), np.arange(len(begun))
            )
            time, hour = n * MICROSECONDS, 0
            expected |= dict.fromkeys(begun, ("a", hour, time, NO_TIME, "a", hour, NO_TIME, False))
            for place in data.draw(places):
                known.end(place)
                expected.pop(place, None)
            for place in set(data.draw(places)) & expected.keys():
                expected[place] = (*expected[place][:-1], True)
                known.put(place, expected[place])
            assert {place: known.get(place) for place in range(31) if place in known} == expected
            assert len(known) == len(expected)
        assert len(known._chunks) <= len(expected) / 2 + 2


def test_an_hour_of_a_source_that_repeats_itself_is_named() -> None:
    """190 of 200 documents repeat other ids of the source; it is not named if its week before was like that."""
    hour = 3600.0

    def day(source: str, at: float, own: int, count: int) -> list[One]:
        begin = int(at)
        return [One(source, "original", begin, date=at)] + [
            One(source, "duplicate" if n < own else "original", begin if n < own else begin + n, date=at)
            for n in range(count - 1)
        ]

    ledger = Ledger()
    ledger.add(reports(day("fine", 900 * hour, 100, 200) + day("blocked", 900 * hour, 190, 200)))
    ledger.add(reports(day("always", 800 * hour, 100, 200) + day("always", 901 * hour, 195, 200)))
    ledger.add(reports(day("small", 900 * hour, 198, 199) + day("again", 700 * hour, 195, 200)))
    ledger.add(reports(day("again", 900 * hour, 195, 200)))
    named = [(one["source"], one["hour"], one["repeated"]) for one in ledger.repeating()]
    assert named == [("again", 700 * 3600, 195), ("blocked", 900 * 3600, 190), ("again", 900 * 3600, 195)]
    untimed = Ledger()
    for source in ("untimed", ""):  # documents without a source have nothing in common
        untimed.add(reports([One(source, "original", 1), *[One(source, "duplicate", 1) for _ in range(250)]]))
    assert [(one["source"], one["hour"], one["repeated"]) for one in untimed.repeating()] == [("untimed", None, 250)]
