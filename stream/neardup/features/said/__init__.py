"""What texts say: their words and numbers, and which part of one text another one has said."""
