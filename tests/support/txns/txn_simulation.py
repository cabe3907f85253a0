"""A transaction shard under random faults: requests arrive late, twice and out of order, appends fail or are
not committed in time, markers are lost before or after they are written, leaders and coordinators move.

All randomness comes from one seed. Each step checks the invariants:

- *prepared is final*: after a committed Prepare*, its markers and its completion have the same result;
- *complete means marked*: a transaction is complete when every partition has its marker, not before;
- *markers are right*: producer id, epoch, result and version are those of Prepare*, the coordinator epoch is
  the current one, and no leader rejects one;
- *epochs increase*: of an id's committed states, and a new producer gets an unused epoch;
- *responses are right*: an EndTxn of version 2 that succeeded is the one that was prepared;
- *the log is the truth*: a new coordinator would load the state of the current one.

When the faults stop, every id becomes idle.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import NamedTuple

from ruslo.machines.machine import TimerFired
from ruslo.machines.txns.events import MarkersResult, SendMarkers
from ruslo.machines.txns.metadata import TxnMetadata
from ruslo.machines.txns.outcome import TxnOutcome
from ruslo.machines.txns.records import state_of
from ruslo.machines.txns.states import COMPLETED, PREPARED, TxnState
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from tests.support.txns.txn_bench import Cluster, Marker, TxnBench, markers_of
from tests.support.txns.txn_client import V1_ADD, V1_END, V2_ADD, V2_END, add_request, codes_of, end_request
from tests.support.txns.txn_client import init_request as new_init_request

TOPICS = {"orders": 3, "parcels": 2}
NODES = (1, 2, 3)
TIMEOUT_MS = 20_000
RETRIABLE_ERRORS = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class SteppedBench(TxnBench):
    """Commits, leader responses and producer id allocations happen only when the simulation triggers them."""

    def __init__(self) -> None:
        super().__init__(cluster=Cluster({name: [1] * size for name, size in TOPICS.items()}))
        self.commits_immediately = self.leaders_respond = self.ids_available = False
        self.ends: dict[int, int] = {}
        """The end offset of an outcome's records, by the identity of the outcome."""

    def _append(self, outcome: TxnOutcome) -> None:
        super()._append(outcome)
        self.ends[id(outcome)] = len(self.log)


class Leader:
    """Validates the markers of a partition; its state survives a change of the leader."""

    def __init__(self) -> None:
        self.producers: dict[int, tuple[int, int]] = {}
        """The epoch and coordinator epoch of each producer id."""

    def append(self, marker: Marker) -> ErrorCode:
        epoch, coordinator_epoch = self.producers.get(marker.producer_id, (-1, -1))
        if marker.coordinator_epoch < coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        if marker.epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.producers[marker.producer_id] = (marker.epoch, marker.coordinator_epoch)
        return ErrorCode.NONE


class Sent(NamedTuple):
    """A request in the network."""

    client: Client | None
    """None: a duplicate, without a waiting client."""
    request: Message
    version: int


class Client:
    """A producer with one request in flight at a time."""

    def __init__(self, transactional_id: str, *, tv2: bool) -> None:
        self.transactional_id = transactional_id
        self.tv2 = tv2
        self.producer_id = -1
        self.epoch = -1
        self.is_open = False
        self.waiting_for_response = False
        self.retry: Message | None = None

    def next_request(self, random: Random) -> tuple[Message, int]:
        if self.retry is not None:
            request = self.retry
        elif self.producer_id < 0:
            request = new_init_request(self.transactional_id, timeout_ms=TIMEOUT_MS)
        elif random.random() < 0.05:
            request = new_init_request(self.transactional_id, self.producer_id, self.epoch, TIMEOUT_MS)
        elif not self.is_open or random.random() < 0.3:
            topic = random.choice(list(TOPICS))
            partition = TopicPartition(topic, random.randrange(TOPICS[topic]))
            version = V2_ADD if self.tv2 else V1_ADD
            request = add_request(
                version, self.producer_id, self.epoch, partition, transactional_id=self.transactional_id
            )
        else:
            request = end_request(
                self.producer_id,
                self.epoch,
                commit=random.random() < 0.6,
                transactional_id=self.transactional_id,
            )
        self.retry = request
        if isinstance(request, InitProducerIdRequest):
            return request, 5
        if isinstance(request, EndTxnRequest):
            return request, V2_END if self.tv2 else V1_END
        return request, V2_ADD if self.tv2 else V1_ADD

    def receive(self, response: Message) -> None:
        self.waiting_for_response = False
        if isinstance(response, AddPartitionsToTxnResponse):
            (code,) = set(codes_of(response).values())
        else:
            assert isinstance(response, InitProducerIdResponse | EndTxnResponse)
            code = ErrorCode(response.error_code)
        if code in RETRIABLE_ERRORS:
            return
        self.retry = None
        if code is not ErrorCode.NONE:
            self.producer_id, self.is_open = -1, False
        elif isinstance(response, AddPartitionsToTxnResponse):
            self.is_open = True
        else:
            self.is_open = False
            if response.producer_id >= 0:
                self.producer_id, self.epoch = response.producer_id, response.producer_epoch


