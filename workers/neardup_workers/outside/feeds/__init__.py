"""Feeds and the pages that they link, fetched with limits on address, size and time."""
