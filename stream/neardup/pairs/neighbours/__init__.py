"""The most similar documents of each document."""
