"""Listeners, sockets, connection limits and request queues."""

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
    without_effect,
)
from ruslo.config.limits import INT_MAX
from ruslo.config.validators import HOST_PORT_OR_NONE, Items, OneOf, at_least

# fmt: off
NETWORK_KEYS = (
    ConfigKey("listeners", LIST, ("PLAINTEXT://:9092",), Items(may_be_empty=False), HIGH, PER_BROKER,
        "Addresses that the node listens on: NAME://host:port, …. An empty host means all interfaces."),
    ConfigKey("advertised.listeners", LIST, None, Items(may_be_empty=False, may_be_null=True), HIGH,
        READ_ONLY, "Addresses given to clients and other nodes (default: listeners)."),
    ConfigKey("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, LOW, PER_BROKER,
        "Security protocol of each listener name: NAME:PROTOCOL, …."),
    ConfigKey("inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "Listener for connections between brokers."),
    ConfigKey("security.inter.broker.protocol", STRING, "PLAINTEXT",
        OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), MEDIUM, READ_ONLY,
        "Security protocol between brokers if inter.broker.listener.name is unset."),
    ConfigKey("socket.listen.backlog.size", INT, 50, at_least(1), MEDIUM, READ_ONLY,
        "Maximum number of connections that the kernel queues before the broker accepts them."),
    ConfigKey("socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_RCVBUF of server sockets; -1 means the system's default."),
    ConfigKey("socket.send.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_SNDBUF of server sockets; -1 means the system's default."),
    ConfigKey("socket.request.max.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Maximum size of a request. A larger request closes the connection."),
    ConfigKey("connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "Idle time after which a connection is closed; a negative value disables it."),
    ConfigKey("max.connections", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum number of connections to this broker. Brokers with a listener of their own can exceed it: "
        "a client connection is closed for each of them."),
    ConfigKey("max.connections.per.ip", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum number of connections from one IP address. It can be 0 if overrides are set."),
    ConfigKey("max.connections.per.ip.overrides", STRING, "", None, MEDIUM, CLUSTER_WIDE,
        "Connection limits of single hosts or IP addresses: host:count, …."),
    ConfigKey("max.connection.creation.rate", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum number of new connections per second; further ones are accepted later. It can be set for "
        "one listener, too."),
    ConfigKey("connection.failed.authentication.delay.ms", INT, 100, at_least(0), LOW, READ_ONLY,
        "Time by which the response to a failed authentication is delayed; then the connection is closed."),
    ConfigKey("queued.max.request.bytes", LONG, -1, None, MEDIUM, READ_ONLY,
        "Maximum total bytes of requests above 1 MB that are being received. The broker stops reading a "
        "connection whose request does not fit. -1 means twice socket.request.max.bytes, at least 256 MB."),
    ConfigKey("fetch.max.bytes", INT, 57_671_680, at_least(1_024), MEDIUM, READ_ONLY,
        "Maximum bytes in one fetch response."),
    ConfigKey("max.incremental.fetch.session.cache.slots", INT, 1_000, at_least(0), MEDIUM, READ_ONLY,
        "Maximum number of incremental fetch sessions (KIP-227)."),
    ConfigKey("ruslo.metrics.listener", STRING, "127.0.0.1:9404", HOST_PORT_OR_NONE, MEDIUM, READ_ONLY,
        "Ruslo only: host:port of the HTTP listener for /metrics, /health/live and /health/ready. Port 0 "
        "takes a free port, an empty value disables the listener."),
    ConfigKey("ruslo.metrics.security.protocol", STRING, "PLAINTEXT", OneOf("PLAINTEXT", "SSL"), MEDIUM,
        READ_ONLY,
        "Ruslo only: SSL makes ruslo.metrics.listener serve HTTPS. Its TLS settings are ssl.…, or "
        "listener.name.metrics.ssl.… for this listener only."),
    ConfigKey("ruslo.log.format", STRING, "text", OneOf("text", "json"), LOW, READ_ONLY,
        "Ruslo only: format of the node's log on stderr: text (one line per event) or json (one object per "
        "event)."),
    *without_effect(
        ConfigKey("early.start.listeners", LIST, None, Items(may_be_null=True), HIGH, READ_ONLY,
            "Listeners opened before the authorizer is ready (default: the controller listeners)."),
        ConfigKey("num.network.threads", INT, 3, at_least(1), HIGH, CLUSTER_WIDE,
            "Threads per listener that read requests and write responses."),
        ConfigKey("queued.max.requests", INT, 500, at_least(1), HIGH, READ_ONLY,
            "Maximum number of queued requests before the broker stops reading."),
        ConfigKey("fetch.purgatory.purge.interval.requests", INT, 1_000, None, MEDIUM, READ_ONLY,
            "Number of completed fetches after which they are purged from the purgatory."),
        ConfigKey("producer.purgatory.purge.interval.requests", INT, 1_000, None, MEDIUM, READ_ONLY,
            "Number of completed produce requests after which they are purged from the purgatory."),
        ConfigKey("delete.records.purgatory.purge.interval.requests", INT, 1, None, MEDIUM, READ_ONLY,
            "Number of completed DeleteRecords requests after which they are purged from the purgatory."),
    ),
)
# fmt: on
