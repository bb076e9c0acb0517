"""Bytes of connections: bounds on clients, requests that come whole, and their answers."""
