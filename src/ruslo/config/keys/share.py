"""Members and assignments of share groups (KIP-932)."""

from ruslo.config.definition import (
    CLUSTER_WIDE,
    INT,
    LIST,
    MEDIUM,
    READ_ONLY,
    ConfigKey,
    without_effect,
)
from ruslo.config.validators import Items, at_least, between

# fmt: off
SHARE_KEYS = (
    ConfigKey("group.share.assignment.interval.ms", INT, 1_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Minimum time between two assignments of a share group."),
    ConfigKey("group.share.assignors", LIST, ("simple",), Items(may_be_empty=False), MEDIUM, READ_ONLY,
        "Assignor of share groups. Exactly one is allowed."),
    ConfigKey("group.share.heartbeat.interval.ms", INT, 5_000, at_least(1), MEDIUM, READ_ONLY,
        "Heartbeat interval of share group members."),
    ConfigKey("group.share.max.assignment.interval.ms", INT, 15_000, at_least(0), MEDIUM, READ_ONLY,
        "Maximum of a group's share.assignment.interval.ms."),
    ConfigKey("group.share.max.heartbeat.interval.ms", INT, 15_000, at_least(1), MEDIUM, READ_ONLY,
        "Maximum of a group's share.heartbeat.interval.ms."),
    ConfigKey("group.share.max.session.timeout.ms", INT, 60_000, at_least(1), MEDIUM, READ_ONLY,
        "Maximum of a group's share.session.timeout.ms."),
    ConfigKey("group.share.max.size", INT, 200, between(1, 1_000), MEDIUM, READ_ONLY,
        "Maximum number of members in a share group."),
    ConfigKey("group.share.min.assignment.interval.ms", INT, 0, at_least(0), MEDIUM, READ_ONLY,
        "Minimum of a group's share.assignment.interval.ms."),
    ConfigKey("group.share.min.heartbeat.interval.ms", INT, 5_000, at_least(1), MEDIUM, READ_ONLY,
        "Minimum of a group's share.heartbeat.interval.ms."),
    ConfigKey("group.share.min.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, READ_ONLY,
        "Minimum of a group's share.session.timeout.ms."),
    ConfigKey("group.share.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, READ_ONLY,
        "Time without a heartbeat after which a member is removed from its share group."),
    *without_effect(
        ConfigKey("share.coordinator.cached.buffer.max.bytes", INT, 1_048_588, at_least(524_288), MEDIUM,
            CLUSTER_WIDE, "Maximum size of a write buffer that the share coordinator keeps for reuse."),
        ConfigKey("share.coordinator.threads", INT, 1, at_least(1), MEDIUM, READ_ONLY,
            "Threads of the share coordinator."),
        ConfigKey("share.fetch.purgatory.purge.interval.requests", INT, 1_000, None, MEDIUM, READ_ONLY,
            "Number of completed share fetches after which they are purged from the purgatory."),
    ),
)
# fmt: on
