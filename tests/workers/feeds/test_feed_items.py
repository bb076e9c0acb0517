"""Feeds as items: RSS, Atom, RDF and JSON Feed, as they are in the wild and as an enemy would write them."""

import contextlib
import html
import json

import pytest

from neardup_workers.outside.feeds.items import Item, Named, parse
from neardup_workers.outside.feeds.parsers import Parsers

URL = "http://feeds.example/news"
RSS = """<rss version="2.0"><channel><title>News</title>{}</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>{}</feed>"""
TIME = "2023-11-14T22:13:20+00:00"
DATE = "<pubDate>Tue, 14 Nov 2023 22:13:20 GMT</pubDate>"


def items_of(content, url, content_type, seconds):
    with contextlib.closing(Parsers(seconds)) as parsers:
        return parsers.items_of(content, url, content_type)


def item_of(inner, form=RSS, tag="item"):
    found = parse(form.format(f"<{tag}>{inner}</{tag}>").encode(), URL, "text/xml; charset=utf-8")
    assert isinstance(found, list)
    assert len(found) == 1
    return found[0]


def test_an_item_of_rss_has_id_time_title_address_and_text():
    """Markup becomes text; addresses become absolute."""
    inner = f"<guid isPermaLink='false'>tag:a,1</guid><link>/a</link><title>A &amp;amp; B</title>{DATE}"
    inner += "<description>&lt;p&gt;caf&amp;eacute; &lt;b&gt;open&lt;/b&gt;ed&lt;/p&gt;</description>"
    both = "A & B\ncafé opened"
    assert item_of(inner) == Item("tag:a,1", TIME, "A & B", "http://feeds.example/a", both, "title and summary")


@pytest.mark.parametrize(
    ("title", "summary", "text", "part"),
    [
        ("Rain", "Rain comes.", "Rain comes.", "summary"),
        ("Rain", "It comes.", "Rain\nIt comes.", "title and summary"),
        ("Rain comes", "Rain", "Rain comes", "title"),
        ("Rain", "", "Rain", "title"),
        ("", "It comes.", "It comes.", "summary"),
        ("Rain - news", "", "Rain", "title"),
        ("Rain | News", "It comes.", "Rain\nIt comes.", "title and summary"),
        ("Rain in News", "", "Rain in News", "title"),
        ("News", "", "News", "title"),
    ],
)
def test_an_item_without_content_has_its_title_and_its_summary_as_text(title, summary, text, part):
    """Neither twice; what is compared is said."""
    found = item_of(f"<title>{title}</title><description>{summary}</description>")
    assert (found.text, found.part) == (text, part)


def test_the_name_of_a_site_behind_a_title_is_not_in_the_text():
    """The feed, or an item of a feed of many sites, names its site; the content may repeat both."""
    daily = "<title>Rain — The Daily</title><description>Rain &amp;nbsp; The Daily</description>"
    assert item_of(daily + "<source url='http://d.example/'>The Daily</source>").text == "Rain"
    assert item_of(daily).text == "Rain — The Daily\nRain The Daily"
    atom = "<title>Rain | The Daily</title><source><title>The Daily - World</title></source>"
    assert item_of(atom, ATOM, "entry").text == "Rain"
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "The Daily",
        "items": [{"title": "Rain :: The Daily"}],
    }
    assert parse(json.dumps(feed).encode(), URL, "")[0].text == "Rain"


def test_an_entry_of_atom_is_read_alike():
    """Published goes before updated, content before summary; a plain text is no markup."""
    inner = "<id>urn:1</id><title>T</title><link href='b'/><published>2023-11-14T22:13:20Z</published>"
    inner += (
        "<updated>2024-01-01T00:00:00Z</updated><summary>short</summary><content type='html'>&lt;i&gt;long&lt;/i&gt;"
    )
    assert item_of(inner + "</content>", ATOM, "entry") == Item(
        "urn:1", TIME, "T", "http://feeds.example/b", "T\nlong", "title and content"
    )
    assert item_of("<updated>2023-11-14T22:13:20Z</updated>", ATOM, "entry").time == TIME
    assert item_of("<summary type='text'>1 &lt; 2 &amp;amp;</summary>", ATOM, "entry").text


