"""The guarantees of a choice: S-curves, families, cascades and shapes."""
