"""A transactional producer that calls its coordinator, with its producer id and epoch."""

from __future__ import annotations

from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from tests.support.txns.txn_bench import TxnBench

V1_ADD, V2_ADD = 3, 5
V1_END, V2_END = 4, 5
TWO_PHASE_INIT = 6
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
PARCELS_0 = TopicPartition("parcels", 0)


def init_request(
    transactional_id: str | None = "t", producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000
) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def add_request(
    version: int,
    producer_id: int,
    epoch: int,
    *partitions: TopicPartition,
    transactional_id: str = "t",
    verify_only: bool = False,
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    listed = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
    if version <= V1_ADD:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=listed,
        )
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify_only,
                topics=listed,
            )
        ]
    )


def codes_of(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, ErrorCode]:
    """The error code of each partition, for all transactions in the response."""
    results: list[AddPartitionsToTxnTopicResult] = list(response.results_by_topic_v3_and_below)
    for transaction in response.results_by_transaction:
        results += transaction.topic_results
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for topic in results
        for each in topic.results_by_partition
    }


def end_request(producer_id: int, epoch: int, *, commit: bool, transactional_id: str = "t") -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )


class TxnClient:
    def __init__(self, bench: TxnBench, transactional_id: str = "t", *, tv2: bool = True) -> None:
        self.bench = bench
        self.transactional_id = transactional_id
        self.add_version = V2_ADD if tv2 else V1_ADD
        self.end_version = V2_END if tv2 else V1_END
        self.producer_id = -1
        self.epoch = -1

    def init(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        timeout_ms: int = 60_000,
        two_phase_commit: bool = False,
    ) -> ErrorCode:
        request = init_request(self.transactional_id, producer_id, epoch, timeout_ms)
        request.enable2_pc = two_phase_commit
        version = TWO_PHASE_INIT if two_phase_commit else None
        response = self.bench.call(request, InitProducerIdResponse, version)
        if response.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return ErrorCode(response.error_code)

    def add(
        self, *partitions: TopicPartition, epoch: int | None = None, version: int | None = None
    ) -> ErrorCode:
        """Add partitions; the response has the same code for all of them."""
        return self._add(*partitions, epoch=epoch, version=version, verify_only=False)

    def verify(self, *partitions: TopicPartition, epoch: int | None = None) -> ErrorCode:
        code = self._add(*partitions, epoch=epoch, version=V2_ADD, verify_only=True)
        epoch = self.epoch if epoch is None else epoch
        for partition in partitions:
            short = self.bench.shard.verify(self.transactional_id, self.producer_id, epoch, partition)
            assert short is code, "a leader on the same node must get the same result"
        return code

    def add_offsets(self, group: str = "g", *, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return ErrorCode(self.bench.call(request, AddOffsetsToTxnResponse, version).error_code)

    def send_end(self, *, commit: bool, epoch: int | None = None, version: int | None = None) -> int:
        """Send EndTxn and return its token; the response may come later."""
        request = end_request(
            self.producer_id,
            self.epoch if epoch is None else epoch,
            commit=commit,
            transactional_id=self.transactional_id,
        )
        return self.bench.send(request, self.end_version if version is None else version)

    def ended(self, token: int) -> ErrorCode:
        response = self.bench.response(token, EndTxnResponse)
        if response.producer_id >= 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return ErrorCode(response.error_code)

    def commit(self, *, epoch: int | None = None, version: int | None = None) -> ErrorCode:
        return self.ended(self.send_end(commit=True, epoch=epoch, version=version))

    def abort(self, *, epoch: int | None = None, version: int | None = None) -> ErrorCode:
        return self.ended(self.send_end(commit=False, epoch=epoch, version=version))

    def _add(
        self, *partitions: TopicPartition, epoch: int | None, version: int | None, verify_only: bool
    ) -> ErrorCode:
        version = self.add_version if version is None else version
        request = add_request(
            version,
            self.producer_id,
            self.epoch if epoch is None else epoch,
            *partitions,
            transactional_id=self.transactional_id,
            verify_only=verify_only,
        )
        (code,) = set(codes_of(self.bench.call(request, AddPartitionsToTxnResponse, version)).values())
        return code
