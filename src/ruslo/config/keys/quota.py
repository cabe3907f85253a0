"""Quota windows, metrics and client telemetry."""

from ruslo.config.definition import (
    CLASS,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    ConfigKey,
    refused,
    without_effect,
)
from ruslo.config.limits import LONG_MAX
from ruslo.config.validators import Items, at_least

# fmt: off
QUOTA_KEYS = (
    ConfigKey("quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Number of samples of client quotas."),
    ConfigKey("quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Duration of a client quota sample."),
    ConfigKey("controller.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Number of samples of the quota for partition changes."),
    ConfigKey("controller.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Duration of a sample of the quota for partition changes."),
    *refused(
        "it is a Java class, which this node cannot run: remove the line and set quotas with 'ruslo quota'",
        ConfigKey("client.quota.callback.class", CLASS, None, None, LOW, READ_ONLY,
            "Java class that calculates client quotas. Ruslo refuses to start with one."),
    ),
    ConfigKey("telemetry.max.bytes", INT, 1_048_576, at_least(1), LOW, READ_ONLY,
        "Maximum size of the metrics that a client pushes, compressed and decompressed."),
    *without_effect(
        ConfigKey("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
            "Number of samples of replication quotas."),
        ConfigKey("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
            "Duration of a replication quota sample."),
        ConfigKey("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
            "Number of samples of the quota for moves between log directories."),
        ConfigKey("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
            "Duration of a sample of the quota for moves between log directories."),
        ConfigKey("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), Items(), LOW,
            CLUSTER_WIDE, "Classes that export metrics."),
        ConfigKey("metrics.num.samples", INT, 2, at_least(1), LOW, READ_ONLY,
            "Number of samples of a metric."),
        ConfigKey("metrics.recording.level", STRING, "INFO", None, LOW, READ_ONLY,
            "Minimum level at which metrics are recorded."),
        ConfigKey("metrics.sample.window.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
            "Duration of a metric sample."),
        ConfigKey("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), LOW, READ_ONLY,
            "Interval at which kafka.metrics.reporters are polled."),
        ConfigKey("kafka.metrics.reporters", LIST, (), Items(), LOW, READ_ONLY,
            "Classes that export the older kind of metrics."),
    ),
)
# fmt: on

# Not for server.properties: these exist only as dynamic settings (KIP-73, KIP-113).
# fmt: off
DYNAMIC_ONLY_KEYS = (
    ConfigKey("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum bytes per second that this broker sends to throttled replicas."),
    ConfigKey("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum bytes per second that this broker fetches for throttled replicas."),
    ConfigKey("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, at_least(0), MEDIUM,
        CLUSTER_WIDE, "Maximum bytes per second moved between log directories of this broker."),
)
# fmt: on
