"""What the configuration allows connections to take."""

from __future__ import annotations

from ruslo.config.broker import BrokerConfig
from ruslo.net.server import ServerLimits

KERNEL_CHOOSES = -1


def server_limits(config: BrokerConfig) -> ServerLimits:
    return ServerLimits(
        max_frame_bytes=config.int("socket.request.max.bytes"),
        max_connections=config.int("max.connections"),
        max_connections_per_ip=config.int("max.connections.per.ip"),
        max_connections_of_ip=config.connection_overrides_per_ip,
        protected_listener=config.inter_broker_listener_name if len(config.broker_listeners) > 1 else None,
        idle_ms=config.int("connections.max.idle.ms"),
        backlog=config.int("socket.listen.backlog.size"),
        send_buffer_bytes=_buffer_bytes(config, "socket.send.buffer.bytes"),
        receive_buffer_bytes=_buffer_bytes(config, "socket.receive.buffer.bytes"),
    )


def _buffer_bytes(config: BrokerConfig, key: str) -> int:
    """Kafka's default of 100 KB costs a third more CPU than a size the kernel chooses (ADR 6)."""
    return config.int(key) if config.is_set(key) else KERNEL_CHOOSES
