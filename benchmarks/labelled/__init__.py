"""Sets with labels that others made, read from a folder, and how this program does on them: ``docs/RESULTS.md``."""
