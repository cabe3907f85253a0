"""Idempotent producers and the transaction coordinator."""

from __future__ import annotations

from ruslo.config.definition import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LOW, READ_ONLY, SHORT, ConfigKey
from ruslo.config.validators import at_least

# fmt: off
TRANSACTION_KEYS = (
    ConfigKey("producer.id.expiration.ms", INT, 86_400_000, at_least(1), LOW, CLUSTER_WIDE,
        "Silence after which the state of an idempotent producer is forgotten."),
    ConfigKey("producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), LOW, READ_ONLY,
        "How often the states of producers that expired are removed.", internal=True),
    ConfigKey("transactional.id.expiration.ms", INT, 604_800_000, at_least(1), HIGH, READ_ONLY,
        "Silence after which a transactional id is forgotten."),
    ConfigKey("transaction.max.timeout.ms", INT, 900_000, at_least(1), HIGH, READ_ONLY,
        "Longest transaction timeout a producer may ask for."),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, at_least(1), LOW,
        READ_ONLY,
        "Pause before an abort that could not be written is repeated; else it comes when the time is up."),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, at_least(1),
        LOW, READ_ONLY,
        "How often expired transactional ids are removed."),
    ConfigKey("transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Check with the coordinator that a partition belongs to the transaction (KIP-890)."),
    ConfigKey("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Allow producers to take part in a two-phase commit (KIP-939)."),
    ConfigKey("transaction.state.log.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "Partitions of __transaction_state; fixed once the topic exists."),
    ConfigKey("transaction.state.log.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "Replicas of __transaction_state."),
    ConfigKey("transaction.state.log.min.isr", INT, 2, at_least(1), HIGH, READ_ONLY,
        "In-sync replicas a write to __transaction_state needs."),
    ConfigKey("transaction.state.log.segment.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Segment size of __transaction_state."),
    ConfigKey("transaction.state.log.load.buffer.size", INT, 5_242_880, at_least(1), HIGH, READ_ONLY,
        "Bytes read at a time when transactions are loaded."),
    ConfigKey("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), HIGH, READ_ONLY,
        "First pause of the broker's own retries of AddPartitionsToTxn."),
    ConfigKey("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0), HIGH, READ_ONLY,
        "How long the broker itself retries AddPartitionsToTxn."),
)
# fmt: on
