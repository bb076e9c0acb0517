"""``neardup feed``: from a server on the loopback to standard output and to the topic of documents."""

import json
import signal
import sys
import time
from email.utils import formatdate
from types import SimpleNamespace

import httpx
import pytest
from memory_transport import MemoryTransport
from ports import free_port
from service_process import Serving
from shell_harness import Bench

from neardup import Config, Document, Signer
from neardup.pairs.batches import CONTENT_HALF
from neardup_workers.doing.session.report import sentence_of
from neardup_workers.outside.feeds.lists import FEEDS_MAX
from neardup_workers.outside.options.running import FeedCommandOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.outside.settings.kafka import FeedSettings
from neardup_workers.running.commands.feed import command
from neardup_workers.running.commands.feed.service import Checking

TEXT = "The harbour was closed on Monday after a storm damaged the northern breakwater."
ANSWERED = "the server answered with an error"
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"


def rss(*names, text=TEXT, date=DATE):
    items = "".join(
        f"<item><guid>urn:{name}</guid><pubDate>{date}</pubDate><description>{text}</description></item>"
        for name in names
    )
    return f'<rss version="2.0"><channel><title>News</title>{items}</channel></rss>'.encode()


def test_the_items_of_feeds_are_lines_of_json_for_every_command(web, neardup):
    """``run`` finds the story that two feeds have; a feed that fails is reported, and the others are written."""
    web.give("/a", rss("a"), Content_Type="application/rss+xml")
    web.give("/b", rss("b"))
    web.give("/c", b"", status=500)
    done = neardup("feed", "--allow-private", *(web.url(path) for path in ("/a", "/b", "/c")))
    assert done.returncode == Exit.SUCCESS
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(line["id"] for line in lines) == ["urn:a", "urn:b"]
    assert {line["text"] for line in lines} == {TEXT}
    assert {line["timestamp"] for line in lines} == {"2023-11-14T22:13:20+00:00"}
    report = done.stderr.decode().splitlines()
    assert report == [f"{web.url('/c')}: {ANSWERED}: 500 Internal Server Error", "2 items of 3 feeds, 1 refused"]
    assert json.loads(neardup("run", "-q", stdin=done.stdout).stdout)["similarity"] == 1.0


def test_a_blocked_item_is_left_out_and_counted(web, neardup, tmp_path):
    """By its id, and by its content under another id. A list that is missing is an error."""
    content = f"{int(Signer(Config()).sign([Document('any', TEXT)]).batch.contents[0, CONTENT_HALF]):016x}"
    web.give("/a", rss("a", "b", text="Words of their own."))
    web.give("/b", rss("c"))
    (tmp_path / "blocked.jsonl").write_text(f'{{"id": "urn:a"}}\n{{"content": "{content}"}}\n')
    urls = [web.url(path) for path in ("/a", "/b")]
    done = neardup("feed", "--allow-private", "--blocked", "blocked.jsonl", *urls)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["urn:b"]
    assert done.stderr.decode().splitlines()[-1] == "1 items of 2 feeds, 2 refused"
    missing = neardup("feed", "--blocked", "missing.jsonl", *urls)
    assert (missing.returncode, b"cannot read the block list missing.jsonl" in missing.stderr) == (Exit.INPUT, True)


def test_no_feed_of_this_machine_is_fetched_without_permission(web, neardup):
    """The exit code says that nothing could be used; the rejects name the feed."""
    web.give("/a", rss("a"))
    done = neardup("feed", "--rejects", "rejects.jsonl", web.url("/a"))
    assert (done.returncode, done.stdout, web.requests) == (Exit.UNUSABLE, b"", [])
    assert b"--allow-private" in done.stderr


def test_followed_feeds_are_asked_again_until_a_signal(web, start):
    """The second request carries the ETag of the first; what is new is written; the exit code is that of the signal."""

    def answer(handler):
        tag = handler.headers.get("If-None-Match")
        body = {None: rss("a"), '"1"': rss("b", "a")}.get(tag)
        handler.send_response(200 if body else 304)
        handler.send_header("ETag", '"2"' if tag else '"1"')
        handler.send_header("Content-Length", str(len(body or b"")))
        handler.end_headers()
        handler.wfile.write(body or b"")

    web.answers["/a"] = answer
    options = ("--allow-private", "--interval-seconds", "1", "--health-port", "0")
    process = start("feed", "--follow", *options, web.url("/a"))
    served = process.stderr.readline().decode().split()[-1]
    lines = [json.loads(process.stdout.readline())["id"] for _ in range(2)]
    metrics = httpx.get(f"http://{served}/metrics", timeout=60).text
    assert f'neardup_feed_failures{{feed="{web.url("/a")}"}} 0.0' in metrics
    assert httpx.get(f"http://{served}/readyz", timeout=60).status_code == 200
    process.send_signal(signal.SIGINT)
    rest, report = process.communicate()
    assert (lines, rest, process.returncode) == (["urn:a", "urn:b"], b"", Exit.INTERRUPTED)
    assert report.decode().splitlines()[-1] == "2 items of 1 feeds, 0 refused"


ARTICLE = (
    "<p>" + (TEXT + " Ships waited outside until the wind eased in the evening, and no crew was hurt.") * 4 + "</p>"
)


