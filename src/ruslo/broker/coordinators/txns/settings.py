"""The machine's settings, from the broker's configuration and the cluster's features."""

from __future__ import annotations

from ruslo.config.broker import BrokerConfig
from ruslo.machines.txns.settings import TxnSettings


def txn_settings(config: BrokerConfig, transaction_version: int) -> TxnSettings:
    return TxnSettings(
        transaction_version=transaction_version,
        max_timeout_ms=config.int("transaction.max.timeout.ms"),
        two_phase_commit=config.bool("transaction.two.phase.commit.enable"),
        abort_retry_interval_ms=config.int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiry_interval_ms=config.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        id_expiration_ms=config.int("transactional.id.expiration.ms"),
    )
