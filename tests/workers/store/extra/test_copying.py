"""What a store keeps besides its window goes along when it is salvaged or migrated; what is lost is counted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from service_world import NOW, TEXT, edited, opened

from neardup import Document
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.extra import feeds, outbox
from neardup_workers.outside.store.migrating import migrate
from neardup_workers.outside.store.reading import StoreReader
from neardup_workers.outside.store.salvage import salvage

SETTINGS = ServeSettings(threshold=0.7, keep_texts=True, webhook="http://127.0.0.1:9/hook")

# A story grows by its sources alone.
RULES = outbox.Rules(lambda: NOW, members=0, sources=2)


def salvaged(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, dict[str, int]]:
    """Salvage the store; the folder, and what is said to be lost."""
    return folder, salvage(folder, SETTINGS.plan.width).lost


def migrated(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, dict[str, int]]:
    """Sign the store again; the new folder, and what is said to be lost."""
    migrate(SETTINGS.model_copy(update={"threshold": 0.6}), folder, folder / "new")
    said = capsys.readouterr().err.partition("lost: ")[2].strip()
    lost = (one.split(" ", 1) for one in said.split(", ") if one)
    return folder / "new", {plural: int(number) for number, plural in lost}


def besides(folder: Path) -> dict[str, Any]:
    """What the store keeps besides its window."""
    reader = StoreReader(folder / "window.sqlite")
    with closing(sqlite3.connect(folder / "window.sqlite")) as connection:
        levels = connection.execute("SELECT * FROM story_levels ORDER BY story").fetchall()
    return {
        "waiting": reader.ask(outbox.due, 2 * NOW, 100),
        "dead": reader.ask(outbox.dead, -1, 100),
        "feeds": reader.ask(feeds.read),
        "name": reader.newest_stories(2, 1, 10)[0],
        "levels": levels,
    }


def filled(folder: Path) -> None:
    """A story of three sources with its events, one of them dead; two reports of feeds."""
    keeper = opened(folder, SETTINGS, rules=RULES)
    for n in range(3):
        keeper.check([Document(f"https://s{n}.example/a", TEXT, NOW + n)])
    with keeper.log.transaction():
        writer = keeper.log.writer
        outbox.settle(writer, [outbox.Outcome(1, "refused")], 10)
        feeds.store(writer, {"https://a.example": '{"items": 1}', "https://b.example": '{"items": 2}'}, (), NOW)
    keeper.log.close()


@pytest.mark.parametrize("again", [salvaged, migrated])
def test_events_reports_of_feeds_and_the_name_go_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], again: Callable[..., tuple[Path, dict[str, int]]]
) -> None:
    """A story does not grow past a number a second time, and later events have later numbers."""
    filled(tmp_path)
    before = besides(tmp_path)
    assert ([one.number for one in before["waiting"]], [one.number for one in before["dead"]]) == ([2], [1])
    assert len(before["feeds"]) == 2
    folder, lost = again(tmp_path, capsys)
    assert lost == {}
    settings = SETTINGS if again is salvaged else SETTINGS.model_copy(update={"threshold": 0.6})
    keeper = opened(folder, settings, rules=RULES)
    assert besides(folder) == before
    keeper.check([Document("https://s0.example/b", TEXT, NOW + 9)])  # four members: two sources are an event already
    keeper.check([Document("other", "a text that has nothing to do with the other one at all, not a word", NOW + 10)])
    events = StoreReader(folder / "window.sqlite").ask(outbox.due, 2 * NOW, 100)
    assert [one.number for one in events] == sorted({one.number for one in events})
    assert events[0] == before["waiting"][0]
    assert events[-1].number > 2
    keeper.log.close()


@pytest.mark.parametrize("again", [salvaged, migrated])
def test_what_is_damaged_is_counted_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], again: Callable[..., tuple[Path, dict[str, int]]]
) -> None:
    """An event whose body is another's, a report that is no JSON, and a store without a name, which gets one."""
    filled(tmp_path)
    with edited(tmp_path / "window.sqlite") as connection:
        connection.execute('UPDATE outbox SET body = \'{"id":"x"}\' WHERE number = 2')
        connection.execute("UPDATE feeds SET condition = '{' WHERE url = 'https://a.example'")
        connection.execute("DELETE FROM identity")
    folder, lost = again(tmp_path, capsys)
    assert lost == {"events for the web hook": 1, "reports of feeds": 1}
    found = besides(folder)
    assert (found["waiting"], [one.number for one in found["dead"]]) == ([], [1])
    assert [url for url, *_ in found["feeds"]] == ["https://b.example"]
    assert found["name"]
