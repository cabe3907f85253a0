"""The keys of a group. The broker key that gives the default is named as a synonym."""

from __future__ import annotations

from ruslo.config.definition import BOOLEAN, CLUSTER_WIDE, INT, MEDIUM, STRING, ConfigKey
from ruslo.config.validators import OffsetReset, OneOf, at_least

# fmt: off
GROUP_KEYS = (
    ConfigKey("consumer.assignment.interval.ms", INT, 1_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Shortest time between two assignments.", ("group.consumer.assignment.interval.ms",)),
    ConfigKey("consumer.heartbeat.interval.ms", INT, 5_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Heartbeat interval given to the members.", ("group.consumer.heartbeat.interval.ms",)),
    ConfigKey("consumer.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Silence after which a member is dropped.", ("group.consumer.session.timeout.ms",)),
    ConfigKey("share.assignment.interval.ms", INT, 1_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Shortest time between two assignments.", ("group.share.assignment.interval.ms",)),
    ConfigKey("share.auto.offset.reset", STRING, "latest", OffsetReset(), MEDIUM, CLUSTER_WIDE,
        "Where a share group without state begins: latest, earliest or by_duration:…."),
    ConfigKey("share.delivery.count.limit", INT, 5, at_least(2), MEDIUM, CLUSTER_WIDE,
        "How often a record is delivered before it is given up.", ("group.share.delivery.count.limit",)),
    ConfigKey("share.heartbeat.interval.ms", INT, 5_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Heartbeat interval given to the members.", ("group.share.heartbeat.interval.ms",)),
    ConfigKey("share.isolation.level", STRING, "read_uncommitted",
        OneOf("read_committed", "read_uncommitted"), MEDIUM, CLUSTER_WIDE,
        "Whether uncommitted transactional records are delivered."),
    ConfigKey("share.partition.max.record.locks", INT, 2_000, at_least(100), MEDIUM, CLUSTER_WIDE,
        "Most records of a partition that may be out for delivery.",
        ("group.share.partition.max.record.locks",)),
    ConfigKey("share.record.lock.duration.ms", INT, 30_000, at_least(1_000), MEDIUM, CLUSTER_WIDE,
        "How long a delivered record is locked for its consumer.", ("group.share.record.lock.duration.ms",)),
    ConfigKey("share.renew.acknowledge.enable", BOOLEAN, True, None, MEDIUM, CLUSTER_WIDE,
        "Let consumers renew the lock of a record."),
    ConfigKey("share.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Silence after which a member is dropped.", ("group.share.session.timeout.ms",)),
    ConfigKey("streams.assignment.interval.ms", INT, 1_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Shortest time between two assignments.", ("group.streams.assignment.interval.ms",)),
    ConfigKey("streams.heartbeat.interval.ms", INT, 5_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Heartbeat interval given to the members.", ("group.streams.heartbeat.interval.ms",)),
    ConfigKey("streams.initial.rebalance.delay.ms", INT, 3_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long the empty group waits for more members before its first assignment.",
        ("group.streams.initial.rebalance.delay.ms",)),
    ConfigKey("streams.num.standby.replicas", INT, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Standby copies of each stateful task.", ("group.streams.num.standby.replicas",)),
    ConfigKey("streams.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Silence after which a member is dropped.", ("group.streams.session.timeout.ms",)),
)
# fmt: on
