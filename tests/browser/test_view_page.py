"""The page of a view of a deployment: what a service without signatures shows."""

import json

import pytest
from devtools import Browser
from service_world import TEXT, listening, world_in
from view_world import Deployment, until

POST, WIRE = "https://harbour-post.example/storm", "https://evening-wire.example/storm"
TIME = 1_700_000_000.0
NEW = ["57", "villages", "Volterra", "wait"]


@pytest.fixture
def deployment(tmp_path):
    """A deployment that has found a pair, and a view that shows it."""
    deployment = Deployment(tmp_path / "view")
    for place, id_ in enumerate((POST, WIRE)):
        deployment.memory.append(deployment.topics.documents, 0, b"{}", id_.encode())
        record = deployment.documents(place + 1)[place]
        if place == 0:
            deployment.decide(record, "original", timestamp=TIME)
        else:
            found = {"duplicate_of": POST, "original": "0-0", "cluster": "0-0", "similarity": 0.91}
            deployment.decide(record, "duplicate", timestamp=TIME, **found)
    pair = {"older": POST, "newer": WIRE, "similarity": 0.91, "buckets": 7, "newer_timestamp": TIME}
    deployment.memory.append(deployment.topics.candidates, 0, json.dumps(pair).encode(), WIRE.encode())
    until(lambda: deployment.ask("GET", f"/v1/documents/{WIRE.replace('/', '%2F')}/near").json().get("pairs"))
    yield deployment
    deployment.close()


def test_the_page_of_a_view_shows_pairs_and_offers_nothing_that_needs_signatures(deployment, tmp_path, chromium):
    """A copy has its time and leads to its pair; Ask is not offered, and says why not to who knows its address."""
    (tmp_path / "browser").mkdir()
    with listening(deployment.running.app) as (host, port):
        browser = Browser(chromium, tmp_path / "browser")
        try:
            browser.open(f"http://{host}:{port}/#/now")
            browser.wait("document.querySelector('nav a[href=\"#/ask\"]').hidden")
            row = "document.querySelector('.latest li')"
            assert browser.wait(f"{row} && {row}.innerText").split("\n")[0] == browser.evaluate(
                f"new Date({TIME * 1000}).toLocaleTimeString('en-GB')"
            )
            browser.evaluate(f"{row}.querySelector('a.title').click()")
            facts = browser.wait("document.querySelector('.pair .facts')?.innerText")
            assert "0.91" in facts
            assert browser.evaluate("document.querySelector('.pair .verdict').innerText") == "They are a pair."
            browser.evaluate(f"location.hash = '#/pair?a={WIRE.replace('/', '%2F')}&b=another'")
            assert "found no such pair" in browser.wait("document.querySelector('.pair .notice.empty')?.innerText")
            browser.evaluate("location.hash = '#/pair?a=one&b=another'")
            assert "no version of the id" in browser.wait("document.querySelector('.notice.failed')?.innerText").lower()
            browser.evaluate("location.hash = '#/ask'")
            browser.wait("document.querySelector('form.ask')")
            browser.evaluate("""(() => {
                document.querySelector('textarea').value = 'What is near this?';
                document.querySelector('form.ask button.primary').click();
            })()""")
            shown = browser.wait("document.querySelector('.answers .notice.empty')?.innerText")
            assert "has no window of its own" in shown
            assert browser.evaluate("document.querySelector('.answers button')") is None
        finally:
            browser.close()


def test_a_story_and_a_comparison_show_the_new_words(tmp_path, chromium):
    """Each is emphasised: next to the update of the story, and under the facts of the pair."""
    novel = {"threshold": 0.45, "verify": "exact", "novelty": "words", "keep_texts": True}
    (tmp_path / "browser").mkdir()
    with world_in(tmp_path / "state", **novel) as world, listening(world.app) as (host, port):
        world.check("a", TEXT)
        world.check("b", TEXT + " 57 villages, Volterra, wait.")
        browser = Browser(chromium, tmp_path / "browser")
        try:
            browser.open(f"http://{host}:{port}/#/story/0")
            new = "[...document.querySelectorAll('{} .new strong')].map((word) => word.textContent)"
            browser.wait("document.querySelector('.update .new strong')")
            assert browser.evaluate(new.format(".update")) == NEW
            browser.evaluate("location.hash = '#/pair?a=a&b=b'")
            browser.wait("document.querySelector('.pair .new strong')")
            assert browser.evaluate(new.format(".pair")) == NEW
        finally:
            browser.close()


def test_a_story_shows_what_it_quotes_and_what_quotes_it(tmp_path, chromium):
    """The report leads to the speech and the speech back to it, by keyboard too: they are links. Both are compared."""
    speech = " ".join(f"speech{n}" for n in range(60))
    report = f"{' '.join(f'before{n}' for n in range(60))} {speech} {' '.join(f'behind{n}' for n in range(60))}"
    (tmp_path / "browser").mkdir()
    parts = {"scheme": "parts", "threshold": 0.05, "keep_texts": True}
    with world_in(tmp_path / "state", **parts) as world, listening(world.app) as (host, port):
        world.check("a", speech, title="The speech", source="Wire")
        world.check("b", report, title="<b>The report</b>", source="Post")
        browser = Browser(chromium, tmp_path / "browser")
        try:
            quote = "document.querySelector('.members .quote')"
            browser.open(f"http://{host}:{port}/#/story/1")
            assert browser.wait(f"{quote}?.innerText") == "Contains The speech wire Compare"
            browser.evaluate(f"{quote}.querySelector('a').click()")
            browser.wait("document.querySelector('h1')?.innerText === 'The speech'")
            assert browser.wait(f"{quote}?.innerText") == "Contained in <b>The report</b> post Compare"
            browser.evaluate(f"{quote}.querySelector('a:last-child').click()")
            assert "Shared" in browser.wait("document.querySelector('.pair .facts')?.innerText")
        finally:
            browser.close()
