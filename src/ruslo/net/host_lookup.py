"""Addresses of host names."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable


def is_address(host: str) -> bool:
    """Whether the host is an IP address, so that no lookup is needed."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def look_up(hosts: Iterable[str], timeout_s: float) -> dict[str, list[str]]:
    """The addresses of each host, as sockets format them; none for a host that is not found in time.

    The resolver of the system has few threads, so slow lookups of many names take turns.
    """
    lookups = {host: asyncio.ensure_future(_addresses(host)) for host in hosts}
    if not lookups:
        return {}
    try:
        await asyncio.wait(lookups.values(), timeout=timeout_s)
        return {host: lookup.result() if lookup.done() else [] for host, lookup in lookups.items()}
    finally:
        for lookup in lookups.values():
            lookup.cancel()


async def _addresses(host: str) -> list[str]:
    if is_address(host):
        return [str(ipaddress.ip_address(host))]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
