"""Quota windows, metrics and client telemetry."""

from __future__ import annotations

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
)
from ruslo.config.limits import LONG_MAX
from ruslo.config.validators import Items, at_least

# fmt: off
QUOTA_KEYS = (
    ConfigKey("quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept by client quotas."),
    ConfigKey("quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample of client quotas."),
    ConfigKey("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept by replication quotas."),
    ConfigKey("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample of replication quotas."),
    ConfigKey("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept by the quota of moves between directories."),
    ConfigKey("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample of the quota of moves between directories."),
    ConfigKey("controller.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept by the quota of partition changes."),
    ConfigKey("controller.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample of the quota of partition changes."),
    ConfigKey("client.quota.callback.class", CLASS, None, None, LOW, READ_ONLY,
        "Plug-in class that decides client quotas."),
    ConfigKey("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), Items(), LOW,
        CLUSTER_WIDE,
        "Classes that export metrics."),
    ConfigKey("metrics.num.samples", INT, 2, at_least(1), LOW, READ_ONLY,
        "Samples kept by a metric."),
    ConfigKey("metrics.recording.level", STRING, "INFO", None, LOW, READ_ONLY,
        "Least level of detail at which metrics are recorded."),
    ConfigKey("metrics.sample.window.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
        "Length of a sample of a metric."),
    ConfigKey("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), LOW, READ_ONLY,
        "How often kafka.metrics.reporters are polled."),
    ConfigKey("kafka.metrics.reporters", LIST, (), Items(), LOW, READ_ONLY,
        "Classes that export the old style of metrics."),
    ConfigKey("telemetry.max.bytes", INT, 1_048_576, at_least(1), LOW, READ_ONLY,
        "Largest client telemetry payload accepted, after compression."),
)
# fmt: on

# Not for server.properties: these exist only as dynamic settings (KIP-73, KIP-113).
# fmt: off
DYNAMIC_ONLY = (
    ConfigKey("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes a second this broker sends of throttled replicas."),
    ConfigKey("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes a second this broker fetches of throttled replicas."),
    ConfigKey("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, at_least(0), MEDIUM,
        CLUSTER_WIDE,
        "Bytes a second moved between directories of this broker."),
)
# fmt: on
