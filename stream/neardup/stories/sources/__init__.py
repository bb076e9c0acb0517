"""Sources: what tells a story, and who was first."""