@pytest.mark.processes
def test_json_feed_is_read():
    """Versions 1 and 1.1: text before markup, the summary in its absence; numbers are ids; other JSON is no feed."""
    items = [
        {"id": 7, "title": "T", "content_html": "<p>caf&eacute;</p>", "date_published": "2023-11-14T23:13:20+01:00"},
        {"id": "b", "url": "/b", "content_text": "plain", "content_html": "<p>markup</p>"},
        {"url": "http://a.example/c", "summary": "short", "date_modified": "2023-11-14T22:13:20Z"},
        {"title": "only", "date_published": "soon"},
        {"id": "d", "external_url": "../d", "title": "D"},
        "no item",
    ]
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": "F", "items": items}
    for content in (json.dumps(feed), "\ufeff" + json.dumps(feed, indent=1)):
        assert items_of(content.encode(), URL, "application/feed+json", 60.0) == [
            Item("7", TIME, "T", None, "T\ncafé", "title and content"),
            Item("b", None, "", "http://feeds.example/b", "plain"),
            Item("http://a.example/c", TIME, "", "http://a.example/c", "short", "summary"),
            Item("fd798a81347cce4e902253a1619a77d8", None, "only", None, "only", "title", "soon"),
            Item("d", None, "D", "http://feeds.example/d", "D", "title"),
        ]
    for other in ({"items": []}, {"version": "https://jsonfeed.org/version/1", "items": {}}):
        assert parse(json.dumps(other).encode(), URL, "") == "feed_format"
    assert items_of(b'{"version": ', URL, "", 60.0) == "feed_damaged"


@pytest.mark.processes
def test_a_page_names_its_feed():
    """The first one of its head, as an absolute address; a page without one is no feed."""
    link = "<link rel='{}' type='{}' href='{}'>".format
    other, rss = link("stylesheet", "text/css", "/style"), link("home alternate", "application/RSS+xml", "/rss")
    page = f"<!doctype html><html><head>{other}{rss}{link('alternate', 'application/atom+xml', '/atom')}</head></html>"
    assert items_of(page.encode(), URL, "text/html", 60.0) == Named("http://feeds.example/rss")
    assert parse(f"<html><head>{other}</head></html>".encode(), URL, "text/html") == "feed_format"


def test_rdf_is_read():
    """RSS 1.0 and its Dublin Core."""
    rdf = (
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><item rdf:about="http://a.example/1"><title>T</title>'
        "<link>http://a.example/1</link><dc:date>2023-11-14T22:13:20Z</dc:date></item></rdf:RDF>"
    )
    assert parse(rdf.encode(), URL, "") == [Item("http://a.example/1", TIME, "T", "http://a.example/1", "T", "title")]


@pytest.mark.parametrize(
    ("inner", "id_"),
    [
        ("<guid isPermaLink='false'>7</guid><link>http://a.example/7</link>", "7"),
        ("<guid isPermaLink='false'>urn:x:7</guid>", "urn:x:7"),
        ("<guid>http://a.example/7</guid>", "http://a.example/7"),
        ("<link>http://a.example/7</link>", "http://a.example/7"),
        ("<title>T</title>", "8eada994d8751b7708ce79113cb2fa81"),
        ("<author>A. B.</author>", None),
    ],
)
def test_the_id_is_the_guid_or_else_the_link(inner, id_):
    """As the feed has it; without both it is a hash of title and text, and without these there is none."""
    assert item_of(inner).id == id_


@pytest.mark.parametrize(
    ("date", "time"),
    [
        ("Tue, 14 Nov 0102 22:13:20 GMT", None),
        ("0102-11-14T22:13:20Z", None),
        ("1989-12-31T23:59:59Z", None),
        ("1990-01-01T00:00:00Z", "1990-01-01T00:00:00+00:00"),
        ("1795780000", "2026-11-27T11:46:40+00:00"),
        ("1795780000000", None),
        ("2016/6/29 15:07:41", "2016-06-29T15:07:41+00:00"),
        ("2013-10-08 18:30:00 UTC", "2013-10-08T18:30:00+00:00"),
        ("Tue, 08 Oct 2013 18:30:00 CEST", "2013-10-08T16:30:00+00:00"),
        ("Tue, 08 Oct 2013 18:30:00 IST", None),
        ("3/4/2016", None),
        ("Tue, 14 Nov 99999 22:13:20 GMT", None),
        ("yesterday", None),
        ("", None),
        ("9" * 10_000, None),
        ("2023-99-99", None),
    ],
)
def test_a_date_is_right_or_none(date, time):
    """No part comes from today. One before 1990, which feeds have, would make its source the first of all."""
    item = item_of(f"<guid>a:1</guid><pubDate>{date}</pubDate>")
    assert (item.time, item.undated) == (time, "" if time else date[:100])


