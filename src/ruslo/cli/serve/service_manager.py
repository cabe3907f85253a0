"""Tells the service manager that started this process how it is doing (sd_notify of systemd)."""

from __future__ import annotations

import os
import socket

READY = "READY=1"


def notify(state: str) -> None:
    """A datagram to the socket that the manager named; nothing without one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # An @ stands for the zero byte of an abstract address.
    target = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto(state.encode(), target)
