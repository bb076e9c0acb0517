"""Documents become pairs: sign, match, judge, explain."""
