"""Addresses of clients, as ACLs and quotas name them."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address


@lru_cache(maxsize=10_000)
def canonical_host(host: str) -> str:
    """One spelling for each IPv6 address; any other text is returned unchanged.

    Apache Kafka knows only the spelling of Java, ``2001:db8:0:0:0:0:0:1``, so its ACLs contain that; sockets
    write ``2001:db8::1``.
    """
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
