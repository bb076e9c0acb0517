"""The Atom feed of stories: what a reader of feeds finds in it."""

import io
from xml.etree import ElementTree as ET

import feedparser
from service_world import TEXT, world_in

OTHER = "Quarterly earnings were flat, said the chairman, who leaves the company at the end of the year."


def read(world, query=""):
    """The feed as the parser of readers understands it; it finds nothing wrong."""
    response = world.ask("GET", f"/v1/stories.atom{query}")
    assert response.headers["content-type"].startswith("application/atom+xml")
    ET.fromstring(response.content)
    found = feedparser.parse(io.BytesIO(response.content), response_headers={"content-type": "application/atom+xml"})
    assert (found.bozo, found.version) == (False, "atom10")
    return found


def fill(world):
    """A story of three sources, one of two documents without any, and one document alone."""
    for n, source in enumerate("abc"):
        url = f"https://{source}.example/rain?a=1&b=2"
        world.check(f"r{n}", f"{TEXT} By {source}.", source=f"{source}.example", url=url, title="Rain & <wind>")
    for n in range(2):
        world.check(f"https://e.example/{n}", f"{OTHER} \x0b{n}")
    world.check("alone", "Nothing is like this text of a few words, which stands for itself.")


def test_stories_are_entries_with_ids_times_and_links(tmp_path):
    """The newest first; the number of sources is asked for; markup and characters that XML lacks do no harm."""
    with world_in(tmp_path, keep_texts=True) as world:
        assert read(world).entries == []
        fill(world)
        newer, older = read(world).entries
        assert (older.title, older.summary) == ("Rain & <wind>", "3 documents of 3 sources")
        assert [link.href for link in older.links] == [f"https://{name}.example/rain?a=1&b=2" for name in "abc"]
        assert [link.rel for link in older.links] == ["alternate", "related", "related"]
        assert [tag.term for tag in older.tags] == ["a.example", "b.example", "c.example"]
        assert older.updated == older.published == "2023-11-14T22:13:20Z"
        assert older.content[0].value.startswith(TEXT)
        assert newer.link == "https://e.example/0"
        assert newer.title.startswith("Quarterly earnings")
        assert [entry.title for entry in read(world, "?min_sources=3").entries] == ["Rain & <wind>"]
        assert read(world, "?min_sources=4").entries == read(world, "?size_min=4").entries == []
        assert [entry.id for entry in read(world, "?limit=1").entries] == [newer.id]


def test_ids_stay_while_a_story_grows_and_differ_between_stores(tmp_path):
    """Also after a restart. A reader that has the feed gets no second copy of it."""
    with world_in(tmp_path / "a") as world:
        fill(world)
        before = read(world, "?min_sources=3")
        tag = world.ask("GET", "/v1/stories.atom").headers["etag"]
        asked = world.ask("GET", "/v1/stories.atom", headers={"If-None-Match": tag})
        assert (asked.status_code, asked.content) == (304, b"")
    with world_in(tmp_path / "a") as world:
        world.check("r9", f"{TEXT} By d.", source="d.example")
        after = read(world, "?min_sources=3")
        assert world.ask("GET", "/v1/stories.atom", headers={"If-None-Match": tag}).status_code == 200
    with world_in(tmp_path / "b") as world:
        fill(world)
        elsewhere = read(world, "?min_sources=3")
    assert (after.feed.id, after.entries[0].id) == (before.feed.id, before.entries[0].id)
    assert after.entries[0].summary == "4 documents of 4 sources"
    assert elsewhere.feed.id != before.feed.id
    assert elsewhere.entries[0].id != before.entries[0].id
