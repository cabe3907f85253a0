"""Replication, leadership and tiered storage's place in it."""

from __future__ import annotations

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
)
from ruslo.config.validators import at_least

# fmt: off
REPLICATION_KEYS = (
    ConfigKey("num.replica.fetchers", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "Fetcher threads for each broker this one copies from."),
    ConfigKey("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
        "Threads that move replicas between directories; one a directory when unset."),
    ConfigKey("replica.fetch.backoff.ms", INT, 1_000, at_least(0), MEDIUM, READ_ONLY,
        "Pause after a failed fetch from the leader."),
    ConfigKey("replica.fetch.max.bytes", INT, 1_048_576, at_least(0), MEDIUM, READ_ONLY,
        "Bytes fetched of one partition in a request; a larger first batch still comes through."),
    ConfigKey("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "Bytes a leader gathers before it answers a follower, within replica.fetch.wait.max.ms."),
    ConfigKey("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0), MEDIUM, READ_ONLY,
        "Bytes fetched in one request, all partitions together."),
    ConfigKey("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "How long a leader may hold back an answer to a follower."),
    ConfigKey("replica.high.watermark.checkpoint.interval.ms", LONG, 5_000, None, HIGH, READ_ONLY,
        "How often high watermarks are written down."),
    ConfigKey("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "How long a follower may lag before it leaves the in-sync set."),
    ConfigKey("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "Chooses the replica a consumer should read from (KIP-392)."),
    ConfigKey("replica.socket.receive.buffer.bytes", INT, 65_536, None, HIGH, READ_ONLY,
        "SO_RCVBUF of a follower's connection to the leader."),
    ConfigKey("replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "Socket timeout of a follower's requests."),
    ConfigKey("unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Let a replica outside the in-sync set lead when no other is left; records may be lost."),
    ConfigKey("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Give leadership back to preferred replicas in the background."),
    ConfigKey("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH, READ_ONLY,
        "How often the balance of leaders is checked."),
    ConfigKey("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Let a new follower start at the last tiered offset instead of the log start."),
)
# fmt: on