class TxnSimulation:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bench = SteppedBench()
        # One transactional id is about to exhaust its epochs.
        self.bench.start_at(TxnState.EMPTY, 32_760)
        self.clients = [
            Client(name, tv2=tv2) for name in ("t", "u", "v") for tv2 in (True, self.random.random() < 0.5)
        ]
        self.network: list[Sent] = []
        self.waiting: dict[Hashable, Sent] = {}
        self.late_markers: list[SendMarkers] = []
        self.leaders = {TopicPartition(name, at): Leader() for name, n in TOPICS.items() for at in range(n)}
        self.decisions: dict[str, TxnMetadata] = {}
        """The prepared, incomplete end of each transactional id."""
        self.marked: dict[tuple[int, int], set[TopicPartition]] = {}
        """The partitions that have the marker, by producer id and epoch of the prepared end."""
        self.outcomes: dict[tuple[int, int], bool] = {}
        """Whether the transaction was committed, by producer id and epoch of its markers."""
        self.latest: dict[str, tuple[int, int]] = {}
        """The producer id and epoch of the last committed state of each transactional id."""
        self.old_producers: set[int] = set()
        self.issued: set[tuple[int, int]] = set()
        self.uncertain: set[str] = set()
        """Transactional ids with a record in the log whose commit timed out."""
        self.committed_end = len(self.bench.log)
        self.producer_ids = 10_000
        self.decided = self.completed = self.rotated = 0

    def run(self, steps: int) -> None:
        weighted_actions = [
            (30, self.client_sends),
            (30, self.request_arrives),
            (30, self.log_commits),
            (25, self.leader_responds),
            (20, self.producer_id_is_allocated),
            (0.5, self.append_fails),
            (1, self.append_times_out),
            (3, self.connection_breaks),
            (4, self.late_marker_arrives),
            (2, self.leaders_move),
            (6, self.time_passes),
            (0.4, self.coordinator_moves),
        ]
        weights, actions = zip(*weighted_actions, strict=True)
        for _ in range(steps):
            self.random.choices(actions, weights)[0]()
            self.receive_responses()
        self.recover()

    # -- events and faults -----------------------------------------------------------------------------------

    def client_sends(self) -> None:
        client = self.random.choice(self.clients)
        if client.waiting_for_response or (client.producer_id < 0 and self.random.random() < 0.8):
            # A fenced client does not restart at once: two clients would only fence each other.
            return
        request, version = client.next_request(self.random)
        client.waiting_for_response = True
        self.network.append(Sent(client, request, version))
        if self.random.random() < 0.3:
            self.network.append(Sent(None, request, version))

    def request_arrives(self) -> None:
        if self.network:
            sent = self.network.pop(self.random.randrange(len(self.network)))
            self.deliver(sent)

    def deliver(self, sent: Sent) -> None:
        # The response may exist before ``send`` returns the token; ``receive_responses`` finds it.
        token = self.bench.send(sent.request, sent.version)
        self.waiting[token] = sent

    def log_commits(self) -> None:
        bench = self.bench
        count = self.random.randint(1, 4)
        committed, rest = bench.uncommitted[:count], bench.uncommitted[count:]
        if committed:
            self.committed_end = max(self.committed_end, bench.ends[id(committed[-1])])
            for outcome in committed:
                self.check_committed(outcome)
            bench.uncommitted = committed
            bench.commit()
            bench.uncommitted = rest + bench.uncommitted
            self.check_sends()

    def leader_responds(self) -> None:
        if self.bench.sends:
            at = self.random.randrange(len(self.bench.sends))
            self.bench.respond_to_markers(self.respond, at)

    def respond(self, marker: Marker) -> ErrorCode:
        if self.random.random() < 0.1:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        code = self.write(marker)
        assert code is ErrorCode.NONE, f"the current coordinator was rejected: {marker} {code.name}"
        return code

    def connection_breaks(self) -> None:
        """The markers are lost, written, or written much later; the coordinator does not know."""
        if not self.bench.sends:
            return
        send = self.bench.sends.pop(self.random.randrange(len(self.bench.sends)))
        fate = self.random.randrange(3)
        if fate == 1:
            self.write_without_response(send)
        elif fate == 2:
            self.late_markers.append(send)
        self.bench.run(MarkersResult(send.send_id, None))
        self.check_sends()

    def late_marker_arrives(self) -> None:
        if self.late_markers:
            self.write_without_response(self.late_markers.pop(self.random.randrange(len(self.late_markers))))

    def write_without_response(self, send: SendMarkers) -> None:
        for marker in markers_of(send):
            self.write(marker)

    def write(self, marker: Marker) -> ErrorCode:
        code = self.leaders[marker.partition].append(marker)
        if code is ErrorCode.NONE:
            self.marked[marker.producer_id, marker.epoch].add(marker.partition)
        return code

    def producer_id_is_allocated(self) -> None:
        if self.bench.allocations:
            self.producer_ids += 1
            self.bench.allocate_id(None if self.random.random() < 0.1 else self.producer_ids)

    def append_fails(self) -> None:
        self.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    def append_times_out(self) -> None:
        """The records stay in the log and may be replicated later."""
        bench = self.bench
        if bench.uncommitted:
            failed, rest = bench.uncommitted[:1], bench.uncommitted[1:]
            self.uncertain |= {each.transactional_id for each in failed[0].records}
            bench.uncommitted = failed
            bench.fail_uncommitted(ErrorCode.REQUEST_TIMED_OUT)
            bench.uncommitted = rest + bench.uncommitted

    def leaders_move(self) -> None:
        leaders = {
            name: [self.random.choice((*NODES, -1)) for _ in range(size)] for name, size in TOPICS.items()
        }
        self.bench.change_cluster(Cluster(leaders))
        self.check_sends()

    def time_passes(self) -> None:
        self.bench.now_ms += self.random.choice((1, 50, 100, 200, 500, 1_000, 25_000))
        self.fire_timers()

    def fire_timers(self) -> None:
        bench = self.bench
        for _ in range(10):
            deadline_ms = bench.shard.deadline_ms()
            if deadline_ms is None or deadline_ms > bench.now_ms:
                break
            bench.run(TimerFired())
        self.check_sends()

    def coordinator_moves(self) -> None:
        """Uncommitted records may be lost with the old leader's log, or loaded by the new one."""
        bench = self.bench
        self.check_log()
        if self.random.random() < 0.5:
            del bench.log[self.committed_end :]
        self.late_markers += bench.sends
        bench.append_error = None
        for outcome in bench.uncommitted:
            for reply in outcome.replies:
                # The client loses its connection to the coordinator.
                sent = self.waiting.pop(reply.token)
                if sent.client is not None:
                    sent.client.waiting_for_response = False
        bench.reload()
        self.committed_end = len(bench.log)
        self.uncertain.clear()
        self.decisions.clear()
        for transaction in bench.shard.state.transactions.values():
            self.record_state(transaction.id, transaction.metadata)
        self.check_sends()

    # -- invariants ------------------------------------------------------------------------------------------

    def check_committed(self, outcome: TxnOutcome) -> None:
        for transactional_id, metadata, _ in outcome.records:
            assert metadata is not None, "no transactional id expires in this simulation"
            decided = self.decisions.pop(transactional_id, None)
            if decided is not None:
                assert metadata.state in COMPLETED
                assert metadata.state - decided.state == 2, "CompleteCommit after PrepareCommit, or abort"
                assert decided.partitions <= self.marked[decided.producer_id, decided.epoch]
                self.completed += 1
            else:
                assert metadata.state not in COMPLETED
            self.uncertain.discard(transactional_id)
            self.record_state(transactional_id, metadata)

    def record_state(self, transactional_id: str, metadata: TxnMetadata) -> None:
        before = self.latest.get(transactional_id)
        if before is not None:
            assert metadata.producer_id not in self.old_producers
            if metadata.producer_id == before[0]:
                assert metadata.epoch >= before[1], "an epoch decreased"
            else:
                self.old_producers.add(before[0])
                self.rotated += 1
        self.latest[transactional_id] = (metadata.producer_id, metadata.epoch)
        if metadata.state in PREPARED:
            self.decided += 1
            self.decisions[transactional_id] = metadata
            producer = (metadata.producer_id, metadata.epoch)
            commits = metadata.state is TxnState.PREPARE_COMMIT
            if metadata.client_version == 2:
                assert self.outcomes.setdefault(producer, commits) is commits, f"{producer} was decided twice"
            self.outcomes[producer] = commits
            self.marked[producer] = set()

    def check_sends(self) -> None:
        decided = {metadata.producer_id: metadata for metadata in self.decisions.values()}
        for send in self.bench.sends:
            for marker in markers_of(send):
                decision = decided[marker.producer_id]
                assert marker.epoch == decision.epoch
                assert marker.commits is (decision.state is TxnState.PREPARE_COMMIT)
                assert marker.transaction_version == decision.client_version
                assert marker.partition in decision.partitions
                assert marker.coordinator_epoch == self.bench.coordinator_epoch

    def check_log(self) -> None:
        loaded = {
            record.key.transactional_id: state_of(record.value)
            for record in self.bench.records()
            if record.value is not None
        }
        pending = {each.transactional_id for outcome in self.bench.uncommitted for each in outcome.records}
        for transaction in self.bench.shard.state.transactions.values():
            if transaction.id not in self.uncertain | pending and transaction.exists:
                assert loaded[transaction.id] == transaction.metadata

    def receive_responses(self) -> None:
        for token in [token for token in self.waiting if not self.bench.is_parked(token)]:
            sent = self.waiting.pop(token)
            response = self.bench.responses.pop(token)
            if isinstance(response, EndTxnResponse) and response.error_code == 0 and sent.version >= V2_END:
                assert isinstance(sent.request, EndTxnRequest)
                producer = (sent.request.producer_id, sent.request.producer_epoch + 1)
                assert self.outcomes[producer] is sent.request.committed, (
                    f"{producer} was confirmed otherwise"
                )
            if isinstance(response, InitProducerIdResponse) and response.error_code == 0:
                assert isinstance(sent.request, InitProducerIdRequest)
                producer = (response.producer_id, response.producer_epoch)
                if sent.request.producer_id < 0:
                    assert producer not in self.issued, f"{producer} was issued twice"
                self.issued.add(producer)
            if sent.client is not None:
                sent.client.receive(response)

    def recover(self) -> None:
        """Without faults every prepared transaction completes, and the log matches the state."""
        bench = self.bench
        bench.append_error = None
        bench.change_cluster(Cluster({name: [1] * size for name, size in TOPICS.items()}))
        self.network.clear()
        for _ in range(50):
            while bench.uncommitted:
                self.log_commits()
            while bench.allocations:
                self.producer_ids += 1
                bench.allocate_id(self.producer_ids)
            while bench.sends:
                bench.respond_to_markers(self.write)
            self.receive_responses()
            bench.now_ms += 1_000
            self.fire_timers()
        assert bench.rejected == []
        assert not self.waiting, "a request never got a response"
        assert not self.decisions
        for transaction in bench.shard.state.transactions.values():
            assert transaction.pending is None
            assert transaction.metadata.state not in {*PREPARED, TxnState.ONGOING}, transaction
        self.check_log()
