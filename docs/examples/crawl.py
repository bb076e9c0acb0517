"""A crawl that keeps each text once: a spider with the pipeline ``neardup_workers.scrapy.NeardupPipeline``.

The spider follows the links of a site and makes an item of each page. Before an item is stored, the pipeline asks a
running ``neardup serve``, and drops it if an earlier page has nearly the same text.

Usage: python docs/examples/crawl.py SERVICE START, for example http://127.0.0.1:8470 https://www.example.com/
The environment variable NEARDUP_TOKEN holds the token, if the service needs one. The items that are kept go to standard
output as lines of JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response, TextResponse


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
            "ITEM_PIPELINES": {"neardup_workers.scrapy.NeardupPipeline": 300},
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
