"""What is typed and what keeps running: commands, workers, help."""
