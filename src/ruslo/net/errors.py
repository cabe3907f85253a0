"""Errors of a connection to a broker.

::

    KafkaError
    ├── BrokerUnreachable   no connection could be made; ``addresses`` names the addresses that were tried
    ├── ConnectionLost      the peer closed the connection, or sent an invalid response, before it responded
    └── RequestTimedOut     no response arrived in time; the request may or may not have been processed
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Sequence

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.tls.errors import TlsError


class BrokerUnreachable(KafkaError):
    def __init__(self, message: str, addresses: Sequence[tuple[str, int]], *, refused: bool = False) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)
        self.addresses = tuple(addresses)
        self.refused = refused
        """Whether every address refused the connection: proof that no process listens, unlike a timeout."""

    @classmethod
    def from_problems(cls, problems: Sequence[tuple[tuple[str, int], BaseException]]) -> BrokerUnreachable:
        causes = [f"{host}:{port} ({_reason(error)})" for (host, port), error in problems]
        return cls(
            f"cannot connect to {', '.join(causes)}",
            [address for address, _ in problems],
            refused=all(is_refusal(error) for _, error in problems),
        )


class ConnectionLost(KafkaError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class RequestTimedOut(KafkaError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


def is_refusal(error: BaseException) -> bool:
    """Whether the host refused the connection at each of its addresses."""
    if isinstance(error, ConnectionRefusedError):
        return True
    # A name with several addresses: the event loop puts all failures into one text.
    numbers = re.findall(r"\[Errno (\d+)\]", str(error)) if isinstance(error, OSError) else []
    return bool(numbers) and all(int(number) == errno.ECONNREFUSED for number in numbers)


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "timed out"
    # UnicodeError: a name that no host can have, such as one with two dots in a row.
    if isinstance(error, socket.gaierror | UnicodeError):
        return "unknown host name"
    if isinstance(error, TlsError):
        return str(error)
    if isinstance(error, KafkaError):
        return error.message or error.code.name
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
