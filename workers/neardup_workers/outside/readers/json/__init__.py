"""JSON: arrays as lines, and lines as columns."""
