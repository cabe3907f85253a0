"""The machine of one partition of ``__transaction_state``: every transactional id that falls there.

The driver's part:

- before leading: ``replay`` every record of the log, in order, and when the high watermark has reached what
  was replayed ``handle(Loaded(leader epoch))``: a decision must be safe before its markers are sent;
- for each event: ``handle`` it, append the records of the transitions that the outcome names as one batch
  (outcomes may share one, in their order), send what it sends, get what it asks for;
- when appends have committed: release their replies and call ``append_committed`` with their outcomes. Only
  now do their states change (the records need no ``replay``), and what follows is another outcome: markers,
  and completions;
- if an append fails, or is not committed in time: drop the outcome's replies and call ``append_failed`` with
  it instead; the replies of that outcome go out at once;
- when leadership ends: ``append_failed`` for what is under way, ``handle(Unloaded())``, and throw the shard
  away.

Whatever the order in which appends settle, an id has at most one of them under way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ruslo.machines.outcome import Reply
from ruslo.machines.txns import (
    add_offsets,
    add_partitions,
    admin,
    end_txn,
    holding,
    init_producer,
    timeouts,
)
from ruslo.machines.txns.cluster_view import ClusterView
from ruslo.machines.txns.decision import BYTES_PER_STEP, Answer, Decision, TxnReply, answer, refuse
from ruslo.machines.txns.events import (
    ClusterChanged,
    Loaded,
    MarkersAnswered,
    ProducerIdGiven,
    Requested,
    RequestInfo,
    TimerFired,
    TxnEvent,
)
from ruslo.machines.txns.markers import Markers
from ruslo.machines.txns.records import TxnRecord, state_of
from ruslo.machines.txns.refusals import append_error
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

TIMERS_PER_STEP = 64
"""Many transactions may time out in the same moment; the loop must not stand still for all of them."""


class TxnShard:
    def __init__(
        self, settings: TxnSettings, compile_pattern: CompilePattern, cluster: ClusterView | None = None
    ) -> None:
        self.state = ShardState(settings, compile_pattern, cluster)
        self._markers = Markers()

    def change_settings(self, settings: TxnSettings) -> None:
        """From the next event on; deadlines that are set stay as they are."""
        self.state.settings = settings

    def replay(self, record: TxnRecord) -> None:
        """Take in one record while the partition is loaded.

        Raises CorruptLogError if nobody could make sense of it; the partition must not be led then.
        """
        transactional_id = record.key.transactional_id
        if record.value is None:
            self.state.transactions.pop(transactional_id, None)
        else:
            self.state.transactions[transactional_id] = Transaction(transactional_id, state_of(record.value))

    def handle(self, event: TxnEvent, now_ms: int, wall_ms: int) -> Decision:
        """``now_ms``: monotonic, for deadlines. ``wall_ms``: for records and the age of transactions."""
        state = self.state
        state.now_ms, state.wall_ms = now_ms, wall_ms
        if isinstance(event, Requested):
            if not state.active:
                lost = KafkaError(ErrorCode.NOT_COORDINATOR, "this node does not lead the id's partition")
                return answer(event.token, lost)
            return self._answer(event.request, event.context, event.token)
        if isinstance(event, MarkersAnswered):
            return self._markers.answered(state, event)
        if isinstance(event, Loaded):
            return self._load(event)
        if isinstance(event, ClusterChanged):
            state.cluster = event.view
            return self._markers.retry(state)
        if isinstance(event, ProducerIdGiven):
            return self._resume(event)
        if isinstance(event, TimerFired):
            return self._fire()
        return self._unload()

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """What a leader on this node would be answered that asks whether a partition was added (KIP-890).

        Nothing changes by it, so that it needs no event.
        """
        return add_partitions.verify_one(
            self.state,
            transactional_id,
            producer_id,
            epoch,
            partition,
            add_partitions.SEVERAL_TRANSACTIONS_FROM,
        )

    def append_committed(self, outcomes: Iterable[Decision], now_ms: int, wall_ms: int) -> Decision:
        """The records of these outcomes are safe. Given together they need fewer requests for markers."""
        state = self.state
        state.now_ms, state.wall_ms = now_ms, wall_ms
        decided: list[Transaction] = []
        awaited: list[str] = []
        for transition in self._settled(outcomes):
            transaction = transition.transaction
            transaction.pending = None
            if transition.to is None:
                del state.transactions[transaction.id]
                continue
            transaction.metadata = transition.to
            transaction.last_epoch = transition.last_epoch
            transaction.fence_failed = False
            if transition.to.state is TxnState.ONGOING:
                timeouts.watch(state, transaction)
            elif transition.to.state in PREPARED:
                transaction.late_from_ms = None
                decided.append(transaction)
            elif transaction.id in state.held:
                awaited.append(transaction.id)
        decision = self._markers.complete(state, decided) if decided else Decision()
        for transactional_id in awaited:
            decision.add(holding.resume(state, transactional_id))
        return decision

    def append_failed(self, outcome: Decision, code: ErrorCode, now_ms: int, wall_ms: int) -> Decision:
        """The outcome's records were not written, or not committed in time. Its own replies must be dropped.

        ``code``: what the log said, or REQUEST_TIMED_OUT. In that case the records may turn up in the log all
        the same; whatever is decided next is written behind them, and until then nobody acted on them.
        """
        state = self.state
        state.now_ms, state.wall_ms = now_ms, wall_ms
        for transition in self._settled((outcome,)):
            transaction = transition.transaction
            if transaction.metadata.state in PREPARED:
                self._markers.write_again(state, transition)
                continue
            transaction.pending = None
            if not transaction.exists:
                del state.transactions[transaction.id]
                continue
            transaction.fence_failed |= transition.fences
            timeouts.watch_failed(state, transaction)
        told = append_error(code)
        instead: Answer = KafkaError(told, f"the transaction's record could not be written: {code.name}")
        if outcome.on_failure is not None:
            instead = outcome.on_failure(told)
        return Decision(replies=[Reply(reply.token, instead) for reply in outcome.replies])

    def deadline_ms(self) -> int | None:
        """When ``TimerFired`` is due, on the clock of ``now_ms``."""
        return self.state.timers.deadline_ms()

    # -- events ----------------------------------------------------------------------------------------------

    def _settled(self, outcomes: Iterable[Decision]) -> Iterable[Transition]:
        """What these outcomes had under way, unless the shard has been unloaded since."""
        for outcome in outcomes:
            for transition in outcome.transitions:
                if transition.transaction.pending is transition:
                    yield transition

    def _load(self, event: Loaded) -> Decision:
        state = self.state
        state.active = True
        state.coordinator_epoch = event.coordinator_epoch
        timeouts.start_expiry(state)
        for transaction in state.transactions.values():
            timeouts.watch(state, transaction)
        decided = [each for each in state.transactions.values() if each.metadata.state in PREPARED]
        return self._markers.complete(state, decided)

    def _unload(self) -> Decision:
        state = self.state
        state.active = False
        state.timers.clear()
        self._markers.clear()
        for transaction in state.transactions.values():
            transaction.pending = None
        state.transactions.clear()
        lost = KafkaError(ErrorCode.NOT_COORDINATOR, "another node leads the id's partition now")
        replies: list[TxnReply] = [
            Reply(parked.token, lost) for parked in state.parked.values() if parked.token is not None
        ]
        replies += [Reply(held.token, lost) for waiting in state.held.values() for held in waiting]
        state.parked.clear()
        state.held.clear()
        return Decision(replies=replies)

    def _resume(self, event: ProducerIdGiven) -> Decision:
        parked = self.state.parked.pop(event.ask_id, None)
        if parked is None:
            return Decision()
        if event.producer_id is not None:
            return parked.resume(event.producer_id)
        if parked.token is None:
            return Decision()
        return refuse(parked.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _fire(self) -> Decision:
        state, decision = self.state, Decision()
        size = 0
        for _ in range(TIMERS_PER_STEP):
            key = state.timers.pop_due(state.now_ms) if size < BYTES_PER_STEP else None
            if key is None:
                break
            match key.kind:
                case TimerKind.ABORT:
                    fired = timeouts.abort_if_late(state, key.transactional_id)
                case TimerKind.RETRY:
                    fired = self._markers.retry(state)
                case TimerKind.EXPIRY:
                    # If there is more to forget it is due at once, but in a batch of its own.
                    return decision.add(timeouts.expire_ids(state))
                case TimerKind.HELD:
                    fired = holding.give_up(state, key.transactional_id)
            size += sum(transition.size for transition in fired.transitions)
            decision.add(fired)
        return decision

    # -- requests --------------------------------------------------------------------------------------------

    def _answer(self, request: Message, info: RequestInfo, token: Hashable) -> Decision:
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
                    return answer(token, admin.list_transactions(state, request))
                except KafkaError as error:
                    return answer(token, error)
            case DescribeTransactionsRequest():
                return answer(token, admin.describe_transactions(state, request))
        unsupported = f"{type(request).__name__} is not served by transaction coordinators"
        return answer(token, KafkaError(ErrorCode.UNSUPPORTED_VERSION, unsupported))
