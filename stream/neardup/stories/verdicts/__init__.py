"""From pairs to decisions: which documents are kept, and which are dropped for the sake of which."""
