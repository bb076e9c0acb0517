"""A pipeline of Scrapy that keeps each text once: it asks a running ``neardup serve`` about each item.

    ITEM_PIPELINES = {"neardup_workers.scrapy.NeardupPipeline": 300}

The downloader of Scrapy sends the request, so the crawl does not wait for it, and Scrapy sends it again after 429 and
503. A request that was sent twice gets the same verdict twice, so no page is lost by its own retry. If the service
gives no verdict, the item is kept.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from itemadapter import ItemAdapter
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, NotConfigured

_log = logging.getLogger(__name__)


class NeardupPipeline:
    """Drops an item whose text is nearly that of an earlier item.

    Settings: ``NEARDUP_SERVICE``, the address of the service (``http://127.0.0.1:8470``); ``NEARDUP_ID`` and
    ``NEARDUP_TEXT``, the fields that are compared (``url``, ``text``); ``NEARDUP_DROP``, false to keep near-duplicates
    and mark them; ``NEARDUP_FIELD``, a field that receives the verdict (none). The variable ``NEARDUP_TOKEN`` holds the
    token. Stats: ``neardup/`` with ``original``, ``update``, ``duplicate``, and ``unchecked`` without a verdict.

    Args:
        crawler: whose settings, downloader and stats are used.

    Raises:
        NotConfigured: near-duplicates are neither dropped nor marked.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler: Any = crawler  # its engine and stats are there while an item comes
        self._url = settings.get("NEARDUP_SERVICE", "http://127.0.0.1:8470").rstrip("/") + "/v1/check"
        self._id, self._text = settings.get("NEARDUP_ID", "url"), settings.get("NEARDUP_TEXT", "text")
        self._drops, self._field = settings.getbool("NEARDUP_DROP", True), settings.get("NEARDUP_FIELD")
        if not self._drops and not self._field:
            raise NotConfigured("NEARDUP_DROP is false, so verdicts go nowhere: name a field in NEARDUP_FIELD")
        self._headers = {"Content-Type": "application/json"}
        if token := os.environ.get("NEARDUP_TOKEN"):
            self._headers["Authorization"] = f"Bearer {token}"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> NeardupPipeline:
        """Make the pipeline of a crawl."""
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        """Return the item, with its verdict if a field is named.

        Raises:
            DropItem: the service has an earlier document that is nearly the same, which the message names.
        """
        values = ItemAdapter(item)
        verdict = await self._verdict(str(values[self._id]), values.get(self._text))
        self._count("unchecked" if verdict is None else str(verdict["status"]))
        if verdict is None:
            return item
        if self._drops and verdict["status"] == "duplicate":
            raise DropItem(f"nearly the same as {verdict['duplicate_of']}, similarity {verdict['similarity']}")
        if self._field:
            values[self._field] = verdict
        return item

    async def _verdict(self, id_: str, text: Any) -> dict[str, Any] | None:
        """What the service says of a text; ``None`` if it says nothing."""
        request = Request(
            self._url, method="POST", headers=self._headers, body=json.dumps({"id": id_, "text": text}),
            dont_filter=True, meta={"dont_obey_robotstxt": True},
        )  # fmt: skip
        try:
            response = await self._crawler.engine.download_async(request)
        except Exception as error:  # the service is away: an item that cannot be checked is kept
            _log.warning("no verdict about %s: %r", id_, error)
            return None
        if response.status != 200:
            _log.warning("no verdict about %s: %r", id_, response.body[:1000])
            return None
        verdict: dict[str, Any] = json.loads(response.body)
        return verdict

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(f"neardup/{name}")
