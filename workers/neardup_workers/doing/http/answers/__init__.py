"""What answers have in common on their way to the client."""
