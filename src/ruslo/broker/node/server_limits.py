"""The limits of connections from the configuration."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Mapping
from functools import lru_cache

from ruslo.config.broker import BrokerConfig
from ruslo.config.limits import INT_MAX
from ruslo.net.server import ServerLimits

logger = logging.getLogger(__name__)

KERNEL_DEFAULT = -1


def server_limits(config: BrokerConfig) -> ServerLimits:
    return ServerLimits(
        max_frame_bytes=config.int("socket.request.max.bytes"),
        max_connections=config.int("max.connections"),
        max_connections_per_ip=config.int("max.connections.per.ip"),
        max_connections_of_ip=_by_address(tuple(config.connection_overrides_per_ip.items())),
        max_connections_of_listener=_of_listeners(config, "max.connections"),
        creation_rate=_rate(config),
        creation_rate_of_listener=_of_listeners(config, "max.connection.creation.rate"),
        protected_listener=config.inter_broker_listener_name if len(config.broker_listeners) > 1 else None,
        max_request_bytes=_request_bytes(config),
        idle_ms=config.int("connections.max.idle.ms"),
        backlog=config.int("socket.listen.backlog.size"),
        send_buffer_bytes=_buffer_bytes(config, "socket.send.buffer.bytes"),
        receive_buffer_bytes=_buffer_bytes(config, "socket.receive.buffer.bytes"),
    )


def _rate(config: BrokerConfig) -> float | None:
    rate = config.int("max.connection.creation.rate")
    return None if rate >= INT_MAX or rate <= 0 else rate


def _of_listeners(config: BrokerConfig, key: str) -> dict[str, int]:
    """The limit of each listener that has one of its own."""
    names = (each.listener_name for each in config.listeners)
    return {
        name: config.of_listener(name).int(key)
        for name in names
        if config.is_set(f"listener.name.{name.lower()}.{key}")
    }


# Names are resolved only when this setting changes.
@lru_cache(maxsize=1)
def _by_address(limits: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """Limits of hosts by the addresses of their connections, as the kernel formats them."""
    return {address: limit for host, limit in limits for address in _addresses(host)}


def _addresses(host: str) -> set[str]:
    try:
        return {str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))}
    except ValueError:
        pass
    try:
        return {str(address[0]) for *_, address in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError) as error:
        logger.warning(
            "the connection limit for %s has no effect, because its address is unknown (%s): correct "
            "max.connections.per.ip.overrides",
            host,
            error,
        )
        return set()


def _request_bytes(config: BrokerConfig) -> int:
    """The default fits two requests of the largest size, or a few hundred usual ones."""
    queued = config.int("queued.max.request.bytes")
    return queued if queued > 0 else max(2 * config.int("socket.request.max.bytes"), 256 * 1024 * 1024)


def _buffer_bytes(config: BrokerConfig, key: str) -> int:
    """Kafka's default of 100 KB costs a third more CPU than the kernel's choice (ADR 6)."""
    return config.int(key) if config.is_set(key) else KERNEL_DEFAULT
