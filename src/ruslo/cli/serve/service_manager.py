"""Reports readiness to the service manager (sd_notify of systemd)."""

from __future__ import annotations

import os
import socket

READY = "READY=1"


def notify(state: str) -> None:
    """Send a state to the socket in NOTIFY_SOCKET, if it is set."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # @ means an abstract socket, whose address starts with a zero byte.
    target = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto(state.encode(), target)
