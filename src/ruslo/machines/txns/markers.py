"""Markers: how the partitions of a decided transaction hear of it (WriteTxnMarkers v1-2).

A completion begins when Prepare* is committed, or found in the log by a new coordinator. It sends one request
to each node that leads partitions of the transactions at hand, and ends with the Complete* record.

| answer for a partition                                 | then                            |
|--------------------------------------------------------|---------------------------------|
| NONE                                                   | done                            |
| INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED | a newer epoch rules there: stop |
| any other error, no answer, no leader                  | again, at whoever leads it then |
| the partition does not exist any more                  | done                            |

A transaction whose markers were stopped stays Prepare* until the shard is loaded again, by this node or
another, under a newer coordinator epoch.

A marker may thus be written twice, but never two different ones: a decision does not change, and the next
transaction of the id cannot begin before this one is complete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from ruslo.machines.txns.cluster_view import NO_LEADER
from ruslo.machines.txns.decision import BYTES_PER_STEP, Decision
from ruslo.machines.txns.end_txn import complete
from ruslo.machines.txns.events import MarkersAnswered, MarkerSend
from ruslo.machines.txns.marker_requests import EndMarker
from ruslo.machines.txns.metadata import TxnMetadata
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import TxnState
from ruslo.machines.txns.timers import TimerKey, TimerKind
from ruslo.machines.txns.transaction import Transaction, Transition
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition

_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_RETRY = TimerKey(TimerKind.RETRY)


@dataclass(slots=True, eq=False)
class _Completion:
    """A decided transaction whose partitions are being told."""

    prepared: TxnMetadata
    transition: Transition
    left: set[TopicPartition]
    """Not known to have the marker."""
    unsent: set[TopicPartition] = field(default_factory=set)
    """Of those: not on their way either."""
    stopped: bool = False


class Markers:
    def __init__(self) -> None:
        self._send_ids = count(1)
        self._in_flight: dict[int, list[tuple[_Completion, list[TopicPartition]]]] = {}
        self._unsent: dict[str, _Completion] = {}
        self._unwritten: dict[str, Transition] = {}
        """Complete, but the log refused the record."""

    def complete(self, state: ShardState, transactions: Iterable[Transaction]) -> Decision:
        """Their ends are decided: tell all partitions."""
        begun: list[_Completion] = []
        for transaction in transactions:
            prepared = transaction.metadata
            transition = state.begin(
                transaction, complete(prepared, state.wall_ms), last_epoch=transaction.last_epoch
            )
            begun.append(
                _Completion(prepared, transition, set(prepared.partitions), set(prepared.partitions))
            )
        return self._send(state, begun)

    def answered(self, state: ShardState, event: MarkersAnswered) -> Decision:
        completed: list[Transition] = []
        stopped: list[str] = []
        codes = {} if event.codes is None else event.codes
        for completion, partitions in self._in_flight.pop(event.send_id, ()):
            if completion.stopped:
                continue
            producer_id = completion.prepared.producer_id
            told = [codes.get((producer_id, partition)) for partition in partitions]
            if not _FENCED.isdisjoint(told):
                completion.stopped = True
                self._unsent.pop(completion.transition.transaction.id, None)
                stopped.append(completion.transition.transaction.id)
                continue
            for partition, code in zip(partitions, told, strict=True):
                if code == ErrorCode.NONE:
                    completion.left.discard(partition)
                else:
                    completion.unsent.add(partition)
            self._settle(state, completion, completed)
        return Decision(completed, stopped=stopped)

    def retry(self, state: ShardState) -> Decision:
        """What did not get through, again; after a while, or because leaders changed."""
        unsent, self._unsent = self._unsent, {}
        decision = self._send(state, unsent.values())
        unwritten: list[Transition] = []
        size = 0
        while self._unwritten and size < BYTES_PER_STEP:
            transition = self._unwritten.pop(next(iter(self._unwritten)))
            unwritten.append(transition)
            size += transition.size
        if self._unwritten:
            state.timers.set(_RETRY, state.now_ms)
        return decision.add(Decision(unwritten))

    def write_again(self, state: ShardState, transition: Transition) -> None:
        """The record that ends a completion could not be written. Nothing else can follow Prepare*."""
        self._unwritten[transition.transaction.id] = transition
        state.timers.set_once(_RETRY, state.now_ms + state.settings.retry_backoff_ms)

    def clear(self) -> None:
        self._in_flight.clear()
        self._unsent.clear()
        self._unwritten.clear()

    def _send(self, state: ShardState, completions: Iterable[_Completion]) -> Decision:
        completed: list[Transition] = []
        sends: list[MarkerSend] = []
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
                    completion.left.discard(partition)
                else:
                    of_node[leader].append(partition)
            for node, partitions in of_node.items():
                by_node[node].append((completion, partitions))
            self._settle(state, completion, completed)
        for node, parts in by_node.items():
            send_id = next(self._send_ids)
            self._in_flight[send_id] = parts
            sends.append(MarkerSend(node, [_marker(state, *part) for part in parts], send_id))
        return Decision(completed, sends=sends)

    def _settle(self, state: ShardState, completion: _Completion, completed: list[Transition]) -> None:
        """Is it done, or is there something to come back to?"""
        if not completion.left:
            completed.append(completion.transition)
        elif completion.unsent:
            self._unsent[completion.transition.transaction.id] = completion
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
