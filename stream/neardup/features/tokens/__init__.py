"""Elements, bags and ratings of documents -> features; the order of tokens; exact similarities of sets and bags."""
