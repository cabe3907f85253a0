"""The coordinator's settings as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from ruslo.machines.txns.records import PLAIN_VERSION, TAGGED_VERSION
from ruslo.machines.txns.states import TV0, TV2


@dataclass(frozen=True, slots=True)
class TxnSettings:
    transaction_version: int = TV2
    """Finalized level of the feature ``transaction.version``."""
    max_timeout_ms: int = 900_000
    """``transaction.max.timeout.ms``."""
    two_phase_commit: bool = False
    """``transaction.two.phase.commit.enable`` (KIP-939)."""
    abort_retry_interval_ms: int = 10_000
    """``transaction.abort.timed.out.transaction.cleanup.interval.ms``. A transaction is aborted as soon as it
    times out; this is the retry interval of an abort that could not be written."""
    expiry_interval_ms: int = 3_600_000
    """``transaction.remove.expired.transaction.cleanup.interval.ms``."""
    id_expiration_ms: int = 604_800_000
    """``transactional.id.expiration.ms``."""
    retry_backoff_ms: int = 100
    """The delay before a marker, or the Complete* record, is written again."""

    @property
    def value_version(self) -> int:
        return PLAIN_VERSION if self.transaction_version == TV0 else TAGGED_VERSION

    @property
    def fence_version(self) -> int:
        """The transaction version of aborts that the coordinator starts itself."""
        return TV2 if self.transaction_version >= TV2 else TV0

    def supports(self, client_version: int) -> bool:
        """Whether the record format can hold transactions of such a client."""
        return client_version == TV0 or self.value_version >= TAGGED_VERSION
