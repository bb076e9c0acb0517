"""Feeds behind a redirect."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from command import Run

FEED = b"""<rss version="2.0"><channel><title>News</title><item><guid isPermaLink="false">7</guid><title>Rain</title>
<link>/7</link><description>Heavy rain is expected along the northern coast from Friday.</description></item></channel>
</rss>"""


@pytest.fixture
def moving() -> Iterator[str]:
    """The address of a feed that redirects to another address at each request."""

    class Handler(BaseHTTPRequestHandler):
        count = 0

        def do_GET(self) -> None:
            if self.path == "/feed":
                Handler.count += 1
                self.send_response(302)
                self.send_header("Location", f"/mirror/{Handler.count}")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(FEED)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/feed"
        server.shutdown()
        thread.join()


def test_a_number_as_guid_names_one_item_wherever_the_feed_redirects(neardup: Run, moving: str) -> None:
    """The id follows the address that was given; links are relative to the address that answered."""
    polls = [json.loads(neardup("feed", "--allow-private", moving).stdout) for _ in range(2)]
    assert [poll["id"] for poll in polls] == [f"{moving}#7"] * 2
    assert {poll["url"] for poll in polls} == {moving.removesuffix("feed") + "7"}
