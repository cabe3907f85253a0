"""The machine of one partition of ``__transaction_state``: every transactional id that hashes to it.

Its records are replayed when they are committed, not when they are appended (ADR 14): a state that is not
committed must not be acted on, and a pending transition blocks the next one of its id. After ``replay`` the
event ``AppendCommitted`` starts what follows: markers, completions, delayed requests. When an append is not
committed in time its records may still commit later; the next decision for the id is written after them.

``Loaded`` must follow only when everything replayed is committed: markers are sent at once for every
transaction that is prepared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from ruslo.machines.machine import (
    MAX_ITEMS_PER_EVENT,
    AppendCommitted,
    AppendFailed,
    Instant,
    Loaded,
    Outcome,
    Reply,
    Requested,
    TimerFired,
)
from ruslo.machines.txns import (
    add_offsets,
    add_partitions,
    admin,
    delayed_requests,
    end_txn,
    init_producer,
    timeouts,
)
from ruslo.machines.txns.cluster_view import ClusterView
from ruslo.machines.txns.errors import append_error
from ruslo.machines.txns.events import (
    ClusterChanged,
    MarkersResult,
    ProducerIdAllocated,
    RequestInfo,
    TxnEffect,
    TxnEvent,
)
from ruslo.machines.txns.markers import Markers
from ruslo.machines.txns.outcome import MAX_BATCH_BYTES, Response, TxnOutcome, reject, respond
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.state import CompilePattern, ShardState
from ruslo.machines.txns.states import PREPARED, TxnState
from ruslo.machines.txns.timers import TimerKind
from ruslo.machines.txns.transaction import Transaction, Transition
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest


class TxnShard:
    def __init__(
        self, settings: TxnSettings, compile_pattern: CompilePattern, cluster: ClusterView | None = None
    ) -> None:
        self.state = ShardState(settings, compile_pattern, cluster)
        self._markers = Markers()

    def change_settings(self, settings: TxnSettings) -> None:
        """Use these settings from the next event on; timers that are set keep their deadlines."""
        self.state.settings = settings

    def handle(self, event: TxnEvent, now: Instant) -> TxnOutcome:
        state = self.state
        state.now_ms, state.wall_ms = now
        if isinstance(event, Requested):
            if not state.active:
                error = KafkaError(ErrorCode.NOT_COORDINATOR, "this node does not lead the id's partition")
                return respond(event.token, error)
            return self._request(event.request, event.context, event.token)
        if isinstance(event, AppendCommitted):
            return self._append_committed(event)
        if isinstance(event, MarkersResult):
            return self._markers.apply_result(state, event)
        if isinstance(event, AppendFailed):
            return self._append_failed(event, now)
        if isinstance(event, ClusterChanged):
            state.cluster = event.view
            return self._markers.retry(state)
        if isinstance(event, ProducerIdAllocated):
            return self._resume(event)
        if isinstance(event, TimerFired):
            return self._fire()
        if isinstance(event, Loaded):
            return self._load(event)
        return self._unload()

    def replay(self, record: TxnRecord, offset: int) -> None:
        """Apply one committed record."""
        transactions, transactional_id = self.state.transactions, record.transactional_id
        if record.metadata is None:
            transactions.pop(transactional_id, None)
        elif transactional_id in transactions:
            transactions[transactional_id].metadata = record.metadata
        else:
            transactions[transactional_id] = Transaction(transactional_id, record.metadata)

    def deadline_ms(self) -> int | None:
        return self.state.timers.deadline_ms()

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """Verify for a leader on this node that the partition is in the ongoing transaction (KIP-890).

        It changes nothing, so it needs no event.
        """
        return add_partitions.verify_one(
            self.state, transactional_id, producer_id, epoch, partition, add_partitions.BATCHED_MIN_VERSION
        )

    # -- events ----------------------------------------------------------------------------------------------

    def _append_committed(self, event: AppendCommitted[TxnRecord, Response, TxnEffect]) -> TxnOutcome:
        state = self.state
        prepared: list[Transaction] = []
        completed: list[str] = []
        for transaction, transition in self._end_transitions(event.outcomes):
            transaction.pending = None
            transaction.last_epoch = transition.last_epoch
            transaction.fence_failed = False
            if transaction.metadata.state is TxnState.ONGOING:
                timeouts.start_timeout(state, transaction)
            elif transaction.metadata.state in PREPARED:
                transaction.deadline_ms = None
                prepared.append(transaction)
            elif transaction.id in state.delayed:
                completed.append(transaction.id)
        outcome = self._markers.complete(state, prepared) if prepared else Outcome()
        for transactional_id in completed:
            outcome.add(delayed_requests.resume(state, transactional_id))
        return outcome

    def _append_failed(self, event: AppendFailed[TxnRecord, Response, TxnEffect], now: Instant) -> TxnOutcome:
        state = self.state
        for transaction, transition in self._end_transitions(event.outcomes):
            if transaction.metadata.state in PREPARED:
                self._markers.write_again(state, transition.record)
                continue
            transaction.pending = None
            if not transaction.exists:
                del state.transactions[transaction.id]
                continue
            transaction.fence_failed |= transition.fences
            timeouts.retry_timeout(state, transaction)
        code = append_error(event.code)
        error = KafkaError(code, f"the transaction's record could not be written: {event.code.name}")
        failed: TxnOutcome = Outcome()
        for outcome in event.outcomes:
            failed.add(outcome.failure(code, error, now))
        return failed

    def _end_transitions(self, outcomes: Iterable[TxnOutcome]) -> Iterator[tuple[Transaction, Transition]]:
        """The pending transitions of these outcomes; none of an id that has expired or is unloaded."""
        for outcome in outcomes:
            for record in outcome.records:
                transaction = self.state.transactions.get(record.transactional_id)
                if transaction is not None:
                    transition = transaction.pending
                    if transition is not None and transition.record is record:
                        yield transaction, transition

    def _load(self, event: Loaded) -> TxnOutcome:
        state = self.state
        state.active = True
        state.coordinator_epoch = event.leader_epoch
        timeouts.start_expiry(state)
        for transaction in state.transactions.values():
            timeouts.start_timeout(state, transaction)
        prepared = [each for each in state.transactions.values() if each.metadata.state in PREPARED]
        return self._markers.complete(state, prepared)

    def _unload(self) -> TxnOutcome:
        state = self.state
        state.active = False
        state.timers.clear()
        self._markers.clear()
        state.transactions.clear()
        state.expiring.clear()
        error = KafkaError(ErrorCode.NOT_COORDINATOR, "another node leads the id's partition now")
        tokens = [parked.token for parked in state.parked.values() if parked.token is not None]
        tokens += [request.token for requests in state.delayed.values() for request in requests]
        state.parked.clear()
        state.delayed.clear()
        return Outcome(replies=[Reply(token, error) for token in tokens])

    def _resume(self, event: ProducerIdAllocated) -> TxnOutcome:
        parked = self.state.parked.pop(event.allocation, None)
        if parked is None:
            return Outcome()
        if event.producer_id is not None:
            return parked.resume(event.producer_id)
        if parked.token is None:
            return Outcome()
        return reject(parked.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _fire(self) -> TxnOutcome:
        state = self.state
        outcome: TxnOutcome = Outcome()
        size_bytes = 0
        for _ in range(MAX_ITEMS_PER_EVENT):
            key = state.timers.pop_due(state.now_ms) if size_bytes < MAX_BATCH_BYTES else None
            if key is None:
                break
            match key.kind:
                case TimerKind.ABORT:
                    fired = timeouts.abort_timed_out(state, key.transactional_id)
                case TimerKind.RETRY:
                    fired = self._markers.retry(state)
                case TimerKind.EXPIRY:
                    # If ids remain, the timer is due again at once, and their records get another batch.
                    return outcome.add(timeouts.expire_ids(state))
                case TimerKind.DELAYED:
                    fired = delayed_requests.expire(state, key.transactional_id)
            size_bytes += sum(record.size_bytes for record in fired.records)
            outcome.add(fired)
        return outcome

    # -- requests --------------------------------------------------------------------------------------------

    def _request(self, request: Message, info: RequestInfo, token: Hashable) -> TxnOutcome:
        state = self.state
        match request:
            case AddPartitionsToTxnRequest():
                return add_partitions.handle(state, request, info, token)
            case EndTxnRequest():
                return end_txn.handle(state, request, info, token)
            case AddOffsetsToTxnRequest():
                return add_offsets.handle(state, request, info, token)
            case InitProducerIdRequest():
                return init_producer.handle(state, request, info, token)
            case ListTransactionsRequest():
                try:
                    return respond(token, admin.list_transactions(state, request))
                except KafkaError as error:
                    return respond(token, error)
            case DescribeTransactionsRequest():
                return respond(token, admin.describe_transactions(state, request))
        unsupported = f"{type(request).__name__} is not served by transaction coordinators"
        return respond(token, KafkaError(ErrorCode.UNSUPPORTED_VERSION, unsupported))
