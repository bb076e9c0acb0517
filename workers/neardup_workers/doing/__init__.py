"""What a process does: stages, sessions, audits, requests."""
