"""The state of one shard: its transactional ids, and its soft state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from itertools import count
from typing import NamedTuple, TypeAlias

from ruslo.machines.machine import Outcome
from ruslo.machines.timers import Timers
from ruslo.machines.txns.cluster_view import ClusterView, NoCluster
from ruslo.machines.txns.events import AllocateProducerId
from ruslo.machines.txns.metadata import TxnMetadata
from ruslo.machines.txns.outcome import TxnOutcome
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.states import TxnState, is_legal
from ruslo.machines.txns.timers import TimerKey
from ruslo.machines.txns.transaction import Transaction, Transition

IdMatcher: TypeAlias = Callable[[str], bool]
CompilePattern: TypeAlias = Callable[[str], IdMatcher]
"""Compiles an RE2 pattern that must match the whole id; raises KafkaError(INVALID_REGULAR_EXPRESSION)."""


class Parked(NamedTuple):
    """A decision that needs a new producer id."""

    token: Hashable | None
    """The token of the waiting request; None: no client waits."""
    resume: Callable[[int], TxnOutcome]
    """Decides from the start, on the state of that time, with this producer id."""


class DelayedRequest(NamedTuple):
    """A request that waits for the completion of a transaction, see ``delayed_requests``."""

    token: Hashable
    resume: Callable[[], TxnOutcome]


class ShardState:
    """The one object that every module of the machine reads and changes."""

    def __init__(
        self, settings: TxnSettings, compile_pattern: CompilePattern, cluster: ClusterView | None = None
    ) -> None:
        self.settings = settings
        self.compile_pattern = compile_pattern
        self.cluster: ClusterView = NoCluster() if cluster is None else cluster
        self.transactions: dict[str, Transaction] = {}
        self.timers: Timers[TimerKey] = Timers()
        self.parked: dict[int, Parked] = {}
        self.delayed: dict[str, list[DelayedRequest]] = {}
        self.expiring: deque[str] = deque()
        """The ids that the current pass over all ids has not checked for expiration yet."""
        self._allocations = count(1)
        self.active = False
        """Whether the shard is loaded. Before that only ``replay`` is called, and there is no soft state."""
        self.coordinator_epoch = -1
        self.now_ms = 0
        """The monotonic time of the current event, for deadlines."""
        self.wall_ms = 0
        """The wall-clock time of the current event, for records and the age of transactions."""

    def begin(
        self, transaction: Transaction, to: TxnMetadata, *, last_epoch: int, fences: bool = False
    ) -> TxnRecord:
        """Start a transition to another state. It takes effect when the record is committed."""
        before = TxnState.PREPARE_EPOCH_FENCE if fences else transaction.metadata.state
        assert transaction.pending is None, f"{transaction.id} has a pending transition already"
        assert is_legal(before, to.state, to.client_version), f"{before.name} to {to.state.name}"
        record = TxnRecord(transaction.id, to, self.settings.value_version)
        transaction.pending = Transition(record, last_epoch, fences)
        return record

    def begin_expiry(self, transaction: Transaction) -> TxnRecord:
        """Start the removal of the transactional id."""
        assert transaction.pending is None, f"{transaction.id} has a pending transition already"
        assert is_legal(transaction.metadata.state, TxnState.DEAD, transaction.metadata.client_version)
        record = TxnRecord(transaction.id, None)
        transaction.pending = Transition(record)
        return record

    def allocate_producer_id(self, token: Hashable | None, resume: Callable[[int], TxnOutcome]) -> TxnOutcome:
        """Decide later, with a new producer id; nothing changes before that."""
        allocation = next(self._allocations)
        self.parked[allocation] = Parked(token, resume)
        return Outcome(effects=[AllocateProducerId(allocation)])
