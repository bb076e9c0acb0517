"""``neardup dedup``: the documents to keep, and why the others are dropped."""
