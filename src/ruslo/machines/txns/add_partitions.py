"""AddPartitionsToTxn: adds the partitions that a transaction writes to, and that will get its markers.

v0-3 come from clients, with one transaction per request; v2 adds PRODUCER_FENCED. v4-5 come from partition
leaders, with several transactions per request (KIP-890): a leader verifies that a version 1 client has added
the partition, or adds it for a version 2 client on its first write.

Partitions that do not exist or are not authorized are checked first, then:

| case                      | add                                       | verify only                       |
|---------------------------|-------------------------------------------|-----------------------------------|
| transactional id ""       | INVALID_REQUEST                           | INVALID_REQUEST                   |
| unknown transactional id  | INVALID_PRODUCER_ID_MAPPING               | INVALID_PRODUCER_ID_MAPPING       |
| a transition is pending   | CONCURRENT_TRANSACTIONS                   | –                                 |
| another producer id       | INVALID_PRODUCER_ID_MAPPING               | INVALID_PRODUCER_ID_MAPPING       |
| another epoch             | PRODUCER_FENCED                           | PRODUCER_FENCED                   |
| Prepare*                  | CONCURRENT_TRANSACTIONS; a client of      | CONCURRENT_TRANSACTIONS           |
|                           | version 1 may be delayed                  |                                   |
| otherwise                 | Ongoing with these; without a record if   | each: NONE if it is added, else   |
|                           | all of them are in the transaction        | TRANSACTION_ABORTABLE             |
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from ruslo.machines.machine import Instant, Outcome, Reply
from ruslo.machines.txns.delayed_requests import TxnProducer, delay, may_delay
from ruslo.machines.txns.events import RequestInfo
from ruslo.machines.txns.fencing import fenced_code
from ruslo.machines.txns.outcome import TxnOutcome, respond
from ruslo.machines.txns.records import TxnRecord, by_topic
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import IDLE, PREPARED, TV0, TV2, TxnState
from ruslo.machines.txns.transaction import Transaction
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ruslo.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

BATCHED_MIN_VERSION = 4

Codes: TypeAlias = Mapping[TopicPartition, ErrorCode]


def handle(
    state: ShardState, request: AddPartitionsToTxnRequest, info: RequestInfo, token: Hashable
) -> TxnOutcome:
    if info.api_version < BATCHED_MIN_VERSION:
        return _add_for_client(state, request, info, token)
    codes: dict[str, Codes] = {}
    pending: dict[str, TxnRecord] = {}
    for each in request.transactions:
        partitions = partitions_of(each.topics)
        bad = _bad_partitions(state, partitions, info)
        if bad:
            codes[each.transactional_id] = {
                partition: bad.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions
            }
        elif each.verify_only:
            codes[each.transactional_id] = verify(
                state,
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                partitions,
                info.api_version,
            )
        else:
            added = add(
                state,
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                partitions,
                client_version=TV2,
                api_version=info.api_version,
            )
            if isinstance(added, TxnRecord):
                pending[each.transactional_id] = added
            code = ErrorCode.NONE if isinstance(added, TxnRecord) else added
            codes[each.transactional_id] = dict.fromkeys(partitions, code)

    def on_failure(code: ErrorCode, now: Instant) -> TxnOutcome:
        failed = {
            transactional_id: dict.fromkeys(codes[transactional_id], code) for transactional_id in pending
        }
        return respond(token, response_of(codes | failed, info.api_version))

    return Outcome(
        list(pending.values()),
        [Reply(token, response_of(codes, info.api_version))],
        on_failure=on_failure,
    )


def _add_for_client(
    state: ShardState, request: AddPartitionsToTxnRequest, info: RequestInfo, token: Hashable
) -> TxnOutcome:
    partitions = partitions_of(request.v3_and_below_topics)

    def response(code: ErrorCode) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_results(dict.fromkeys(partitions, code))
        )

    bad = _bad_partitions(state, partitions, info)
    if bad:
        codes = {each: bad.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
        return respond(token, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(codes)))
    producer = TxnProducer(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    )
    added = add(state, *producer, partitions, client_version=TV0, api_version=info.api_version)
    if isinstance(added, TxnRecord):
        return Outcome([added], [Reply(token, response(ErrorCode.NONE))])
    if added is ErrorCode.CONCURRENT_TRANSACTIONS and may_delay(state, producer):
        return delay(
            state, producer.transactional_id, token, lambda: _add_for_client(state, request, info, token)
        )
    return respond(token, response(added))


def add(
    state: ShardState,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: frozenset[TopicPartition],
    *,
    client_version: int,
    api_version: int,
) -> TxnRecord | ErrorCode:
    """The record of the transition, or the result if there is none."""
    transaction = state.transactions.get(transactional_id)
    if transaction is not None and transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    code = _check(transactional_id, transaction, producer_id, epoch, api_version)
    if code is not ErrorCode.NONE:
        return code
    assert transaction is not None
    metadata = transaction.metadata
    if partitions <= metadata.partitions:
        return ErrorCode.NONE
    if not state.settings.supports(client_version):
        return ErrorCode.UNSUPPORTED_VERSION
    ongoing = metadata.moved(
        TxnState.ONGOING,
        state.wall_ms,
        start_ms=state.wall_ms if metadata.state in IDLE else metadata.start_ms,
        partitions=metadata.partitions | partitions,
        client_version=client_version,
    )
    return state.begin(transaction, ongoing, last_epoch=transaction.last_epoch)


def transactions_of(
    request: AddPartitionsToTxnRequest, api_version: int
) -> list[AddPartitionsToTxnTransaction]:
    """The transactions of the request, in the form of v4 and above."""
    if api_version >= BATCHED_MIN_VERSION:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def response_of(codes: Mapping[str, Codes], api_version: int) -> AddPartitionsToTxnResponse:
    if api_version >= BATCHED_MIN_VERSION:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=_results(each))
                for transactional_id, each in codes.items()
            ]
        )
    (only,) = codes.values()
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(only))


def _results(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(codes)
    ]


def _bad_partitions(state: ShardState, partitions: frozenset[TopicPartition], info: RequestInfo) -> Codes:
    bad: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        if partition.topic in info.denied_topics:
            bad[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif state.cluster.leader_of(partition.topic, partition.partition) is None:
            bad[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return bad


def _check(
    transactional_id: str, transaction: Transaction | None, producer_id: int, epoch: int, api_version: int
) -> ErrorCode:
    """The checks that adding and verifying share."""
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if transaction is None or transaction.metadata.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != epoch:
        return fenced_code(api_version)
    if transaction.metadata.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE


def verify(
    state: ShardState,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: Iterable[TopicPartition],
    api_version: int,
) -> Codes:
    """The error code of each partition. A pending transition does not matter: it removes no partition."""
    return {
        partition: verify_one(state, transactional_id, producer_id, epoch, partition, api_version)
        for partition in partitions
    }


def verify_one(
    state: ShardState,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partition: TopicPartition,
    api_version: int,
) -> ErrorCode:
    transaction = state.transactions.get(transactional_id)
    code = _check(transactional_id, transaction, producer_id, epoch, api_version)
    if code is not ErrorCode.NONE:
        return code
    assert transaction is not None
    added = partition in transaction.metadata.partitions
    return ErrorCode.NONE if added else ErrorCode.TRANSACTION_ABORTABLE
