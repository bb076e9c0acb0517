"""HTTP in front of a window on disk: requests, the one writer, answers."""
