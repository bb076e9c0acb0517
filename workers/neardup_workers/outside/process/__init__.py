"""How a process restarts, stops and ends."""
