"""The addresses a client begins with."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from ruslo.client.errors import BrokerUnreachable, ConnectionLost
from ruslo.model.errors import ConfigError

_API_VERSIONS = 18
_CORRELATION_ID = 0x52555354
_GREETING = struct.pack(">ihhih", 10, _API_VERSIONS, 0, _CORRELATION_ID, -1)
"""ApiVersions in version 0, which every broker answers: no client id, and nothing behind the header."""
_ANSWER_START = struct.Struct(">ii")
_LARGEST_ANSWER_BYTES = 1024 * 1024


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str, name: str = "bootstrap.servers") -> list[Address]:
    """``host:port,host:port`` in the order given, IPv6 in brackets; ``name`` is for messages."""
    addresses = [_parse_address(part.strip(), name) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError(f"{name} is empty: give at least one HOST:PORT")
    return list(dict.fromkeys(addresses))


def _parse_address(text: str, name: str) -> Address:
    if "://" in text:
        raise ConfigError(f"{text!r} in {name}: write HOST:PORT, without what stands before and after it")
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{text!r} in {name}: write an IPv6 address in brackets, as [::1]:9092")
    if not separator or not host:
        raise ConfigError(f"{text!r} in {name} is not HOST:PORT, as in 127.0.0.1:9092")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} in {name}: the port must be a number from 1 to 65535")
    return Address(host, int(port))


def check_reachable(text: str, *, encrypted: bool = False, timeout_s: float = 10.0) -> None:
    """Raise BrokerUnreachable, or ConnectionLost, unless one of the servers answers as a broker does.

    librdkafka goes on trying for minutes and says so only in its log; people want to hear at once. Of a
    server whose listener is ``encrypted`` it is enough that it accepts a connection.
    """
    problems: list[tuple[Address, Exception]] = []
    refusal: ConnectionLost | None = None
    for address in parse_bootstrap(text):
        try:
            with socket.create_connection(address, timeout_s) as connection:
                if not encrypted:
                    _greet(connection)
                return
        except (OSError, UnicodeError) as error:
            problems.append((address, error))
        except _NotABroker as error:
            refusal = refusal or ConnectionLost(f"{address} accepts connections, but {error}")
    # Somebody who answers, but not as a broker should, tells more than those who do not answer.
    raise refusal or BrokerUnreachable.from_problems(problems)


class _NotABroker(Exception):
    pass


def _greet(connection: socket.socket) -> None:
    """Ask for the versions; how the answer begins tells enough."""
    try:
        connection.sendall(_GREETING)
        answer = connection.recv(_ANSWER_START.size, socket.MSG_WAITALL)
    except TimeoutError:
        raise _NotABroker(f"did not answer within {connection.gettimeout():.0f} s") from None
    except OSError as error:
        raise _NotABroker(f"did not answer: {(error.strerror or str(error)).lower()}") from None
    if not answer:
        raise _NotABroker("closed this one when it was asked for its versions")
    size, correlation_id = _ANSWER_START.unpack(answer.ljust(_ANSWER_START.size, b"\0"))
    if correlation_id != _CORRELATION_ID or not 4 <= size <= _LARGEST_ANSWER_BYTES:
        raise _NotABroker("does not answer as Kafka brokers do on a listener without TLS")