BOMBS = {
    "entities": '<!DOCTYPE z [<!ENTITY a "lol">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
    + "]>"
    + RSS.format("<item><guid>a:1</guid><title>&j;</title></item>"),
    "quadratic": f'<!DOCTYPE z [<!ENTITY a "{"x" * 50_000}">]>'
    + RSS.format(f"<item><title>{'&a;' * 20_000}</title></item>"),
    "file": '<!DOCTYPE z [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + RSS.format("<item><title>&a;</title></item>"),
    "parameter": '<!DOCTYPE z [<!ENTITY % a SYSTEM "http://127.0.0.1:1/x"> %a;]>' + RSS.format("<item/>"),
}


@pytest.mark.processes
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_of_entities_writes_and_fetches_nothing(name):
    """An entity that names others, a file or an address is not followed; the output stays smaller than the input."""
    found = items_of(BOMBS[name].encode(), URL, "text/xml", 60.0)
    if isinstance(found, list):
        assert sum(len(item.title) + len(item.text) for item in found) <= 2 * len(BOMBS[name])
        assert not any("root:" in item.title for item in found)


@pytest.mark.processes
@pytest.mark.parametrize(
    "content",
    [b"", b"<html><body>no feed</body></html>", b"nothing", b"\x00\x01\x02", b"{}", b"<rss", b"<?xml version='1.0'?>"],
)
def test_what_is_no_feed_is_refused(content):
    """Also a web page, which many servers give in place of a feed that has moved."""
    found = items_of(content, URL, "text/html", 60.0)
    assert found in ("feed_format", [])


@pytest.mark.processes
def test_a_damaged_feed_is_read_as_far_as_it_can_be():
    """As most readers of feeds do: unclosed elements, unknown entities, a wrong charset."""
    items = b"<item><guid>a:1</guid><title>One &bogus; caf\xe9</title></item><item><guid>a:2</guid></item>"
    content = b"<rss version='2.0'><channel>" + items
    found = items_of(content, URL, "text/xml; charset=utf-8", 60.0)
    assert [item.id for item in found] == ["a:1", "a:2"]


def test_the_last_item_of_a_feed_that_is_cut_is_left_out():
    """It has a part of its text, and would be another version when the feed is whole again."""
    items = "".join(f"<item><guid>a:{n}</guid><description>words of {n}</description></item>" for n in range(3))
    feed = RSS.format(items).encode()
    assert [item.id for item in parse(feed[: feed.rindex(b"of 2")], URL, "")] == ["a:0", "a:1"]
    assert [item.id for item in parse(feed[: feed.rindex(b"</channel")], URL, "")] == ["a:0", "a:1", "a:2"]
    assert [item.id for item in parse(feed, URL, "")] == ["a:0", "a:1", "a:2"]


def test_a_guid_that_is_no_address_stays_as_it_is():
    """Also where the feed does not say that it is none: the address of an answer changes with each redirect."""
    assert item_of("<guid>7</guid>")[:1] == ("7",)
    assert item_of("<guid isPermaLink='false'>7</guid><link>/a</link>")[:4:3] == ("7", "http://feeds.example/a")
    assert item_of("<guid>http://a.example/7</guid>")[:4:3] == ("http://a.example/7", "http://a.example/7")


@pytest.mark.processes
def test_a_feed_that_takes_too_long_is_given_up():
    """The process that reads it is ended."""
    content = b"<rss><channel>" + b"<item>" * 1_000_000
    assert items_of(content, URL, "text/xml", 0.3) == "feed_slow"


