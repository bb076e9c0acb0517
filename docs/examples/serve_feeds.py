"""Three feeds to try things with: runs a command while a server on this machine serves them, then ends the server.

``python docs/examples/serve_feeds.py neardup feed --allow-private FEEDS/harbour FEEDS/coast`` runs the command with the
address of the server instead of ``FEEDS``. The feeds are ``harbour``, ``coast`` and ``city``; each item links to its
page.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STORM = (
    "The harbour was closed on Monday after a storm damaged the northern breakwater, the port authority said. "
    "Ferries to the islands stay in port until Wednesday."
)
# Feed -> its stories, the newest first: name, time, title, text.
FEEDS = {
    "harbour": [
        ("bridge", "Tue, 14 Nov 2023 11:00:00 GMT", "Bridge opens", "The new bridge over the canal opens on Friday "
         "with two lanes for bicycles, half a year later than planned."),
        ("storm", "Tue, 14 Nov 2023 08:00:00 GMT", "Storm closes harbour", STORM),
    ],
    "coast": [
        ("closed", "Tue, 14 Nov 2023 08:40:00 GMT", "Harbour closed", f"COAST NEWS - {STORM}"),
        ("seals", "Mon, 13 Nov 2023 15:00:00 GMT", "More seals", "Rangers counted 412 seals on the sandbanks this "
         "autumn, the highest number since the counts began."),
    ],
    "city": [("ferries", "Tue, 14 Nov 2023 09:15:00 GMT", "No ferries", STORM.replace("Wednesday", "Thursday"))],
}  # fmt: skip
_PAGE = """<html><head><title>{title}</title></head><body><nav><a href="/">Home</a> <a href="/ads">Subscribe</a></nav>
<article><h1>{title}</h1><p>{text}</p><p>{text}</p></article><footer>All rights reserved.</footer></body></html>"""


def rss(name: str) -> str:
    """Return a feed as RSS 2.0."""
    items = "".join(
        f'<item><guid isPermaLink="false">tag:{name},2023:{story}</guid><link>/{name}/{story}</link>'
        f"<title>{title}</title><pubDate>{time}</pubDate><description>{text}</description></item>"
        for story, time, title, text in FEEDS[name]
    )
    return f'<rss version="2.0"><channel><title>{name}</title>{items}</channel></rss>'


class Handler(BaseHTTPRequestHandler):
    """Serves feeds and their pages; a feed that the client has already is answered with 304."""

    def do_GET(self) -> None:
        """Answer one request."""
        feed, _, story = self.path.strip("/").partition("/")
        pages = {one[0]: _PAGE.format(title=one[2], text=one[3]) for one in FEEDS.get(feed, [])}
        body = rss(feed) if feed in FEEDS and not story else pages.get(story, "")
        tag = f'"{len(body)}"'
        unchanged = self.headers.get("If-None-Match") == tag
        self.send_response(304 if unchanged else 200 if body else 404)
        self.send_header("ETag", tag)
        self.send_header("Content-Type", "text/html" if story else "application/rss+xml")
        self.end_headers()
        if not unchanged:
            self.wfile.write(body.encode())

    def log_message(self, *arguments: object) -> None:
        """Keep the output of the command alone."""


def main(command: list[str]) -> int:
    """Run a command with the address of the server instead of ``FEEDS``; returns its exit code."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            return subprocess.run([part.replace("FEEDS", address) for part in command], check=False).returncode
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
