"""New words on the page of a service with novelty: in a story, and where two documents are compared."""

from devtools import Browser
from service_world import TEXT, listening, world_in

NEW = ["57", "villages", "Volterra", "wait"]


def test_a_story_and_a_comparison_show_the_new_words(tmp_path, chromium):
    """Each is emphasised: beside the update of the story, and under the facts of the pair."""
    novel = {"threshold": 0.45, "verify": "exact", "novelty": "words", "keep_texts": True}
    (tmp_path / "browser").mkdir()
    with world_in(tmp_path / "state", **novel) as world, listening(world.app) as (host, port):
        world.check("a", TEXT)
        world.check("b", TEXT + " 57 villages, Volterra, wait.")
        browser = Browser(chromium, tmp_path / "browser")
        try:
            browser.open(f"http://{host}:{port}/#/story/0")
            new = "[...document.querySelectorAll('{} .new strong')].map((word) => word.textContent)"
            browser.wait("document.querySelector('.updates .new strong')")
            assert browser.evaluate(new.format(".updates")) == NEW
            browser.evaluate("location.hash = '#/pair?a=a&b=b'")
            browser.wait("document.querySelector('.pair .new strong')")
            assert browser.evaluate(new.format(".pair")) == NEW
        finally:
            browser.close()
