"""Addresses: objects of other machines, read and written where a path may stand."""
