"""What keeps running: a worker, its roles, and the supervisor of several."""
