"""Which addresses of the network are public: those that every machine of the internet reaches by the same number.

A feed names its links, so a feed could make this machine send requests to services that only this machine reaches. The
address that a connection is made to is checked, not the name: a name may have other addresses at the next lookup.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple

# The only range of IPv6 that has global addresses of single machines (RFC 4291).
_UNICAST = IPv6Network("2000::/3")
# Addresses of IPv4 in IPv6, as translators write them (RFC 6052).
_TRANSLATED = IPv6Network("64:ff9b::/96")


class Address(NamedTuple):
    """An address to connect to: its family for ``socket``, and its number."""

    family: socket.AddressFamily
    number: str


def is_public(number: str) -> bool:
    """Whether an address is public. An address of IPv6 that holds one of IPv4 is judged by that one.

    >>> is_public("93.184.216.34"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    try:
        address = ip_address(number)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        held = _held(address)
        if held is None:
            return address in _UNICAST and address.is_global and not address.scope_id
        address = held
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _held(address: IPv6Address) -> IPv4Address | None:
    """Return the address of IPv4 that an address of IPv6 stands for."""
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def addresses_of(host: str, port: int, resolve: Any = socket.getaddrinfo) -> list[Address]:
    """Return the addresses of a host, in the order of the system, each once. Raises ``OSError``, ``UnicodeError``."""
    resolved = resolve(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(Address(family, where[0]) for family, _, _, _, where in resolved))