# A generator of feeds -> what it writes as the content of every item: the title alone says what the item is.
GENERATORS = {
    "reddit": '&lt;!-- SC_OFF --&gt; submitted by &lt;a href="/u/x"&gt; /u/x &lt;/a&gt; [link] [comments]',
    "wordpress": '&lt;p&gt;The post appeared first on &lt;a href="/"&gt;Blog&lt;/a&gt;.&lt;/p&gt;',
    "hacker news": '&lt;a href="https://news.example/item?id=1"&gt;Comments&lt;/a&gt;',
    "lobsters": "&lt;p&gt;Comments&lt;/p&gt;",
    "github": "&lt;p&gt;No content.&lt;/p&gt;",
    "medium": "&lt;p&gt;Continue reading on Medium&lt;/p&gt;",
    "youtube": "",
    "mastodon": "&lt;p&gt;#news&lt;/p&gt;",
    "discourse": "&lt;p&gt;1 post - 1 participant&lt;/p&gt;&lt;p&gt;Read full topic&lt;/p&gt;",
    "substack": "Listen now (5 mins)",
    "drupal": "&lt;span&gt;admin&lt;/span&gt; Read more",
    "jekyll": "&lt;p&gt;Subscribe to our newsletter&lt;/p&gt;",
}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_text_of_an_item_has_its_title_whatever_its_generator_writes(name):
    """A content that is the same in all items made five of six different ones copies; in RSS, Atom and JSON Feed."""
    titles = [f"Storm number {n} reaches the coast" for n in range(3)]
    content = GENERATORS[name]
    rss = "".join(
        f"<item><guid>a:{n}</guid><title>{title}</title><content:encoded>{content}</content:encoded></item>"
        for n, title in enumerate(titles)
    )
    head = '<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel>'
    atom = "".join(
        f"<entry><id>a:{n}</id><title>{title}</title><content type='html'>{content}</content></entry>"
        for n, title in enumerate(titles)
    )
    json_items = [{"id": n, "title": title, "content_html": html.unescape(content)} for n, title in enumerate(titles)]
    feed = {"version": "https://jsonfeed.org/version/1.1", "items": json_items}
    for body in (f"{head}{rss}</channel></rss>", ATOM.format(atom), json.dumps(feed)):
        found = parse(body.encode(), URL, "")
        assert [item.text.partition("\n")[0] for item in found] == titles
        assert len({item.text.partition("\n")[2] for item in found}) == 1


def test_items_that_share_a_guid_have_ids_of_their_own():
    """By their link and title; an item that is listed twice is one. The ids are the same at the next fetch."""

    def feed(*names):
        one = "<item><guid isPermaLink='false'>same</guid><link>http://a.example/{0}</link><title>{0}</title></item>"
        return RSS.format("".join(map(one.format, names))).encode()

    first, second = (parse(feed(*names), URL, "") for names in ("abca", "dabc"))
    assert [item.title for item in first] == ["a", "b", "c"]
    assert len({item.id for item in first}) == 3
    assert [item.id for item in second[1:]] == [item.id for item in first]


def test_a_token_in_a_link_changes_no_id_of_items_that_share_a_guid():
    """It changes at each fetch; where only the query tells items with one title apart, it counts."""

    def ids(*links):
        one = "<item><guid isPermaLink='false'>same</guid><link>http://a.example/{}</link><title>T</title></item>"
        return [item.id for item in parse(RSS.format("".join(map(one.format, links))).encode(), URL, "")]

    assert ids("a?t=1", "b;jsessionid=1", "a?t=1") == ids("a?t=2", "b;jsessionid=2")
    assert len(set(ids("?p=1", "?p=2"))) == 2
    assert ids("?p=1", "?p=2") == ids("?p=1", "?p=2", "?p=1")


@pytest.mark.parametrize(
    "feed",
    [
        RSS.format("<item><guid>a:1</guid><description><![CDATA[an <entry> of <item>]]></description></item>"),
        RSS.format("<item><guid>a:1</guid></item>") + "<!-- <item> -->",
        ATOM.format("<entry><id>a:1</id></entry><item xmlns='urn:x' a='1'/>"),
        RSS.format("<item><guid>a:1</guid><title>A & B &bogus;</title><!-- <entry> --></item>"),
        RSS.format("<item><guid>a:1</guid><title>A & B</title></item><item/>"),
    ],
)
def test_a_feed_that_mentions_an_item_is_whole(feed):
    """Its parser says where items end: a search for the bytes of a tag lost the last item at every fetch."""
    assert parse(feed.encode(), URL, "")[0].id == "a:1"


@pytest.mark.parametrize(
    ("declared", "named"), [("shift_jis", ""), ("utf-8", "shift_jis"), ("x-sjis", ""), ("", "windows-31j")]
)
def test_the_characters_of_a_feed_are_read_as_those_of_a_page(declared, named):
    """By the label of the server, then of the declaration, as browsers read labels."""
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    content = (declaration + RSS.format("<item><guid>a:1</guid><title>①髙</title></item>")).encode("cp932")
    assert parse(content, URL, f"text/xml; charset={named}" if named else "")[0].title == "①髙"
    plain = RSS.format("<item><title>größer</title></item>").encode()
    assert parse(plain, URL, "text/xml; charset=iso-8859-1")[0].title == "größer"
