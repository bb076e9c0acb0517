"""What a choice promises: S-curves, families, cascades and shapes; and the judgement of what came out."""
