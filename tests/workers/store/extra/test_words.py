"""The index of words follows the log: what leaves or is erased leaves the index, and an old store gets one."""

import random
import sqlite3

import pytest
from service_world import NOW, edited, world_in

from neardup_workers.outside.store.extra import words

WORDS = [f"{stem}{number}" for stem in ("rain", "tree", "coast", "ferry") for number in range(20)]


def _text(rng):
    return " ".join(rng.choice(WORDS) for _ in range(30))


def _indexed(path):
    """The places in the index by word, from the index itself."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.entries USING fts5vocab('main', 'headlines', 'instance')")
        return set(connection.execute("SELECT term, doc FROM entries"))


def _expected(path, *, waiting=False):
    """The same from what the log has of kept documents, those that wait left out or not."""
    with sqlite3.connect(path) as connection:
        entered = connection.execute("SELECT value FROM meta WHERE name = 'entered'").fetchone()
        rows = connection.execute(
            "SELECT place, id, title, source, text, status IN (0, 5) OR flags & 4 FROM documents "
            "LEFT JOIN texts USING (place) WHERE status IN (0, 1, 5) AND gone = 0"
        )
        found = [
            (place, " ".join((id_.decode(), *filter(None, (title, source, text if leads else None)))))
            for place, id_, title, source, text, leads in rows
            if (title is not None or (leads and text is not None)) and (waiting or not entered or place < entered[0])
        ]
    return {(word, place) for place, text in found for word in text.split()}


def _stories(path, places):
    """The stories, of those with members, that documents at places tell."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT place, cluster FROM documents JOIN clusters USING (cluster)")
        return {cluster for place, cluster in rows if place in places}


@pytest.mark.long
@pytest.mark.parametrize("keep_texts", [True, False])
def test_the_index_equals_what_the_log_has_of_kept_documents(tmp_path, keep_texts):
    """Through copies, updates, removals and a moving window, and a search finds what waits for its entry, too; made
    again from a store that has none, it is the same."""
    rng, path = random.Random(5), tmp_path / "window.sqlite"
    settings = {"keep_texts": keep_texts, "window_documents": 60, "clock": "event"}
    with world_in(tmp_path, **settings) as world:
        for n in range(150):
            text = _text(random.Random(rng.randrange(40)))
            said = {"title": f"headline{n}", "source": f"paper{n % 3}"} if n % 4 else {}
            changed = text.replace("rain", "snow") if n % 5 == 0 else text
            world.check(f"d{rng.randrange(50)}", changed, timestamp=NOW + n - 200, **said)
            if n % 7 == 0:
                world.ask("DELETE", f"/v1/documents/d{rng.randrange(50)}")
            if n % 5 == 0:
                word, found = rng.choice([*WORDS, "headline1", f"headline{n}"]), "/v1/documents?limit=200&q="
                places = {one["place"] for one in world.ask("GET", f"{found}{word}").json()["documents"]}
                assert places == {at for one, at in _expected(path, waiting=True) if one.startswith(word)}
                stories = world.ask("GET", f"/v1/clusters?limit=200&size_min=1&q={word}").json()["clusters"]
                assert {one["cluster"] for one in stories} == _stories(path, places)
    assert len(_expected(path)) > (200 if keep_texts else 20)
    assert _indexed(path) == _expected(path)
    with edited(path) as connection:
        heats = connection.execute("SELECT * FROM growth ORDER BY cluster").fetchall()
        for name in (
            "TRIGGER grows",
            "TRIGGER ends",
            "TABLE growth",
            "TABLE headlines",
            "INDEX documents_joined",
            "INDEX documents_source",
            "INDEX clusters_larger",
            "INDEX clusters_joined",
        ):
            connection.execute(f"DROP {name}")
        connection.execute("CREATE INDEX clusters_size ON clusters (size, cluster)")
    with world_in(tmp_path, **settings):
        pass
    assert _indexed(path) == _expected(path)
    with sqlite3.connect(path) as connection:
        again = connection.execute("SELECT * FROM growth ORDER BY cluster").fetchall()
        indexes = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE tbl_name = 'clusters'")}
    assert "clusters_larger" in indexes
    assert "clusters_size" not in indexes
    assert [cluster for cluster, _ in again] == [cluster for cluster, _ in heats if cluster in dict(again)]


@pytest.mark.long
def test_the_words_of_an_erased_text_are_on_no_page_of_the_file(tmp_path):
    """A removal takes effect in the file of the index, too."""
    with world_in(tmp_path, keep_texts=True) as world:
        for n in range(300):
            world.check(f"d{n}", _text(random.Random(n)))
        world.check("secret", f"zebraword {_text(random.Random(9999))}")
        for n in range(300, 400):
            world.check(f"d{n}", _text(random.Random(n)))
        assert world.ask("GET", "/v1/documents?q=zebraword").json()["documents"]
        world.ask("DELETE", "/v1/documents/secret").raise_for_status()
        assert world.ask("GET", "/v1/documents?q=zebraword").json()["documents"] == []
        assert not [file for file in tmp_path.iterdir() if b"zebraword" in file.read_bytes()]


def _long(seed):
    """An article of 6,000 characters with a sentence of its own behind the middle."""
    rng = random.Random(seed)
    return f"{_text(rng) * 14}. The mayor of town{seed} counted {seed} swans. {_text(rng) * 14}."


def test_a_sentence_is_found_wherever_it_stands_in_an_article(tmp_path):
    """Behind many thousand characters, too, with and without an entry."""
    with world_in(tmp_path, keep_texts=True) as world:
        for n in range(100, 120):
            world.check(f"d{n}", _long(n))
        for n in (100, 119):
            asked = {"q": f"The mayor of town{n} counted {n} swans."}
            [found] = world.ask("GET", "/v1/documents", params=asked).json()["documents"]
            assert found["id"] == f"d{n}"
        world.ask("DELETE", "/v1/documents/d100").raise_for_status()
    assert {word for word, _ in _indexed(tmp_path / "window.sqlite")} & {"town100", "town101"} == {"town101"}


def test_a_store_with_the_begins_of_texts_opens_and_enters_whole_texts_from_then_on(tmp_path):
    """Its entries stay as they are, and leave with the words that they were made of."""
    path = tmp_path / "window.sqlite"
    with world_in(tmp_path, keep_texts=True) as world:
        for n in range(100, 120):
            world.check(f"d{n}", _long(n))
    with edited(path) as connection:
        connection.execute("DELETE FROM meta WHERE name = 'whole'")
        connection.execute("INSERT INTO headlines (headlines) VALUES ('delete-all')")
        words.enter(connection, 0, words.entered(connection) - 1)
    with world_in(tmp_path, keep_texts=True) as world:
        for n in range(120, 140):
            world.check(f"d{n}", _long(n))
        for n in range(100, 125):
            world.ask("DELETE", f"/v1/documents/d{n}").raise_for_status()
        found = world.ask("GET", "/v1/documents?q=counted+swans&limit=100").json()["documents"]
    assert {one["id"] for one in found} == {f"d{n}" for n in range(125, 140)}
    assert {place for _, place in _indexed(path)} <= set(range(25, 40))
