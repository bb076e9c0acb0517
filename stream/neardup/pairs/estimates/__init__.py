"""What a run missed: intervals of a sample, and the exact neighbours of a sample among all documents."""
