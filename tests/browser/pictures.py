"""The pictures of the page in ``docs``: one of each view, of a service that gets news for two minutes.

python tests/browser/pictures.py docs
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from import_path import folders

sys.path.extend(folders("support", "browser"))

import httpx
from chromium import find_chromium
from devtools import Browser
from news import documents, with_story
from service_process import Serving

LOAD_SECONDS, STEP_SECONDS = 120.0, 0.25
READY = "document.querySelector('main').getAttribute('aria-busy') === 'false'"


def load(client: httpx.Client) -> None:
    """Send news, and the health of two feeds."""
    news, began = with_story(documents(5), 3.0), time.monotonic()
    while time.monotonic() < began + LOAD_SECONDS:
        for one in itertools.islice(news, 8):
            client.post("/v1/check", json=one).raise_for_status()
        time.sleep(STEP_SECONDS)
    now = time.time()
    feeds = [
        {"url": "https://harbour-post.example/feed.xml", "succeeded": now - 50, "brought": now - 500, "asked": now - 50,
         "status": 200, "gap_seconds": 900, "wait_seconds": 300},
        {"url": "https://evening-wire.example/rss", "failures": 4, "succeeded": now - 5000, "asked": now - 10,
         "status": 500, "reason": "http_status", "wait_seconds": 1200},
    ]  # fmt: skip
    client.post("/v1/feeds", json={"feeds": feeds}).raise_for_status()


def views(client: httpx.Client) -> dict[str, tuple[str, dict]]:
    """Name of the picture -> the view, and how the browser looks."""
    clusters = client.get("/v1/clusters", params={"limit": 50}).json()["clusters"]
    members = client.get(f"/v1/clusters/{clusters[0]['cluster']}").json()["members"]
    arabic = next(one for one in clusters if not one["title"].isascii())
    pair = urlencode({"a": members[0]["id"], "b": next(one["id"] for one in members[1:] if one["similarity"] < 1)})
    narrow = {"width": 390, "height": 844}
    return {
        "page": ("now", {}), "page-stories": ("stories", {}), "page-story": (f"story/{clusters[0]['cluster']}", {}),
        "page-arabic": (f"story/{arabic['cluster']}", narrow), "page-sources": ("sources", {}),
        "page-source": (f"source/{clusters[0]['source']}", {}), "page-feeds": ("feeds", narrow),
        "page-pair": (f"pair?{pair}", {}), "page-judge": ("judge", {"dark": True}), "page-ask": ("ask", narrow),
    }  # fmt: skip


def main(target: Path) -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("state", "browser"):
            (folder / part).mkdir()
        serving = Serving(folder / "state", "--durability", "normal", "--keep-texts", "--clock", "event")
        browser = Browser(find_chromium(), folder / "browser")
        try:
            with httpx.Client(base_url=serving.url, timeout=60) as client:
                load(client)
                browser.open(f"{serving.url}/#/now")
                for picture, (view, look) in views(client).items():
                    browser.look(**look)
                    browser.evaluate(f"location.hash = {json.dumps(f'#/{view}')}")
                    time.sleep(1)
                    browser.wait(READY)
                    browser.picture(target / f"{picture}.png")
        finally:
            browser.close()
            serving.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
