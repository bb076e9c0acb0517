"""Ports for the servers of the tests: each is given once, to all processes of the machine."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
# Below Linux's range for outgoing connections (32768 and up): while the broker is down no client's outgoing
# socket can take its port, nor connect to itself there.
PORTS_FREE = range(15_000, 32_000)


def is_free(port: int) -> bool:
    """Return whether a process can listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


# A port that was given stays bound in the name space of datagrams, where Kafka has none: no other process that asks
# here is given it, although its server has not started yet. The reservations end with the process.
_reserved: list[socket.socket] = []


def _reserve(port: int) -> bool:
    """Reserve a port for this process; return whether it was neither reserved nor in use."""
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        held.bind((HOST, port))
    except OSError:
        held.close()
        return False
    _reserved.append(held)
    return is_free(port)


def free_port(count: int = 1) -> int:
    """Return the first of `count` consecutive ports of `PORTS_FREE`, which no other caller gets."""
    chance = random.SystemRandom()
    for _ in range(1_000):
        first = chance.choice(PORTS_FREE)
        if all(_reserve(port) for port in range(first, first + count)):
            return first
    raise OSError(f"no free port in {PORTS_FREE} of {HOST}: end what listens there")
