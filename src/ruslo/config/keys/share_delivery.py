"""Delivery to share groups (KIP-932), and the share coordinator that persists its state."""

from ruslo.config.definition import HIGH, INT, MEDIUM, READ_ONLY, SHORT, ConfigKey
from ruslo.config.validators import at_least, between

# fmt: off
SHARE_DELIVERY_KEYS = (
    ConfigKey("group.share.delivery.count.limit", INT, 5, between(2, 10), MEDIUM, READ_ONLY,
        "Maximum number of delivery attempts of a record."),
    ConfigKey("group.share.max.delivery.count.limit", INT, 10, between(5, 25), MEDIUM, READ_ONLY,
        "Maximum of a group's share.delivery.count.limit."),
    ConfigKey("group.share.max.partition.max.record.locks", INT, 4_000, between(2_000, 10_000), MEDIUM,
        READ_ONLY, "Maximum of a group's share.partition.max.record.locks."),
    ConfigKey("group.share.max.record.lock.duration.ms", INT, 60_000, between(30_000, 3_600_000), MEDIUM,
        READ_ONLY, "Maximum of a group's share.record.lock.duration.ms."),
    ConfigKey("group.share.max.share.sessions", INT, 2_000, at_least(1), MEDIUM, READ_ONLY,
        "Maximum number of share sessions on this broker."),
    ConfigKey("group.share.min.delivery.count.limit", INT, 2, between(2, 5), MEDIUM, READ_ONLY,
        "Minimum of a group's share.delivery.count.limit."),
    ConfigKey("group.share.min.partition.max.record.locks", INT, 100, between(100, 2_000), MEDIUM, READ_ONLY,
        "Minimum of a group's share.partition.max.record.locks."),
    ConfigKey("group.share.min.record.lock.duration.ms", INT, 15_000, between(1_000, 30_000), MEDIUM,
        READ_ONLY, "Minimum of a group's share.record.lock.duration.ms."),
    ConfigKey("group.share.partition.max.record.locks", INT, 2_000, between(100, 10_000), MEDIUM, READ_ONLY,
        "Maximum number of locked records per partition."),
    ConfigKey("group.share.record.lock.duration.ms", INT, 30_000, between(1_000, 3_600_000), MEDIUM,
        READ_ONLY, "Time for which a delivered record is locked for its consumer."),
    ConfigKey("share.coordinator.append.linger.ms", INT, -1, at_least(-1), MEDIUM, READ_ONLY,
        "Time for which the share coordinator batches writes; -1 adapts to the load, 0 disables batching."),
    ConfigKey("share.coordinator.load.buffer.size", INT, 5_242_880, at_least(1), HIGH, READ_ONLY,
        "Bytes per read while share state is loaded."),
    ConfigKey("share.coordinator.snapshot.update.records.per.snapshot", INT, 500, between(0, 500), MEDIUM,
        READ_ONLY, "Number of update records after which a full snapshot is written."),
    ConfigKey("share.coordinator.state.topic.compression.codec", INT, 0, None, HIGH, READ_ONLY,
        "Compression codec of __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."),
    ConfigKey("share.coordinator.state.topic.min.isr", SHORT, 2, at_least(1), HIGH, READ_ONLY,
        "Minimum number of in-sync replicas of __share_group_state."),
    ConfigKey("share.coordinator.state.topic.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "Number of partitions of __share_group_state. It cannot change once the topic exists."),
    ConfigKey("share.coordinator.state.topic.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "Replication factor of __share_group_state."),
    ConfigKey("share.coordinator.state.topic.segment.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Segment size of __share_group_state."),
    ConfigKey("share.coordinator.write.timeout.ms", INT, 5_000, at_least(1), HIGH, READ_ONLY,
        "Time a write of share state waits for the in-sync replicas."),
)
# fmt: on
