"""What one shard knows: its transactional ids, and the little beside them that no record holds."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count
from typing import NamedTuple, TypeAlias

from ruslo.machines.timers import Timers
from ruslo.machines.txns.cluster_view import ClusterView, NoCluster
from ruslo.machines.txns.decision import Decision
from ruslo.machines.txns.events import WantProducerId
from ruslo.machines.txns.metadata import NO_EPOCH, TxnMetadata
from ruslo.machines.txns.record_bytes import state_bytes, tombstone_bytes
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.states import TxnState, is_legal
from ruslo.machines.txns.timers import TimerKey
from ruslo.machines.txns.transaction import Transaction, Transition

IdMatcher: TypeAlias = Callable[[str], bool]
CompilePattern: TypeAlias = Callable[[str], IdMatcher]
"""RE2, whole match. Raises KafkaError(INVALID_REGULAR_EXPRESSION) for what is no pattern."""


class Parked(NamedTuple):
    """Something that needs a new producer id before it can be decided."""

    token: Hashable | None
    """Whom to answer; None: nobody waits."""
    resume: Callable[[int], Decision]
    """Decides from the beginning, on the state of that moment, with this producer id at hand."""


class Held(NamedTuple):
    """A request that waits for the end of a transaction, see ``holding``."""

    token: Hashable
    resume: Callable[[], Decision]


class ShardState:
    """Every part of the machine works on this one object."""

    __slots__ = (
        "_ask_ids",
        "active",
        "cluster",
        "compile_pattern",
        "coordinator_epoch",
        "held",
        "now_ms",
        "parked",
        "settings",
        "timers",
        "transactions",
        "wall_ms",
    )

    def __init__(
        self, settings: TxnSettings, compile_pattern: CompilePattern, cluster: ClusterView | None = None
    ) -> None:
        self.settings = settings
        self.compile_pattern = compile_pattern
        self.cluster: ClusterView = NoCluster() if cluster is None else cluster
        self.transactions: dict[str, Transaction] = {}
        self.timers: Timers[TimerKey] = Timers()
        self.parked: dict[int, Parked] = {}
        self.held: dict[str, list[Held]] = {}
        self._ask_ids = count(1)
        self.active = False
        """Loaded and leading. Before that ``replay`` alone is called, and nothing soft exists."""
        self.coordinator_epoch = -1
        self.now_ms = 0
        """Of the event under way: for deadlines."""
        self.wall_ms = 0
        """Of the event under way: what goes into records, and what transactions are timed by."""

    def begin(
        self, transaction: Transaction, to: TxnMetadata, *, last_epoch: int, fences: bool = False
    ) -> Transition:
        """Set out for another state. It counts when the record is committed."""
        before = TxnState.PREPARE_EPOCH_FENCE if fences else transaction.metadata.state
        assert transaction.pending is None, f"{transaction.id} is on its way to another state already"
        assert is_legal(before, to.state, to.client_version), f"{before.name} to {to.state.name}"
        record = state_bytes(transaction.id, to, self.settings.value_version)
        transaction.pending = Transition(transaction, to, record, last_epoch, fences)
        return transaction.pending

    def begin_end(self, transaction: Transaction) -> Transition:
        """Set out to forget the id."""
        assert transaction.pending is None, f"{transaction.id} is on its way to another state already"
        assert is_legal(transaction.metadata.state, TxnState.DEAD, transaction.metadata.client_version)
        transaction.pending = Transition(transaction, None, tombstone_bytes(transaction.id), NO_EPOCH)
        return transaction.pending

    def want_producer_id(self, token: Hashable | None, resume: Callable[[int], Decision]) -> Decision:
        """Nothing changes until there is one."""
        ask_id = next(self._ask_ids)
        self.parked[ask_id] = Parked(token, resume)
        return Decision(asks=(WantProducerId(ask_id),))
