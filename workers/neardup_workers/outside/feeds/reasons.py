"""Why a feed, an item or a page has no text, and the sentence of each reason."""

from __future__ import annotations

# Reason -> sentence.
FEED_REASONS: dict[str, str] = {
    "fetch_url": "the address of the resource is not one of http or https without user and password",
    "fetch_unknown_host": "the name of the server has no address",
    "fetch_private": "the server has no public address: --allow-private fetches from it all the same",
    "fetch_connection": "the server does not answer, or not as HTTP and TLS say",
    "fetch_time": "the answer took longer than 30 seconds",
    "fetch_too_large": "the answer is larger than 8 MiB",
    "fetch_damaged": "the answer is not compressed as its first bytes say",
    "fetch_redirects": "the answer is a redirect after five others, or one to no address",
    "fetch_status": "the server answered with an error",
    "feed_format": "it is neither RSS, Atom, RDF nor JSON Feed, and names none",
    "feed_list": "the list of feeds cannot be read; its feeds stay as they were",
    "feed_damaged": "the feed cannot be read, or needs more than a gigabyte of memory",
    "feed_slow": "the reading of the feed took longer than 20 seconds",
    "page_robots": "the site asks robots not to read the page (robots.txt), or cannot be asked",
    "page_type": "the page is neither HTML nor plain text",
    "service_refused": "the service refuses it",
    "feed_gone": "the server says that the feed is gone for good, so it is not asked again",
}
