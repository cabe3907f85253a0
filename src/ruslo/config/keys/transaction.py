"""Idempotent producers and the transaction coordinator."""

from ruslo.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LOW,
    READ_ONLY,
    SHORT,
    ConfigKey,
)
from ruslo.config.validators import at_least

# fmt: off
TRANSACTION_KEYS = (
    ConfigKey("producer.id.expiration.ms", INT, 86_400_000, at_least(1), LOW, CLUSTER_WIDE,
        "Time without writes after which the state of an idempotent producer expires."),
    ConfigKey("producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), LOW, READ_ONLY,
        "Interval between checks for expired producer IDs.", internal=True),
    ConfigKey("transactional.id.expiration.ms", INT, 604_800_000, at_least(1), HIGH, READ_ONLY,
        "Time without transactions after which a transactional ID expires."),
    ConfigKey("transaction.max.timeout.ms", INT, 900_000, at_least(1), HIGH, READ_ONLY,
        "Maximum transaction timeout of a producer."),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, at_least(1), LOW,
        READ_ONLY,
        "Time before the coordinator retries an abort that it could not write. A transaction is otherwise "
        "aborted as soon as it times out."),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, at_least(1), LOW,
        READ_ONLY, "Interval between checks for expired transactional IDs."),
    ConfigKey("transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Verify with the coordinator that a partition belongs to the transaction (KIP-890)."),
    ConfigKey("transaction.state.log.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "Number of partitions of __transaction_state. It cannot change once the topic exists."),
    ConfigKey("transaction.state.log.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "Replication factor of __transaction_state."),
    ConfigKey("transaction.state.log.min.isr", INT, 2, at_least(1), HIGH, READ_ONLY,
        "Minimum number of in-sync replicas of __transaction_state."),
    ConfigKey("transaction.state.log.segment.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Segment size of __transaction_state."),
    ConfigKey("transaction.state.log.load.buffer.size", INT, 5_242_880, at_least(1), HIGH, READ_ONLY,
        "Bytes per read while transactions are loaded."),
    ConfigKey("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), HIGH, READ_ONLY,
        "Initial backoff of the broker's own AddPartitionsToTxn retries."),
    ConfigKey("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0), HIGH, READ_ONLY,
        "Maximum time for which the broker itself retries AddPartitionsToTxn."),
    ConfigKey("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Allow transactions that do not time out, for two-phase commit (KIP-939); they also need "
        "unstable.api.versions.enable."),
)
# fmt: on
