"""Ports on the loopback interface that stay reserved for this process until it ends."""

from __future__ import annotations

import os
import socket
from collections import deque

LOOPBACK = "127.0.0.1"
MAX_RESERVED = 256
"""Older reservations are released, so that many tests do not use up the file descriptors of a process."""

_reserved: deque[int] = deque()


def reserve_ports(count: int) -> list[int]:
    """Reserve distinct ports: a server that sets SO_REUSEADDR can listen on them, and nothing else gets them.

    A port that was only probed could be taken by any outgoing connection before the server listens. Here the
    process keeps a socket bound to it. The kernel gives a port away exclusively, and SO_REUSEADDR, set
    afterwards, lets a server bind it as well.
    """
    ports: list[int] = []
    for _ in range(count):
        with socket.socket() as sock:
            sock.bind((LOOPBACK, 0))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ports.append(sock.getsockname()[1])
            _reserved.append(sock.detach())
        if len(_reserved) > MAX_RESERVED:
            os.close(_reserved.popleft())
    return ports
