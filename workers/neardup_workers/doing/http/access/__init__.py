"""Who may send which requests, and what they sent."""
