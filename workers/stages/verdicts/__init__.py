"""From pairs to verdicts on topics: the linker decides, the filter forwards what is kept."""
