"""AddOffsetsToTxn: a version 1 client is about to commit a group's offsets in its transaction.

This adds the partition of ``__consumer_offsets`` that stores the group to the transaction; checks and errors
are those of AddPartitionsToTxn. v2 adds PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.machine import Outcome, Reply
from ruslo.machines.txns.add_partitions import add
from ruslo.machines.txns.delayed_requests import TxnProducer, delay, may_delay
from ruslo.machines.txns.events import RequestInfo
from ruslo.machines.txns.outcome import TxnOutcome, reject, respond
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import TV0
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, TopicPartition
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse


def handle(
    state: ShardState, request: AddOffsetsToTxnRequest, info: RequestInfo, token: Hashable
) -> TxnOutcome:
    partition = state.cluster.offsets_partition_of(request.group_id)
    if partition is None:
        return reject(token, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer = TxnProducer(request.transactional_id, request.producer_id, request.producer_epoch)
    added = add(
        state,
        *producer,
        frozenset({TopicPartition(GROUP_OFFSETS_TOPIC, partition)}),
        client_version=TV0,
        api_version=info.api_version,
    )
    if isinstance(added, TxnRecord):
        return Outcome([added], [Reply(token, AddOffsetsToTxnResponse())])
    if added is ErrorCode.CONCURRENT_TRANSACTIONS and may_delay(state, producer):
        return delay(state, producer.transactional_id, token, lambda: handle(state, request, info, token))
    return respond(token, AddOffsetsToTxnResponse(error_code=added))
