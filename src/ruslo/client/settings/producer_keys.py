"""Settings of producers only."""

from __future__ import annotations

from ruslo.client.settings.setting import IGNORED, OURS, REFUSED, SAME, TRANSLATED, setting
from ruslo.config.definition import BOOLEAN, CLASS, INT, LONG, REQUIRED, STRING
from ruslo.config.validators import NOT_BLANK, OneOf, Range, at_least, between

# fmt: off
PRODUCER_KEYS = (
    setting("acks", STRING, "all", OneOf("all", "-1", "0", "1"), SAME,
        "Which replicas must have a record before it is acknowledged."),
    setting("batch.size", INT, 16_384, at_least(0), TRANSLATED,
        "Most bytes of a batch; 0 sends each record separately. librdkafka's default is 1,000,000."),
    setting("buffer.memory", LONG, 33_554_432, at_least(0), OURS,
        "Most bytes of records that are not acknowledged; beyond that, send blocks."),
    setting("compression.gzip.level", INT, -1, Range(1, 9, also=-1), TRANSLATED, "compression.level",
        "Compression level of gzip."),
    setting("compression.lz4.level", INT, 9, between(1, 17), TRANSLATED, "compression.level",
        "Compression level of lz4; librdkafka supports levels up to 12."),
    setting("compression.type", STRING, "none", OneOf("none", "gzip", "snappy", "lz4", "zstd"), SAME,
        "How batches are compressed."),
    setting("compression.zstd.level", INT, 3, between(-131072, 22), TRANSLATED, "compression.level",
        "Compression level of zstd; librdkafka supports levels 0 to 12."),
    setting("delivery.timeout.ms", INT, 120_000, at_least(0), TRANSLATED,
        "Time for a record to be acknowledged, retries included; must cover linger.ms + request.timeout.ms."),
    setting("enable.idempotence", BOOLEAN, True, None, SAME,
        "Retries neither duplicate nor reorder records. Off by default if acks is weaker than all."),
    setting("key.serializer", CLASS, REQUIRED, None, REFUSED,
        "pass key_serializer=, a callable."),
    setting("linger.ms", LONG, 5, at_least(0), SAME,
        "How long a record may wait for others to share its batch."),
    setting("max.block.ms", LONG, 60_000, at_least(0), OURS,
        "How long send waits for buffer memory or metadata, and transactional calls for their response."),
    setting("max.in.flight.requests.per.connection", INT, 5, at_least(1), SAME,
        "Most requests without a response; at most 5 with idempotence."),
    setting("max.request.size", INT, 1_048_576, at_least(0), OURS,
        "Largest record; send rejects a larger one."),
    setting("metadata.max.idle.ms", LONG, 300_000, at_least(5000), IGNORED,
        "librdkafka expires topics by its own rule."),
    setting("partitioner.adaptive.partitioning.enable", BOOLEAN, True, None, IGNORED,
        "librdkafka's partitioners do not consider queue lengths."),
    setting("partitioner.availability.timeout.ms", LONG, 0, at_least(0), IGNORED,
        "librdkafka's partitioners do not consider queue lengths."),
    setting("partitioner.class", CLASS, None, None, OURS,
        "RoundRobinPartitioner; for others pass partitioner=, a callable. By default keys are hashed with "
        "murmur2, and records without keys go to one partition per batch."),
    setting("partitioner.ignore.keys", BOOLEAN, False, None, TRANSLATED,
        "Distribute records with keys at random, too."),
    setting("receive.buffer.bytes", INT, 32_768, at_least(-1), TRANSLATED, "socket.receive.buffer.bytes",
        "Socket buffer; -1 for the system's default."),
    setting("retries", INT, 2_147_483_647, between(0, 2147483647), SAME,
        "Most retries of a failed request; delivery.timeout.ms is the better limit."),
    setting("transaction.timeout.ms", INT, 60_000, None, SAME,
        "Longest duration of a transaction before the coordinator aborts it."),
    setting("transaction.two.phase.commit.enable", BOOLEAN, False, None, REFUSED,
        "remove it; librdkafka does not support two-phase commit."),
    setting("transactional.id", STRING, None, NOT_BLANK, SAME,
        "Enables transactions and fences older producers with the same id."),
    setting("value.serializer", CLASS, REQUIRED, None, REFUSED,
        "pass value_serializer=, a callable."),
)
