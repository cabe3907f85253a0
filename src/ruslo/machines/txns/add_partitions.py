"""AddPartitionsToTxn: partitions that a transaction writes to, so that its markers reach them.

v0-3 come from clients, one transaction a request; v2 knows PRODUCER_FENCED. v4-5 come from partition leaders,
several transactions a request (KIP-890): a leader verifies that a version 1 client has added the partition,
or adds it for a version 2 client on its first write.

Checked in this order: partitions that do not exist or may not be written to, then

| case                      | add                                       | verify only                       |
|---------------------------|-------------------------------------------|-----------------------------------|
| transactional id ""       | INVALID_REQUEST                           | INVALID_REQUEST                   |
| unknown transactional id  | INVALID_PRODUCER_ID_MAPPING               | INVALID_PRODUCER_ID_MAPPING       |
| a transition is pending   | CONCURRENT_TRANSACTIONS                   | –                                 |
| another producer id       | INVALID_PRODUCER_ID_MAPPING               | INVALID_PRODUCER_ID_MAPPING       |
| another epoch             | PRODUCER_FENCED                           | PRODUCER_FENCED                   |
| Prepare*                  | CONCURRENT_TRANSACTIONS; a client of      | CONCURRENT_TRANSACTIONS           |
|                           | version 1 waits a while, see ``holding``  |                                   |
| otherwise                 | Ongoing with these too; if they are known | each: NONE if it is added, else   |
|                           | already, NONE without a record            | TRANSACTION_ABORTABLE             |
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from ruslo.machines.outcome import Reply
from ruslo.machines.txns.decision import Answer, Decision, answer
from ruslo.machines.txns.events import RequestInfo
from ruslo.machines.txns.fencing import fenced_code
from ruslo.machines.txns.holding import Caller, hold, may_wait
from ruslo.machines.txns.records import by_topic
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import IDLE, PREPARED, TV0, TV2, TxnState
from ruslo.machines.txns.transaction import Transaction, Transition
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

SEVERAL_TRANSACTIONS_FROM = 4

Codes: TypeAlias = Mapping[TopicPartition, ErrorCode]


def handle(
    state: ShardState, request: AddPartitionsToTxnRequest, info: RequestInfo, token: Hashable
) -> Decision:
    if info.api_version < SEVERAL_TRANSACTIONS_FROM:
        return _add_for_client(state, request, info, token)
    codes: dict[str, Codes] = {}
    pending: dict[str, Transition] = {}
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
            if isinstance(added, Transition):
                pending[each.transactional_id] = added
            code = ErrorCode.NONE if isinstance(added, Transition) else added
            codes[each.transactional_id] = dict.fromkeys(partitions, code)

    def failed(code: ErrorCode) -> Answer:
        unwritten = {
            transactional_id: dict.fromkeys(codes[transactional_id], code) for transactional_id in pending
        }
        return response_of(codes | unwritten, info.api_version)

    return Decision(
        transitions=tuple(pending.values()),
        replies=(Reply(token, response_of(codes, info.api_version)),),
        on_failure=failed,
    )


def _add_for_client(
    state: ShardState, request: AddPartitionsToTxnRequest, info: RequestInfo, token: Hashable
) -> Decision:
    partitions = partitions_of(request.v3_and_below_topics)

    def response(code: ErrorCode) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_results(dict.fromkeys(partitions, code))
        )

    bad = _bad_partitions(state, partitions, info)
    if bad:
        codes = {each: bad.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
        return answer(token, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(codes)))
    caller = Caller(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    )
    added = add(state, *caller, partitions, client_version=TV0, api_version=info.api_version)
    if isinstance(added, Transition):
        return Decision((added,), (Reply(token, response(ErrorCode.NONE)),))
    if added is ErrorCode.CONCURRENT_TRANSACTIONS and may_wait(state, caller):
        return hold(
            state, caller.transactional_id, token, lambda: _add_for_client(state, request, info, token)
        )
    return answer(token, response(added))


def add(
    state: ShardState,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: frozenset[TopicPartition],
    *,
    client_version: int,
    api_version: int,
) -> Transition | ErrorCode:
    """The transition that has to be written, or the answer if there is none."""
    transaction = state.transactions.get(transactional_id)
    if transaction is not None and transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    refusal = _refusal(transactional_id, transaction, producer_id, epoch, api_version)
    if refusal is not ErrorCode.NONE:
        return refusal
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
    """What is asked for, in the form of the newer versions."""
    if api_version >= SEVERAL_TRANSACTIONS_FROM:
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
    if api_version >= SEVERAL_TRANSACTIONS_FROM:
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


def _refusal(
    transactional_id: str, transaction: Transaction | None, producer_id: int, epoch: int, api_version: int
) -> ErrorCode:
    """Who may not touch the transaction, whether to add to it or to look at it."""
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
    """A pending transition does not matter: what is added already stays added until the end is prepared."""
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
    refusal = _refusal(transactional_id, transaction, producer_id, epoch, api_version)
    if refusal is not ErrorCode.NONE:
        return refusal
    assert transaction is not None
    added = partition in transaction.metadata.partitions
    return ErrorCode.NONE if added else ErrorCode.TRANSACTION_ABORTABLE
