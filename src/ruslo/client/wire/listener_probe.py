"""Probes listeners: does a Kafka broker respond, and does the listener speak TLS?

librdkafka retries a wrong address for minutes and reports it only in its log. These probes fail at once, with
the fix.
"""

from __future__ import annotations

import socket
import ssl
import struct

from ruslo.client.settings.bootstrap_servers import Address, parse_bootstrap
from ruslo.net.errors import BrokerUnreachable, ConnectionLost

_API_VERSIONS = 18
_CORRELATION_ID = 0x52555354
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, _API_VERSIONS, 0, _CORRELATION_ID, -1)
"""ApiVersions version 0, which every broker serves: a null client id and an empty body."""
_RESPONSE_START = struct.Struct(">ii")
_RESPONSE_BYTES_MAX = 1024 * 1024


class WrongSecurityProtocol(ConnectionLost):
    """The listener speaks TLS and the client does not, or the reverse; a retry cannot succeed."""


def check_reachable(text: str, *, encrypted: bool = False, timeout_s: float = 10.0) -> None:
    """Raise BrokerUnreachable or ConnectionLost unless one of the servers responds like a broker.

    An ``encrypted`` listener only has to complete a TLS handshake: librdkafka verifies certificates.
    """
    problems: list[tuple[Address, Exception]] = []
    mismatch: ConnectionLost | None = None
    for address in parse_bootstrap(text):
        try:
            (_probe_tls if encrypted else _probe_plaintext)(address, timeout_s)
            return
        except (OSError, UnicodeError) as error:
            problems.append((address, error))
        except _NotABroker as error:
            mismatch = mismatch or _explain(address, error, encrypted, timeout_s)
    # A server that responds in the wrong way is a better explanation than one that does not respond.
    raise mismatch or BrokerUnreachable.from_problems(problems)


def check_security_protocol(text: str, *, encrypted: bool, timeout_s: float = 1.0) -> None:
    """Raise WrongSecurityProtocol if a server speaks TLS and the client does not, or the reverse."""
    for address in parse_bootstrap(text):
        try:
            (_probe_plaintext if encrypted else _probe_tls)(address, timeout_s)
        except (_NotABroker, OSError, UnicodeError):
            continue
        raise _mismatch(address, encrypted)


class _NotABroker(Exception):
    pass


def _explain(address: Address, error: _NotABroker, encrypted: bool, timeout_s: float) -> ConnectionLost:
    """Probe with the other protocol: if that works, the security protocol is wrong."""
    try:
        (_probe_plaintext if encrypted else _probe_tls)(address, timeout_s)
    except (_NotABroker, OSError, UnicodeError):
        return ConnectionLost(f"{address} accepts connections, but {error}")
    return _mismatch(address, encrypted)


def _mismatch(address: Address, encrypted: bool) -> WrongSecurityProtocol:
    if encrypted:
        return WrongSecurityProtocol(
            f"{address} is a listener without TLS, but the client uses TLS: set security.protocol "
            "to PLAINTEXT or SASL_PLAINTEXT, or give the address of a listener with TLS"
        )
    return WrongSecurityProtocol(
        f"{address} is a listener with TLS, but the client does not use TLS: set security.protocol to SSL "
        "or SASL_SSL, or give the address of a listener without TLS"
    )


def _probe_plaintext(address: Address, timeout_s: float) -> None:
    """Send ApiVersions; the first bytes of the response identify a broker."""
    with socket.create_connection(address, timeout_s) as connection:
        try:
            connection.sendall(_API_VERSIONS_REQUEST)
            response = connection.recv(_RESPONSE_START.size, socket.MSG_WAITALL)
        except TimeoutError:
            raise _NotABroker(f"did not respond within {timeout_s:.0f} s") from None
        except OSError as error:
            raise _NotABroker(f"did not respond: {(error.strerror or str(error)).lower()}") from None
    if not response:
        raise _NotABroker("closed the connection when it received an ApiVersions request")
    size, correlation_id = _RESPONSE_START.unpack(response.ljust(_RESPONSE_START.size, b"\0"))
    if correlation_id != _CORRELATION_ID or not 4 <= size <= _RESPONSE_BYTES_MAX:
        raise _NotABroker("does not respond like a Kafka broker on a listener without TLS")


def _probe_tls(address: Address, timeout_s: float) -> None:
    """Start TLS and accept any certificate: only whether the listener speaks TLS matters."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(address, timeout_s) as connection:
        try:
            context.wrap_socket(connection, server_hostname=address.host).close()
        except TimeoutError:
            raise _NotABroker(f"did not start TLS within {timeout_s:.0f} s") from None
        except ssl.SSLError as error:
            # An alert is TLS too: a listener that requires client certificates sends one.
            if "_ALERT_" not in (error.reason or ""):
                raise _NotABroker("does not speak TLS") from None
        except OSError as error:
            raise _NotABroker(f"does not speak TLS: {(error.strerror or str(error)).lower()}") from None
