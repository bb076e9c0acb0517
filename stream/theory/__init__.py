"""What a choice promises: S-curves, families, cascades and shapes."""
