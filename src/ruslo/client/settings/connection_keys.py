"""Connection settings, which producers and consumers share."""

from __future__ import annotations

from ruslo.client.settings.setting import IGNORED, REFUSED, SAME, TRANSLATED, setting
from ruslo.config.definition import BOOLEAN, INT, LIST, LONG, REQUIRED, STRING
from ruslo.config.validators import Items, OneOf, at_least

# fmt: off
CONNECTION_KEYS = (
    setting("bootstrap.servers", LIST, REQUIRED, Items(), TRANSLATED,
        "The brokers from which the client discovers the cluster."),
    setting("client.dns.lookup", STRING, "use_all_dns_ips", OneOf("use_all_dns_ips",
        "resolve_canonical_bootstrap_servers_only"), SAME,
        "Which addresses of a host name the client tries."),
    setting("client.id", STRING, "", None, SAME,
        "The client's name in broker logs and quotas."),
    setting("config.providers", LIST, (), Items(), REFUSED,
        "resolve secrets in Python before the settings are passed."),
    setting("connections.max.idle.ms", LONG, 540_000, None, TRANSLATED,
        "Idle connections are closed after this time; negative for never."),
    setting("enable.metrics.push", BOOLEAN, True, None, SAME,
        "Whether brokers may request the client's metrics (KIP-714)."),
    setting("interceptor.classes", LIST, (), Items(), REFUSED,
        "wrap send or poll in your own function."),
    setting("metadata.max.age.ms", LONG, 300_000, at_least(0), TRANSLATED,
        "topic.metadata.refresh.interval.ms",
        "Metadata is refreshed after this time, at most an hour."),
    setting("metadata.recovery.rebootstrap.trigger.ms", LONG, 300_000, at_least(0), SAME,
        "Time without metadata after which the client connects to bootstrap.servers again."),
    setting("metadata.recovery.strategy", STRING, "rebootstrap", OneOf("REBOOTSTRAP", "NONE",
        ignore_case=True), TRANSLATED,
        "What to do when no known broker responds."),
    setting("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), Items(), IGNORED,
        "Java's reporters do not exist here; use statistics.interval.ms and stats_cb."),
    setting("metrics.num.samples", INT, 2, at_least(1), IGNORED,
        "Java's metrics do not exist here."),
    setting("metrics.recording.level", STRING, "INFO", OneOf("INFO", "DEBUG", "TRACE"), IGNORED,
        "Java's metrics do not exist here."),
    setting("metrics.sample.window.ms", LONG, 30_000, at_least(0), IGNORED,
        "Java's metrics do not exist here."),
    setting("reconnect.backoff.max.ms", LONG, 1000, at_least(0), SAME,
        "Longest pause before a reconnect."),
    setting("reconnect.backoff.ms", LONG, 50, at_least(0), SAME,
        "First pause before a reconnect."),
    setting("request.timeout.ms", INT, 30_000, at_least(0), TRANSLATED, "socket.timeout.ms",
        "How long the client waits for a response."),
    setting("retry.backoff.max.ms", LONG, 1000, at_least(0), TRANSLATED,
        "Longest pause between retries."),
    setting("retry.backoff.ms", LONG, 100, at_least(0), TRANSLATED,
        "First pause between retries; 0 counts as 1."),
    setting("send.buffer.bytes", INT, 131_072, at_least(-1), TRANSLATED, "socket.send.buffer.bytes",
        "Socket buffer; -1 for the system's default."),
    setting("socket.connection.setup.timeout.max.ms", LONG, 30_000, None, IGNORED,
        "The timeout does not grow: socket.connection.setup.timeout.ms applies."),
    setting("socket.connection.setup.timeout.ms", LONG, 10_000, None, SAME,
        "Time limit for establishing a connection."),
)
