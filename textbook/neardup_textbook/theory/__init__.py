"""Families of functions and their cascades, measures of two items, calibration by a field that was not scored."""
