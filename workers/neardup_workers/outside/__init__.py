"""Files, feeds, topics and stores: everything that the processes touch."""