def test_pages_are_fetched_and_their_articles_extracted(web, neardup):
    """The menu of the page is not in the text; a page that is missing, no page, or not for robots refuses its item."""
    html = (
        f"<html><head><title>T</title></head><body><nav><a href='/'>Home</a></nav><article>{ARTICLE}</article></body>"
    )
    web.give("/urn:a", html.encode(), Content_Type="text/html; charset=utf-8")
    web.give("/robots.txt", b"User-agent: *\nDisallow: /urn:d\n")
    web.give("/urn:b", b"", status=404)
    web.give("/urn:c", b"%PDF-", Content_Type="application/pdf")
    links = b"".join(
        b"<item><guid>urn:%b</guid><link>/urn:%b</link></item>" % (name, name) for name in (b"a", b"b", b"c", b"d")
    )
    web.give("/feed", b"<rss version='2.0'><channel>" + links + b"</channel></rss>")
    done = neardup("feed", "--pages", "--allow-private", "--set", "sign_threads=1", web.url("/feed"))
    (line,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert line["id"] == "urn:a"
    assert line["text"].startswith(TEXT)
    assert "Home" not in line["text"]
    assert done.stderr.decode().splitlines() == [
        f"{web.url('/feed')}:4: the site asks robots not to read the page (robots.txt), or cannot be asked",
        f"{web.url('/feed')}:3: the page is neither HTML nor plain text",
        f"{web.url('/feed')}:2: the server answered with an error",
        "1 items of 1 feeds, 3 refused",
    ]


@pytest.mark.processes
def test_items_go_to_the_topic_of_documents(web, monkeypatch):
    """Keyed by id, with the names of fields that the signers read, and the time of the item as that of the message."""
    bench = Bench()
    monkeypatch.setattr(command, "connect", lambda settings: MemoryTransport(bench.cluster))
    settings = FeedSettings(**{**bench.settings.model_dump(exclude_unset=True), "allow_private": True})
    now = int(time.time())
    web.give("/a", rss("a", "b", date=formatdate(now - 3600)))
    options = FeedCommandOptions([web.url("/a")], to_kafka=True, quiet=True)
    assert command.run(options, settings) == Exit.SUCCESS
    records = bench.cluster.records(bench.names.topics.documents)
    assert {record.key for record in records} == {b"urn:a", b"urn:b"}
    assert {json.loads(record.value)["text"] for record in records} == {TEXT}
    assert {record.timestamp_ms for record in records} == {(now - 3600) * 1000}


@pytest.mark.processes
def test_items_go_to_a_service_once_each_and_wait_while_it_is_away(web, neardup, start, tmp_path):
    """In order; a second run with the state sends nothing, one without it gets the same answers. What the service
    refuses is reported. The service is killed and started again while an item waits."""
    (tmp_path / "mine.opml").write_text(
        f'<opml><body><outline xmlUrl="{web.url("/a")}"/><outline xmlUrl="{web.url("/b")}"/></body></opml>'
    )
    web.give("/a", rss("a", "b"))
    web.give("/b", rss("c", text="c"))
    arguments = ("feed", "--allow-private", "mine.opml", "--to-serve")
    port = ("--port", str(free_port()))  # of which it is also served after a kill
    service = Serving(tmp_path, *port)
    try:
        said = [
            neardup(*arguments, service.url, *more).stderr.decode().splitlines()
            for more in (("--state", "seen"), ("--state", "seen"), ())
        ]
        assert said[0] == ["the service says: 1 duplicate, 2 original", "3 items of 2 feeds, 0 refused"]
        assert said[1] == ["the service says: nothing", "0 items of 2 feeds, 0 refused"]
        assert said[2] == ["the service says: 3 repeated", "3 items of 2 feeds, 0 refused"]
        known = httpx.get(f"{service.url}/v1/feeds", timeout=60).json()["feeds"]
        assert [(feed["url"], feed["state"], feed["status"]) for feed in known] == [
            (web.url("/a"), "ok", 200),
            (web.url("/b"), "ok", 200),
        ]
        assert service.kill() == -signal.SIGKILL
        web.give("/b", rss("d", text=f"{TEXT} Again."))
        feed = start(*arguments, service.url, "--state", "seen")
        assert b"does not answer" in feed.stderr.readline()
        service = Serving(tmp_path, *port)
        report = feed.communicate()[1].decode().splitlines()
        assert report[-2:] == ["the service says: 1 duplicate", "1 items of 2 feeds, 0 refused"]
        wrong = neardup(*arguments, f"{service.url.rstrip('/')}/nowhere", "--state", "other")
        assert (wrong.returncode, b"answered 404" in wrong.stderr) == (Exit.OUTPUT, True)
    finally:
        service.kill()


def test_what_a_service_refuses_is_said_with_its_reason():
    """One that only the service knows, as of a token without the collection of the item."""
    said = []
    session = SimpleNamespace(refuse_entry=lambda entry, reason: said.append(sentence_of(entry, reason)))
    error = {"reason": "no_right", "title": "the token has not the collection"}
    Checking("http://127.0.0.1:1", session)._count(Entry("feed", 3, None, Document("a")), {"error": error})
    assert said == ["feed:3: the service refuses it: the token has not the collection"]


def test_the_number_of_feeds_has_a_limit():
    """Each has a thread."""
    with pytest.raises(Failure, match="10,000 at most"):
        command.run(FeedCommandOptions([f"http://a.example/{n}" for n in range(FEEDS_MAX + 1)]), FeedSettings())


def test_a_missing_extra_is_named(monkeypatch, neardup):
    """With the command that installs it."""
    from neardup_workers.running.cli.app import main

    monkeypatch.setitem(sys.modules, "feedparser", None)
    monkeypatch.setattr(sys, "argv", ["neardup", "feed", "http://a.example/"])
    monkeypatch.setattr(
        "neardup_workers.running.cli.options.find_spec", lambda name: None if name == "feedparser" else name
    )
    assert main() == Exit.USAGE
