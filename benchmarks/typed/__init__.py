"""Programs that drop near-duplicates, as their users type them, on the same documents."""
