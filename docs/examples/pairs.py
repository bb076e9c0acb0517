"""Near-duplicates in one process: the example of the tutorial."""

from neardup import Config, Deduplicator, Document

TEXT = "The harbour reopens on Monday after nine weeks of repairs, the port authority said."
dedup = Deduplicator(Config(threshold=0.8, window_seconds=86_400))
for pair in dedup.process([Document("a", TEXT), Document("b", TEXT + " It rains.")]):
    print(pair.older, pair.newer, round(pair.similarity, 2))
