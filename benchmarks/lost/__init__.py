"""What programs that drop near-duplicates find, what they lose, and what a document costs: ``docs/LOST.md``."""
