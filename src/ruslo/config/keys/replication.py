"""Replication, leadership and tiered storage's place in it."""

from ruslo.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    MEDIUM,
    READ_ONLY,
    STRING,
    ConfigKey,
    without_effect,
)
from ruslo.config.validators import at_least

# fmt: off
REPLICATION_KEYS = (
    ConfigKey("replica.fetch.backoff.ms", INT, 1_000, at_least(0), MEDIUM, READ_ONLY,
        "Backoff after a failed fetch from the leader."),
    ConfigKey("replica.fetch.max.bytes", INT, 1_048_576, at_least(0), MEDIUM, READ_ONLY,
        "Maximum bytes of one partition in a replica fetch. A larger first batch is still returned."),
    ConfigKey("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "Minimum bytes that the leader collects before it responds to a replica fetch, within "
        "replica.fetch.wait.max.ms."),
    ConfigKey("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0), MEDIUM, READ_ONLY,
        "Maximum bytes of a replica fetch response, over all partitions."),
    ConfigKey("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "Maximum time that the leader delays the response to a replica fetch."),
    ConfigKey("replica.high.watermark.checkpoint.interval.ms", LONG, 5_000, None, HIGH, READ_ONLY,
        "Interval between checkpoints of the high watermarks."),
    ConfigKey("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "Time for which a follower may lag before it is removed from the ISR."),
    ConfigKey("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "Replica selector: chooses the preferred read replica of a consumer (KIP-392)."),
    ConfigKey("replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "Socket timeout of replica fetches."),
    ConfigKey("unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "Interval at which the controller looks for partitions without a leader whose topics allow unclean "
        "leader elections.", internal=True),
    ConfigKey("unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Let a replica outside the ISR become leader if no other replica is available. Records may be lost."),
    ConfigKey("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Move leadership back to preferred leaders in the background."),
    ConfigKey("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH, READ_ONLY,
        "Interval between checks of the leader balance."),
    *without_effect(
        ConfigKey("num.replica.fetchers", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
            "Replica fetcher threads per source broker."),
        ConfigKey("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
            "Threads that move replicas between log directories (default: one per directory)."),
        ConfigKey("replica.socket.receive.buffer.bytes", INT, 65_536, None, HIGH, READ_ONLY,
            "SO_RCVBUF of replica fetch connections."),
        ConfigKey("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
            "Let a new follower start at the last tiered offset instead of the log start offset."),
    ),
)
# fmt: on
