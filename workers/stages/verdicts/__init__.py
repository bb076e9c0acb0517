"""From pairs to verdicts on topics: the linker decides, the filter forwards the accepted documents."""
