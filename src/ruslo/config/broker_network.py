"""Listeners, sockets, connection limits and request queues."""

from __future__ import annotations

from ruslo.config.definition import (
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    READ_ONLY,
    STRING,
    ConfigKey,
)
from ruslo.config.limits import INT_MAX
from ruslo.config.validators import HostPortOrNone, Items, OneOf, at_least

# fmt: off
NETWORK_KEYS = (
    ConfigKey("listeners", LIST, ("PLAINTEXT://:9092",), Items(may_be_empty=False), HIGH, PER_BROKER,
        "Where the node listens: NAME://host:port, …; an empty host means every interface."),
    ConfigKey("advertised.listeners", LIST, None, Items(may_be_empty=False, may_be_null=True), HIGH,
        READ_ONLY,
        "Addresses given to clients and peers; listeners when unset."),
    ConfigKey("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, LOW,
        PER_BROKER,
        "Security protocol behind each listener name, as NAME:PROTOCOL, …."),
    ConfigKey("inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "Listener on which brokers talk to each other."),
    ConfigKey("security.inter.broker.protocol", STRING, "PLAINTEXT",
        OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), MEDIUM, READ_ONLY,
        "Security protocol between brokers when no inter.broker.listener.name is given."),
    ConfigKey("early.start.listeners", LIST, None, Items(may_be_null=True), HIGH, READ_ONLY,
        "Listeners opened before the authorizer is ready; those of the controller when unset."),
    ConfigKey("socket.listen.backlog.size", INT, 50, at_least(1), MEDIUM, READ_ONLY,
        "Connections the kernel may queue before they are accepted."),
    ConfigKey("socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_RCVBUF of server sockets; -1 leaves it to the system."),
    ConfigKey("socket.send.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_SNDBUF of server sockets; -1 leaves it to the system."),
    ConfigKey("socket.request.max.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Largest request accepted; a longer one closes the connection."),
    ConfigKey("connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "Idle time after which a connection is closed; negative turns it off."),
    ConfigKey("connection.failed.authentication.delay.ms", INT, 100, at_least(0), LOW, READ_ONLY,
        "Pause before the connection of a client that failed to authenticate is closed."),
    ConfigKey("max.connections", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most connections to this broker at a time. Other brokers get in beyond it if they have a listener "
        "of their own; a client's connection is closed for each."),
    ConfigKey("max.connections.per.ip", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most connections from one address; 0 is allowed when there are overrides."),
    ConfigKey("max.connections.per.ip.overrides", STRING, "", None, MEDIUM, CLUSTER_WIDE,
        "Limits for single hosts or addresses, as host:count, …."),
    ConfigKey("max.connection.creation.rate", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most new connections a second."),
    ConfigKey("num.network.threads", INT, 3, at_least(1), HIGH, CLUSTER_WIDE,
        "Threads that read requests and write answers, for each listener."),
    ConfigKey("queued.max.requests", INT, 500, at_least(1), HIGH, READ_ONLY,
        "Requests that may wait for processing before no more are read."),
    ConfigKey("queued.max.request.bytes", LONG, -1, None, MEDIUM, READ_ONLY,
        "Bytes that requests above 1 MB may take together while they arrive; a connection whose request does "
        "not fit is not read from meanwhile. -1: twice socket.request.max.bytes, but at least 256 MB."),
    ConfigKey("fetch.max.bytes", INT, 57_671_680, at_least(1_024), MEDIUM, READ_ONLY,
        "Most bytes in one answer to a fetch."),
    ConfigKey("max.incremental.fetch.session.cache.slots", INT, 1_000, at_least(0), MEDIUM, READ_ONLY,
        "Most incremental fetch sessions kept (KIP-227)."),
    ConfigKey("fetch.purgatory.purge.interval.requests", INT, 1_000, None, MEDIUM, READ_ONLY,
        "Finished fetches after which the list of waiting ones is tidied."),
    ConfigKey("producer.purgatory.purge.interval.requests", INT, 1_000, None, MEDIUM, READ_ONLY,
        "Finished produce requests after which the list of waiting ones is tidied."),
    ConfigKey("delete.records.purgatory.purge.interval.requests", INT, 1, None, MEDIUM, READ_ONLY,
        "Finished DeleteRecords after which the list of waiting ones is tidied."),
    ConfigKey("ruslo.metrics.listener", STRING, "127.0.0.1:9404", HostPortOrNone(), MEDIUM, READ_ONLY,
        "Ruslo's own: host:port of the HTTP listener with /metrics, /health/live and /health/ready; "
        "port 0 takes a free one, an empty value turns it off."),
    ConfigKey("ruslo.log.format", STRING, "text", OneOf("text", "json"), LOW, READ_ONLY,
        "Ruslo's own: how the node logs to stderr, a line of text or a JSON object for each event."),
)
# fmt: on
