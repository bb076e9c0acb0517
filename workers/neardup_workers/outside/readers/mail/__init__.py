"""Mail: a message of RFC 5322 and MIME, and the mbox of many messages, as documents."""
