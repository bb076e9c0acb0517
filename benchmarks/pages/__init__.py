"""Pages of the web: extraction, and a crawl with planted copies."""
