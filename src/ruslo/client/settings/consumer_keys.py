"""Settings that consumers alone have."""

from __future__ import annotations

from ruslo.client.settings.setting import IGNORED, OURS, REFUSED, SAME, TRANSLATED, setting
from ruslo.config.definition import BOOLEAN, CLASS, INT, LIST, REQUIRED, STRING
from ruslo.config.validators import Items, NotBlank, OffsetReset, OneOf, at_least

# fmt: off
CONSUMER_KEYS = (
    setting("allow.auto.create.topics", BOOLEAN, True, None, SAME,
        "Whether asking for a topic that does not exist may create it."),
    setting("auto.commit.interval.ms", INT, 5000, at_least(0), SAME,
        "Time between two automatic commits."),
    setting("auto.offset.reset", STRING, "latest", OffsetReset("none", ages=False), TRANSLATED,
        "Where to begin without a committed offset. by_duration is refused: look the offsets up with "
        "offsets_for_times and seek."),
    setting("check.crcs", BOOLEAN, True, None, SAME,
        "Whether the checksum of what was fetched is verified."),
    setting("client.rack", STRING, "", None, SAME,
        "Where the client runs; reads may then come from a replica there."),
    setting("default.api.timeout.ms", INT, 60_000, at_least(0), OURS,
        "Time limit of calls that ask a broker, unless the call names one."),
    setting("enable.auto.commit", BOOLEAN, True, None, OURS,
        "Offsets of records whose processing is over (the next ones were asked for) are committed by "
        "themselves."),
    setting("exclude.internal.topics", BOOLEAN, True, None, IGNORED,
        "A pattern may match internal topics: write it so that it does not."),
    setting("fetch.max.bytes", INT, 52_428_800, at_least(0), SAME,
        "Most bytes of an answer to a fetch."),
    setting("fetch.max.wait.ms", INT, 500, at_least(0), TRANSLATED, "fetch.wait.max.ms",
        "How long a broker may wait for fetch.min.bytes."),
    setting("fetch.min.bytes", INT, 1, at_least(0), TRANSLATED,
        "What a broker gathers before it answers a fetch; 0 counts as 1."),
    setting("group.id", STRING, None, None, SAME,
        "The consumer group; without it partitions are assigned by hand and nothing is committed."),
    setting("group.instance.id", STRING, None, NotBlank(), SAME,
        "The member's own name (static membership): a quick restart causes no rebalance."),
    setting("group.protocol", STRING, "classic", OneOf("CONSUMER", "CLASSIC", ignore_case=True), TRANSLATED,
        "classic, or consumer (KIP-848), where the broker assigns."),
    setting("group.remote.assignor", STRING, None, None, SAME,
        "The broker's assignor for group.protocol=consumer."),
    setting("heartbeat.interval.ms", INT, 3000, None, SAME,
        "Time between heartbeats; classic protocol only."),
    setting("isolation.level", STRING, "read_uncommitted", OneOf("read_committed", "read_uncommitted"), SAME,
        "read_committed hides records of open and aborted transactions."),
    setting("key.deserializer", CLASS, REQUIRED, None, REFUSED,
        "pass key_deserializer=, a callable."),
    setting("max.partition.fetch.bytes", INT, 1_048_576, at_least(0), TRANSLATED,
        "Most bytes of one partition in a fetch; 0 counts as 1."),
    setting("max.poll.interval.ms", INT, 300_000, at_least(1), SAME,
        "Longest time between polls before the member is taken for stuck."),
    setting("max.poll.records", INT, 500, at_least(1), OURS,
        "Most records that poll returns."),
    setting("partition.assignment.strategy", LIST, ("org.apache.kafka.clients.consumer.RangeAssignor",
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"), Items(), TRANSLATED,
        "range, roundrobin or cooperative-sticky, or the names of Java's classes for them."),
    setting("receive.buffer.bytes", INT, 65_536, at_least(-1), TRANSLATED, "socket.receive.buffer.bytes",
        "The socket's buffer; -1 leaves it to the system."),
    setting("session.timeout.ms", INT, 45_000, None, SAME,
        "Silence after which a member is dropped; classic protocol only."),
    setting("share.acknowledgement.mode", STRING, "implicit", OneOf("implicit", "explicit"), REFUSED,
        "share groups have no consumer here yet."),
    setting("share.acquire.mode", STRING, "BATCH_OPTIMIZED", OneOf("batch_optimized", "record_limit"),
        REFUSED,
        "share groups have no consumer here yet."),
    setting("value.deserializer", CLASS, REQUIRED, None, REFUSED,
        "pass value_deserializer=, a callable."),
)
