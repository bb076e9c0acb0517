"""From pairs to verdicts on topics: what a linker decides."""
