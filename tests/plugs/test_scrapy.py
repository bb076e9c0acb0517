"""The pipeline of Scrapy in a project of its own: settings, stats, items of other kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import PROCESS_SECONDS_MAX, clean_environment
from plug_blocks import block_of, needs
from service_world import NEAR, TEXT
from web_server import WebServer

pytestmark = pytest.mark.processes
OTHER = "The harvest of apples was smaller than in the year before, says the union of the farmers of the valley."
PAGES = {"/a": TEXT, "/b": NEAR, "/c": OTHER}
PROJECT = """
import dataclasses, json, sys
from scrapy import Spider
from scrapy.crawler import CrawlerProcess

@dataclasses.dataclass
class Page:
    address: str
    body: str
    neardup: dict = None

class Pages(Spider):
    name = "pages"
    custom_settings = {"CONCURRENT_REQUESTS": 1}
    def parse(self, response):
        yield Page(response.url, response.css("p::text").get())

settings = {"LOG_LEVEL": "WARNING", "TELNETCONSOLE_ENABLED": False, "NEARDUP_ID": "address", "NEARDUP_TEXT": "body",
            "FEEDS": {"items.jsonl": {"format": "jsonlines"}}}
exec(open("settings.py").read(), settings)
settings.pop("__builtins__")
process = CrawlerProcess(settings | json.loads(sys.argv[1]))
crawler = process.create_crawler(Pages)
process.crawl(crawler, start_urls=sys.argv[2:])
process.start()
print(json.dumps({name: value for name, value in crawler.stats.get_stats().items() if name.startswith("neardup/")}))
"""


@pytest.fixture
def site() -> Iterator[str]:
    """The address of the site."""
    server = WebServer()
    for path, text in PAGES.items():
        server.give(path, f"<html><p>{text}</p></html>".encode(), Content_Type="text/html")
    yield server.url("")
    server.close()


def crawled(folder: Path, site: str, **settings: Any) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """The stats of a crawl, and its items."""
    needs("scrapy")
    (folder / "project.py").write_text(PROJECT)
    (folder / "settings.py").write_text(block_of("ITEM_PIPELINES"))
    (folder / "items.jsonl").unlink(missing_ok=True)
    words = [sys.executable, "project.py", json.dumps(settings), *(site + path for path in PAGES)]
    done = subprocess.run(
        words, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False,
        timeout=PROCESS_SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]


def test_a_crawl_keeps_each_text_once_and_counts(start: Any, site: str, tmp_path: Path) -> None:
    """Near-duplicates are dropped, or marked; a crawl without a service keeps all."""
    process = start("serve", "--state", "window", "--port", "0", "--threshold", "0.6")
    url = next(line for line in process.stderr if b"serving on" in line).decode().split()[-1]
    stats, items = crawled(tmp_path, site, NEARDUP_SERVICE=url)
    assert stats == {"neardup/original": 2, "neardup/duplicate": 1}
    assert {item["neardup"]["status"] for item in items} == {"original"}
    assert len(items) == 2
    stats, items = crawled(tmp_path, site, NEARDUP_SERVICE=url, NEARDUP_DROP=False)
    assert stats == {"neardup/original": 2, "neardup/duplicate": 1}
    assert sorted(item["neardup"]["status"] for item in items) == ["duplicate", "original", "original"]
    process.terminate()
    process.wait()
    stats, items = crawled(tmp_path, site, NEARDUP_SERVICE="http://127.0.0.1:9", RETRY_ENABLED=False)
    assert (stats, len(items)) == ({"neardup/unchecked": 3}, 3)
