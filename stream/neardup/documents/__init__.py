"""What comes in and goes out: documents, pairs, verdicts, and ids within collections."""
