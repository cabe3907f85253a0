"""Free ports and a Metadata probe, without a client library."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import time

from ruslo.testing.ports import reserve_ports

# Metadata v1, correlation id 1, no client id, an empty topic list: "no topics, only the brokers".
_METADATA_REQUEST = struct.pack(">hhihi", 3, 1, 1, -1, 0)


def free_port() -> int:
    """A TCP port on the loopback address that is reserved for this test process."""
    return reserve_ports(1)[0]


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        received += piece
    return bytes(received)


def metadata_broker_count(host: str, port: int, timeout_s: float = 2.0) -> int:
    """How many brokers the node at this address names in a Metadata response; OSError without a response."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(_METADATA_REQUEST)) + _METADATA_REQUEST)
        (size,) = struct.unpack(">i", _receive_exactly(connection, 4))
        response = _receive_exactly(connection, size)
    brokers: int = struct.unpack_from(">i", response, 4)[0]
    return brokers


def wait_for_metadata(
    host: str, port: int, process: subprocess.Popen[bytes] | None, timeout_s: float, pause_s: float = 0.02
) -> None:
    """Return once the node names itself in a Metadata response; TimeoutError or RuntimeError otherwise."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the broker process ended with code {process.returncode} before it responded")
        with contextlib.suppress(OSError):
            if metadata_broker_count(host, port) > 0:
                return
        time.sleep(pause_s)
    raise TimeoutError(f"no Metadata response from {host}:{port} within {timeout_s:.0f} s")


def partitions_without_offsets(host: str, port: int, topics: dict[str, int], timeout_s: float = 30.0) -> int:
    """Request the end offset of every partition of these topics (name to partition count), all in one
    ListOffsets request, and count those with an error in the response; OSError without a response.
    """
    body = bytearray(struct.pack(">hhih", 2, 1, 1, -1) + struct.pack(">ii", -1, len(topics)))
    for topic, partitions in topics.items():
        name = topic.encode()
        body += struct.pack(">h", len(name)) + name + struct.pack(">i", partitions)
        for partition in range(partitions):
            body += struct.pack(">iq", partition, -1)
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _receive_exactly(connection, 4))
        response = _receive_exactly(connection, size)
    position = 8
    failures = 0
    for _ in topics:
        (name_length,) = struct.unpack_from(">h", response, position)
        position += 2 + name_length
        (count,) = struct.unpack_from(">i", response, position)
        position += 4
        for _ in range(count):
            (error,) = struct.unpack_from(">h", response, position + 4)
            failures += error != 0
            position += 4 + 2 + 8 + 8
    return failures
