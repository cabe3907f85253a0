"""A transaction shard with a list as its log, simulated partition leaders and a clock that tests advance.

The log holds bytes, so records and markers pass through their codecs too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import NamedTuple

import re2  # type: ignore[import-untyped]

from ruslo.machines.machine import (
    AppendCommitted,
    AppendFailed,
    Loaded,
    Unloaded,
)
from ruslo.machines.txns.errors import error_response
from ruslo.machines.txns.events import (
    AllocateProducerId,
    ClusterChanged,
    MarkersRejected,
    MarkersResult,
    ProducerIdAllocated,
    RequestInfo,
    SendMarkers,
)
from ruslo.machines.txns.marker_requests import codes_of, request_of, response_of
from ruslo.machines.txns.metadata import TxnMetadata
from ruslo.machines.txns.outcome import TxnOutcome
from ruslo.machines.txns.record_bytes import record_bytes
from ruslo.machines.txns.records import TxnRecord, state_of
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.shard import TxnShard
from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.coordinator_records import TRANSACTION_RECORDS
from ruslo.protocol.message import Message
from ruslo.protocol.messages.transaction_log_key import TransactionLogKey
from ruslo.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ruslo.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from tests.support.machines.coordinator_bench import CoordinatorBench, MessageT

FIRST_PRODUCER_ID = 1_000

Verdict = Callable[["Marker"], ErrorCode]


class Marker(NamedTuple):
    """A marker that a partition leader receives."""

    node: int
    partition: TopicPartition
    producer_id: int
    epoch: int
    commits: bool
    coordinator_epoch: int
    transaction_version: int


class Logged(NamedTuple):
    """A decoded record of the log."""

    key: TransactionLogKey
    value: TransactionLogValue | None
    version: int = 1


class Cluster:
    """A cluster view; ``leaders`` lists the leader of each partition of a topic."""

    def __init__(self, leaders: dict[str, list[int]], offsets_partitions: int | None = 4) -> None:
        self.leaders = leaders
        self.offsets_partitions = offsets_partitions

    def leader_of(self, topic: str, partition: int) -> int | None:
        leaders = self.leaders.get(topic, [])
        return leaders[partition] if 0 <= partition < len(leaders) else None

    def offsets_partition_of(self, group_id: str) -> int | None:
        return None if self.offsets_partitions is None else len(group_id) % self.offsets_partitions


def default_cluster() -> Cluster:
    return Cluster({"orders": [1, 2, 1, 2], "parcels": [2, 3], "__consumer_offsets": [1, 2, 3, 1]})


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None
    return lambda text: compiled.fullmatch(text) is not None


class TxnBench(CoordinatorBench):
    shard: TxnShard

    def __init__(self, settings: TxnSettings | None = None, cluster: Cluster | None = None) -> None:
        super().__init__(error_response)
        self.settings = settings or TxnSettings()
        self.cluster = cluster or default_cluster()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[Marker] = []
        """The markers that leaders have written, in this order."""
        self.sends: list[SendMarkers] = []
        """Requests to leaders without a response; empty while ``leaders_respond``."""
        self.leaders_respond = True
        self.uncommitted: list[TxnOutcome] = []
        """Appended but not committed outcomes; empty while ``commits_immediately``."""
        self.commits_immediately = True
        self.allocations: list[AllocateProducerId] = []
        """Pending allocations of producer ids; empty while ``ids_available``."""
        self.ids_available = True
        self.rejected: list[str] = []
        self.coordinator_epoch = 7
        self._producer_ids = count(FIRST_PRODUCER_ID)
        self.shard = self._new_shard()
        self.run(Loaded(self.coordinator_epoch))

    # -- for tests -------------------------------------------------------------------------------------------

    def send(self, request: Message, version: int | None = None, denied: frozenset[str] = frozenset()) -> int:
        """Send a request and return its token; the response may come later."""
        return self._send(request, version, lambda v: RequestInfo(v, denied))

    def call(
        self,
        request: Message,
        response: type[MessageT],
        version: int | None = None,
        denied: frozenset[str] = frozenset(),
    ) -> MessageT:
        """Send a request that gets its response at once."""
        return self.response(self.send(request, version, denied), response)

    def change_cluster(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.run(ClusterChanged(cluster))

    def reload(self) -> None:
        """Unload the shard and load it again, with the next leader epoch."""
        self.uncommitted.clear()
        self.sends.clear()
        self.allocations.clear()
        self.run(Unloaded())
        self.coordinator_epoch += 1
        self.shard = self._new_shard()
        for offset, logged in enumerate(self.records()):
            metadata = None if logged.value is None else state_of(logged.value)
            self.shard.replay(TxnRecord(logged.key.transactional_id, metadata, logged.version), offset)
        self.run(Loaded(self.coordinator_epoch))

    def put(self, transactional_id: str, metadata: TransactionLogValue, version: int = 1) -> None:
        """Append a record of another coordinator; takes effect with ``reload``."""
        key = TransactionLogKey(transactional_id=transactional_id)
        self.log.append(
            (TRANSACTION_RECORDS.encode_key(key), TRANSACTION_RECORDS.encode_value(metadata, version))
        )

    def start_at(
        self,
        state: TxnState,
        epoch: int,
        *,
        producer_id: int = 500,
        previous_producer_id: int = 500,
        partitions: Iterable[TopicPartition] = (),
        client_version: int = 2,
    ) -> None:
        """Load the transactional id ``t`` in this state, written by another coordinator."""
        listed = [PartitionsSchema(topic=each.topic, partition_ids=[each.partition]) for each in partitions]
        self.put(
            "t",
            TransactionLogValue(
                producer_id=producer_id,
                previous_producer_id=previous_producer_id,
                producer_epoch=epoch,
                transaction_timeout_ms=60_000,
                transaction_status=state,
                transaction_partitions=None if state is TxnState.EMPTY else listed,
                transaction_last_update_timestamp_ms=self.wall_ms,
                transaction_start_timestamp_ms=-1 if state is TxnState.EMPTY else self.wall_ms,
                client_transaction_version=client_version,
            ),
        )
        self.reload()

    def records(self, since: int = 0) -> list[Logged]:
        """The decoded records of the log."""
        return [_decoded(*each) for each in self.log[since:]]

    def states(self, transactional_id: str = "t") -> list[str]:
        """The states of the id in the log, with their epochs: ``Ongoing@0``."""
        return [
            "deleted"
            if each.value is None
            else f"{TxnState(each.value.transaction_status).display_name}@{each.value.producer_epoch}"
            for each in self.records()
            if each.key.transactional_id == transactional_id
        ]

    def metadata(self, transactional_id: str = "t") -> TxnMetadata:
        return self.shard.state.transactions[transactional_id].metadata

    def state(self, transactional_id: str = "t") -> TxnState:
        return self.metadata(transactional_id).state

    # -- driving the machine, and the cluster ----------------------------------------------------------------

    def commit(self) -> None:
        """Advance the high watermark to the end of the log."""
        committed, self.uncommitted = self.uncommitted, []
        for outcome in committed:
            for record in outcome.records:
                self.shard.replay(record, 0)
            self._release(outcome.replies)
        self.run(AppendCommitted(committed))

    def allocate_id(self, producer_id: int | None = None) -> None:
        """Complete the oldest allocation of a producer id; None: it fails."""
        self.run(ProducerIdAllocated(self.allocations.pop(0).allocation, producer_id))

    def respond_to_markers(self, verdict: Verdict | ErrorCode = ErrorCode.NONE, at: int = 0) -> None:
        """A leader responds to one of the sent requests."""
        send = self.sends.pop(at)
        request = WriteTxnMarkersRequest.from_bytes(request_of(send.markers).to_bytes(2), 2)
        judge: Verdict = (lambda marker: verdict) if isinstance(verdict, ErrorCode) else verdict
        codes = {marker: judge(marker) for marker in markers_of(send)}
        self.markers += [marker for marker, code in codes.items() if code is ErrorCode.NONE]
        self.run(MarkersResult(send.send_id, codes_of(_response(request, codes))))

    def lose_markers(self, at: int = 0) -> None:
        """The connection to a leader breaks."""
        self.run(MarkersResult(self.sends.pop(at).send_id, None))

    def fail_uncommitted(self, code: ErrorCode) -> None:
        failed, self.uncommitted = self.uncommitted, []
        for outcome in failed:
            self.run(AppendFailed([outcome], code))

    def _execute(self, outcome: TxnOutcome) -> None:
        if outcome.records:
            self._append(outcome)
        else:
            self._release(outcome.replies)
        for effect in outcome.effects:
            if isinstance(effect, SendMarkers):
                self.sends.append(effect)
            elif isinstance(effect, MarkersRejected):
                self.rejected.append(effect.transactional_id)
            else:
                self.allocations.append(effect)
                if self.ids_available:
                    self.allocate_id(next(self._producer_ids))
        while self.leaders_respond and self.sends:
            self.respond_to_markers()

    def _append(self, outcome: TxnOutcome) -> None:
        if self.append_error is not None:
            code, self.append_error = self.append_error, None
            self.run(AppendFailed([outcome], code))
            return
        self.log += (record_bytes(record) for record in outcome.records)
        if self.commit_error is not None:
            code, self.commit_error = self.commit_error, None
            self.run(AppendFailed([outcome], code))
            return
        self.uncommitted.append(outcome)
        if self.commits_immediately:
            self.commit()

    def _new_shard(self) -> TxnShard:
        return TxnShard(self.settings, compile_pattern, self.cluster)


def markers_of(send: SendMarkers) -> Iterable[Marker]:
    for each in send.markers:
        for partition in each.partitions:
            yield Marker(
                send.node,
                partition,
                each.producer_id,
                each.epoch,
                each.commits,
                each.coordinator_epoch,
                each.transaction_version,
            )


def _response(request: WriteTxnMarkersRequest, codes: dict[Marker, ErrorCode]) -> WriteTxnMarkersResponse:
    by_partition = {(marker.producer_id, marker.partition): code for marker, code in codes.items()}
    response = response_of(request, by_partition)
    return WriteTxnMarkersResponse.from_bytes(response.to_bytes(2), 2)


def _decoded(key: bytes, value: bytes | None) -> Logged:
    decoded_key = TRANSACTION_RECORDS.decode_key(key)
    assert isinstance(decoded_key, TransactionLogKey)
    if value is None:
        return Logged(decoded_key, None)
    decoded_value, version = TRANSACTION_RECORDS.decode_value(decoded_key.API_KEY, value)
    assert isinstance(decoded_value, TransactionLogValue)
    return Logged(decoded_key, decoded_value, version)
