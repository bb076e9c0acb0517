"""What a running worker does: sign, match, commit."""
