"""Which addresses of the network are public: those that every machine of the internet reaches by the same number.

A feed names its links, so a feed could make this machine send requests to services that only this machine reaches. The
address that a connection is made to is checked, not the name: a name may have other addresses at the next lookup.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple

# The ranges for special purposes, and those of groups (registries of IANA, 2025-10): those of Python change with its
# version. Parts of these that every machine reaches (192.0.0.9, 2001:20::) have no servers of the web.
_SPECIAL_4 = tuple(
    IPv4Network(range_)
    for range_ in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
    )
)
# The only range of IPv6 that has global addresses of single machines (RFC 4291), and what is special in it.
_UNICAST = IPv6Network("2000::/3")
_SPECIAL_6 = tuple(
    IPv6Network(range_) for range_ in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)
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
            return address in _UNICAST and not address.scope_id and not any(address in one for one in _SPECIAL_6)
        address = held
    return not any(address in range_ for range_ in _SPECIAL_4)


def _held(address: IPv6Address) -> IPv4Address | None:
    """Return the address of IPv4 that an address of IPv6 stands for."""
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def addresses_of(host: str, port: int, resolve: Any = socket.getaddrinfo) -> list[Address]:
    """Return the addresses of a host, in the order of the system, each once. Raises ``OSError``, ``UnicodeError``."""
    resolved = resolve(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(Address(family, where[0]) for family, _, _, _, where in resolved))
