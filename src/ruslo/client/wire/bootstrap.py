"""The addresses a client begins with."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import NamedTuple

from ruslo.model.errors import ConfigError
from ruslo.net.errors import BrokerUnreachable, ConnectionLost

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
    server whose listener is ``encrypted`` it is enough that it speaks TLS: librdkafka checks certificates.
    """
    problems: list[tuple[Address, Exception]] = []
    refusal: ConnectionLost | None = None
    for address in parse_bootstrap(text):
        try:
            (_shake_hands if encrypted else _greet)(address, timeout_s)
            return
        except (OSError, UnicodeError) as error:
            problems.append((address, error))
        except _NotABroker as error:
            refusal = refusal or _refusal(address, error, encrypted, timeout_s)
    # Somebody who answers, but not as a broker should, tells more than those who do not answer.
    raise refusal or BrokerUnreachable.from_problems(problems)


def refuse_tls(text: str, timeout_s: float = 1.0) -> None:
    """Raise WrongSecurityProtocol if one of the servers speaks TLS, which our own client does not."""
    for address in parse_bootstrap(text):
        try:
            _shake_hands(address, timeout_s)
        except (_NotABroker, OSError, UnicodeError):
            continue
        raise WrongSecurityProtocol(
            f"{address} is a listener with TLS, which this command does not speak: give the address of a "
            "listener without TLS"
        )


class WrongSecurityProtocol(ConnectionLost):
    """The listener speaks TLS and the client does not, or the other way round; waiting does not help."""


class _NotABroker(Exception):
    pass


def _refusal(address: Address, error: _NotABroker, encrypted: bool, timeout_s: float) -> ConnectionLost:
    """Ask the other way: what a listener does answer to tells what is wrong."""
    try:
        (_greet if encrypted else _shake_hands)(address, timeout_s)
    except (_NotABroker, OSError, UnicodeError):
        return ConnectionLost(f"{address} accepts connections, but {error}")
    if encrypted:
        return WrongSecurityProtocol(
            f"{address} is a listener without TLS, but the client uses TLS: set security.protocol "
            "to PLAINTEXT, or to SASL_PLAINTEXT, or give the address of a listener with TLS"
        )
    return WrongSecurityProtocol(
        f"{address} is a listener with TLS, but the client does not use TLS: set security.protocol to SSL, "
        "or to SASL_SSL, or give the address of a listener without TLS"
    )


def _greet(address: Address, timeout_s: float) -> None:
    """Ask for the versions; how the answer begins tells enough."""
    with socket.create_connection(address, timeout_s) as connection:
        try:
            connection.sendall(_GREETING)
            answer = connection.recv(_ANSWER_START.size, socket.MSG_WAITALL)
        except TimeoutError:
            raise _NotABroker(f"did not answer within {timeout_s:.0f} s") from None
        except OSError as error:
            raise _NotABroker(f"did not answer: {(error.strerror or str(error)).lower()}") from None
    if not answer:
        raise _NotABroker("closed this one when it was asked for its versions")
    size, correlation_id = _ANSWER_START.unpack(answer.ljust(_ANSWER_START.size, b"\0"))
    if correlation_id != _CORRELATION_ID or not 4 <= size <= _LARGEST_ANSWER_BYTES:
        raise _NotABroker("does not answer as Kafka brokers do on a listener without TLS")


def _shake_hands(address: Address, timeout_s: float) -> None:
    """Begin TLS, and trust any certificate: whether the listener speaks TLS is all that is asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(address, timeout_s) as connection:
        try:
            context.wrap_socket(connection, server_hostname=address.host).close()
        except TimeoutError:
            raise _NotABroker(f"did not begin TLS within {timeout_s:.0f} s") from None
        except ssl.SSLError as error:
            # An alert is TLS too: a listener that demands a certificate of its clients sends one.
            if "_ALERT_" not in (error.reason or ""):
                raise _NotABroker("does not speak TLS") from None
        except OSError as error:
            raise _NotABroker(f"does not speak TLS: {(error.strerror or str(error)).lower()}") from None
