"""What the service sends to others: events of stories to a web hook, and an Atom feed of stories."""
