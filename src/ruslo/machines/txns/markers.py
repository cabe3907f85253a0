"""Markers: how a coordinator completes a prepared transaction (WriteTxnMarkers v1-2).

A completion starts when Prepare* is committed, or when a new coordinator loads it from the log. It sends one
request to each node that leads partitions of the prepared transactions, and ends with the Complete* record.

| response for a partition                               | action                                        |
|--------------------------------------------------------|-----------------------------------------------|
| NONE                                                   | the partition is done                         |
| INVALID_PRODUCER_EPOCH                                 | the partition is done, see below              |
| TRANSACTION_COORDINATOR_FENCED                         | stop: the partition knows a newer coordinator |
| any other error, no response, no leader                | retry with the leader of that time            |
| the partition was deleted                              | the partition is done                         |

A partition that knows a newer epoch of the producer has nothing open of the prepared transaction. It happens
only after ``__transaction_state`` lost committed records. Apache Kafka stops there, and the transactional id
stays Prepare* until the partition of its state has another leader.

A transaction whose coordinator is fenced stays Prepare* until this node or another loads the shard again,
with a newer coordinator epoch.

A marker may be written twice, but two different markers are never written: a prepared transaction does not
change, and the next transaction of the id cannot start before this one is complete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from ruslo.machines.machine import Outcome
from ruslo.machines.txns.cluster_view import NO_LEADER
from ruslo.machines.txns.end_txn import complete
from ruslo.machines.txns.events import MarkersRejected, MarkersResult, SendMarkers, TxnEffect
from ruslo.machines.txns.marker_requests import EndMarker
from ruslo.machines.txns.metadata import TxnMetadata
from ruslo.machines.txns.outcome import MAX_BATCH_BYTES, TxnOutcome
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import TxnState
from ruslo.machines.txns.timers import TimerKey, TimerKind
from ruslo.machines.txns.transaction import Transaction
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition

_DONE = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})
_REJECTED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_RETRY = TimerKey(TimerKind.RETRY)


@dataclass(slots=True, eq=False)
class _Completion:
    """A prepared transaction whose markers are being written."""

    prepared: TxnMetadata
    record: TxnRecord
    """The Complete* record."""
    unmarked: set[TopicPartition]
    """Partitions that are not known to have the marker."""
    unsent: set[TopicPartition] = field(default_factory=set)
    """Unmarked partitions without a request in flight."""
    fenced: bool = False


class Markers:
    def __init__(self) -> None:
        self._send_ids = count(1)
        self._in_flight: dict[int, list[tuple[_Completion, list[TopicPartition]]]] = {}
        self._unsent: dict[str, _Completion] = {}
        self._unwritten: dict[str, TxnRecord] = {}
        """Complete* records whose append failed, by transactional id."""

    def complete(self, state: ShardState, transactions: Iterable[Transaction]) -> TxnOutcome:
        """Send the markers of these prepared transactions."""
        completions: list[_Completion] = []
        for transaction in transactions:
            prepared = transaction.metadata
            record = state.begin(
                transaction, complete(prepared, state.wall_ms), last_epoch=transaction.last_epoch
            )
            completions.append(
                _Completion(prepared, record, set(prepared.partitions), set(prepared.partitions))
            )
        return self._send(state, completions)

    def apply_result(self, state: ShardState, event: MarkersResult) -> TxnOutcome:
        completed: list[TxnRecord] = []
        rejected: list[TxnEffect] = []
        codes = {} if event.codes is None else event.codes
        for completion, partitions in self._in_flight.pop(event.send_id, ()):
            if completion.fenced:
                continue
            producer_id = completion.prepared.producer_id
            results = [codes.get((producer_id, partition)) for partition in partitions]
            rejected += (
                MarkersRejected(completion.record.transactional_id, code)
                for code in _REJECTED
                if code in results
            )
            if ErrorCode.TRANSACTION_COORDINATOR_FENCED in results:
                completion.fenced = True
                self._unsent.pop(completion.record.transactional_id, None)
                continue
            for partition, code in zip(partitions, results, strict=True):
                if code in _DONE:
                    completion.unmarked.discard(partition)
                else:
                    completion.unsent.add(partition)
            self._update(state, completion, completed)
        return Outcome(completed, effects=rejected)

    def retry(self, state: ShardState) -> TxnOutcome:
        """Send and write again what failed, after the retry backoff or because leaders changed."""
        unsent, self._unsent = self._unsent, {}
        outcome = self._send(state, unsent.values())
        unwritten: list[TxnRecord] = []
        size_bytes = 0
        while self._unwritten and size_bytes < MAX_BATCH_BYTES:
            record = self._unwritten.pop(next(iter(self._unwritten)))
            unwritten.append(record)
            size_bytes += record.size_bytes
        if self._unwritten:
            state.timers.set(_RETRY, state.now_ms)
        outcome.append(unwritten)
        return outcome

    def write_again(self, state: ShardState, record: TxnRecord) -> None:
        """Retry the append of a Complete* record: Prepare* has no other successor."""
        self._unwritten[record.transactional_id] = record
        state.timers.set_once(_RETRY, state.now_ms + state.settings.retry_backoff_ms)

    def clear(self) -> None:
        self._in_flight.clear()
        self._unsent.clear()
        self._unwritten.clear()

    def _send(self, state: ShardState, completions: Iterable[_Completion]) -> TxnOutcome:
        completed: list[TxnRecord] = []
        sends: list[TxnEffect] = []
        by_node: defaultdict[int, list[tuple[_Completion, list[TopicPartition]]]] = defaultdict(list)
        leader_of = state.cluster.leader_of
        for completion in completions:
            of_node: defaultdict[int, list[TopicPartition]] = defaultdict(list)
            for partition in sorted(completion.unsent):
                leader = leader_of(*partition)
                if leader == NO_LEADER:
                    continue
                completion.unsent.discard(partition)
                if leader is None:
                    completion.unmarked.discard(partition)
                else:
                    of_node[leader].append(partition)
            for node, partitions in of_node.items():
                by_node[node].append((completion, partitions))
            self._update(state, completion, completed)
        for node, parts in by_node.items():
            send_id = next(self._send_ids)
            self._in_flight[send_id] = parts
            sends.append(SendMarkers(node, [_marker(state, *part) for part in parts], send_id))
        return Outcome(completed, effects=sends)

    def _update(self, state: ShardState, completion: _Completion, completed: list[TxnRecord]) -> None:
        """Write the Complete* record if every partition is marked; else schedule a retry if one is unsent."""
        if not completion.unmarked:
            completed.append(completion.record)
        elif completion.unsent:
            self._unsent[completion.record.transactional_id] = completion
            state.timers.set_once(_RETRY, state.now_ms + state.settings.retry_backoff_ms)


def _marker(state: ShardState, completion: _Completion, partitions: list[TopicPartition]) -> EndMarker:
    prepared = completion.prepared
    return EndMarker(
        prepared.producer_id,
        prepared.epoch,
        prepared.state is TxnState.PREPARE_COMMIT,
        state.coordinator_epoch,
        prepared.client_version,
        partitions,
    )
