"""A crawl that keeps each text once: a Scrapy item pipeline that asks a running ``neardup serve``.

The spider follows the links of a site and makes an item of each page. Before an item is stored, the pipeline sends it
to ``POST /v1/check``, and drops it if an earlier page has nearly the same text. Scrapy's own downloader sends the
request, so the crawl does not wait for it, and Scrapy sends it again after 429 and 503. A request that was sent twice
gets the same verdict twice, so no page is lost by its own retry. If the service gives no verdict, the item is kept.

Usage: python docs/examples/crawl.py SERVICE START, for example http://127.0.0.1:8470 https://www.example.com/
The environment variable NEARDUP_TOKEN holds the token, if the service needs one. The items that are kept go to standard
output as lines of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import DropItem
from scrapy.http import Response, TextResponse


class NeardupPipeline:
    """Drops an item whose text is nearly that of an earlier item; ``NEARDUP_SERVICE`` is the setting of the address."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.service: str = crawler.settings["NEARDUP_SERVICE"]
        token = os.environ.get("NEARDUP_TOKEN")
        self.headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> NeardupPipeline:
        """Make the pipeline of a crawl."""
        return cls(crawler)

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the item with the number of its cluster, or raise ``DropItem`` for a near-duplicate."""
        body = json.dumps({"id": item["url"], "text": item["text"]})
        request = Request(
            f"{self.service}/v1/check", method="POST", headers=self.headers, body=body,
            dont_filter=True, meta={"dont_obey_robotstxt": True},
        )  # fmt: skip
        try:
            response = await self.crawler.engine.download_async(request)
        except Exception as error:  # the service is away: an item that cannot be checked is kept
            logging.getLogger(__name__).warning("no verdict about %s: %r", item["url"], error)
            return item
        if response.status != 200:
            logging.getLogger(__name__).warning("no verdict about %s: %r", item["url"], response.body[:1000])
            return item
        verdict = json.loads(response.body)
        if verdict["status"] == "duplicate":
            raise DropItem(f"nearly the same as {verdict['duplicate_of']}, similarity {verdict['similarity']}")
        return {**item, "cluster": verdict["cluster"]}


class Pages(Spider):
    """Follows the links within the hosts of its start pages; an item is the address, the title and the paragraphs."""

    name = "pages"

    def parse(self, response: Response, **arguments: Any) -> Iterator[Any]:
        """Yield the item of a page, then the pages that it links to."""
        if not isinstance(response, TextResponse):
            return
        paragraphs = (" ".join(paragraph.css("*::text").getall()) for paragraph in response.css("p"))
        text = "\n".join(paragraphs)
        if text.strip():
            yield {"url": response.url, "title": response.css("title::text").get(), "text": text}
        yield from response.follow_all(css="a")


def main(service: str, start: str) -> None:
    """Crawl the site of a page, and write the items that are kept."""
    process = CrawlerProcess(
        {
            "NEARDUP_SERVICE": service.rstrip("/"),
            "ITEM_PIPELINES": {NeardupPipeline: 300},
            "FEEDS": {"stdout:": {"format": "jsonlines"}},
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(Pages, start_urls=[start], allowed_domains=[urlsplit(start).hostname])
    process.start()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"two addresses are needed, of the service and of a page, and there are {len(sys.argv) - 1}")
    main(*sys.argv[1:])
