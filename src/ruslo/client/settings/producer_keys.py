"""Settings that producers alone have."""

from __future__ import annotations

from ruslo.client.settings.setting import IGNORED, OURS, REFUSED, SAME, TRANSLATED, setting
from ruslo.config.definition import BOOLEAN, CLASS, INT, LONG, REQUIRED, STRING
from ruslo.config.validators import NotBlank, OneOf, Range, at_least, between

# fmt: off
PRODUCER_KEYS = (
    setting("acks", STRING, "all", OneOf("all", "-1", "0", "1"), SAME,
        "Who must have a record before it counts as stored."),
    setting("batch.size", INT, 16_384, at_least(0), TRANSLATED,
        "Most bytes of a batch; 0 sends each record by itself. Without a value librdkafka's 1,000,000 "
        "holds."),
    setting("buffer.memory", LONG, 33_554_432, at_least(0), OURS,
        "Bytes of records that wait to be acknowledged; when they are used up, send blocks."),
    setting("compression.gzip.level", INT, -1, Range(1, 9, also=-1), TRANSLATED, "compression.level",
        "Effort of gzip."),
    setting("compression.lz4.level", INT, 9, between(1, 17), TRANSLATED, "compression.level",
        "Effort of lz4; librdkafka knows levels up to 12."),
    setting("compression.type", STRING, "none", OneOf("none", "gzip", "snappy", "lz4", "zstd"), SAME,
        "How batches are compressed."),
    setting("compression.zstd.level", INT, 3, between(-131072, 22), TRANSLATED, "compression.level",
        "Effort of zstd; librdkafka knows levels from 0 to 12."),
    setting("delivery.timeout.ms", INT, 120_000, at_least(0), TRANSLATED,
        "Time for a record to be acknowledged, retries included; must cover linger.ms + request.timeout.ms."),
    setting("enable.idempotence", BOOLEAN, True, None, SAME,
        "Retries neither duplicate nor reorder records; gives way to weaker acks unless set."),
    setting("key.serializer", CLASS, REQUIRED, None, REFUSED,
        "pass key_serializer=, a callable."),
    setting("linger.ms", LONG, 5, at_least(0), SAME,
        "How long a record may wait for others to share its batch."),
    setting("max.block.ms", LONG, 60_000, at_least(0), OURS,
        "How long send waits for room or metadata, and calls of transactions for their answer."),
    setting("max.in.flight.requests.per.connection", INT, 5, at_least(1), SAME,
        "Requests without an answer yet; at most 5 with idempotence."),
    setting("max.request.size", INT, 1_048_576, at_least(0), OURS,
        "Largest record; send refuses a greater one."),
    setting("metadata.max.idle.ms", LONG, 300_000, at_least(5000), IGNORED,
        "librdkafka forgets topics by a rule of its own."),
    setting("partitioner.adaptive.partitioning.enable", BOOLEAN, True, None, IGNORED,
        "librdkafka's choice of a partition does not look at queues."),
    setting("partitioner.availability.timeout.ms", LONG, 0, at_least(0), IGNORED,
        "librdkafka's choice of a partition does not look at queues."),
    setting("partitioner.class", CLASS, None, None, OURS,
        "RoundRobinPartitioner; for any other pass partitioner=, a callable. Without it keys are hashed "
        "with murmur2, and records without keys stick to a partition for a batch."),
    setting("partitioner.ignore.keys", BOOLEAN, False, None, TRANSLATED,
        "Spread records with keys at random as well."),
    setting("receive.buffer.bytes", INT, 32_768, at_least(-1), TRANSLATED, "socket.receive.buffer.bytes",
        "The socket's buffer; -1 leaves it to the system."),
    setting("retries", INT, 2_147_483_647, between(0, 2147483647), SAME,
        "How often a failed request is sent again; delivery.timeout.ms is the better limit."),
    setting("transaction.timeout.ms", INT, 60_000, None, SAME,
        "Longest life of a transaction before the broker aborts it."),
    setting("transaction.two.phase.commit.enable", BOOLEAN, False, None, REFUSED,
        "librdkafka cannot prepare a transaction for a second phase."),
    setting("transactional.id", STRING, None, NotBlank(), SAME,
        "Makes transactions possible, and fences older producers of the same id."),
    setting("value.serializer", CLASS, REQUIRED, None, REFUSED,
        "pass value_serializer=, a callable."),
)
