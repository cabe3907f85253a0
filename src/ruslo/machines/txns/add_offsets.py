"""AddOffsetsToTxn: a version 1 client is about to commit a group's offsets in its transaction.

The transaction then writes to the partition of ``__consumer_offsets`` that keeps the group; checks and
answers are those of AddPartitionsToTxn. v2 knows PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.outcome import Reply
from ruslo.machines.txns.add_partitions import add
from ruslo.machines.txns.decision import Decision, answer, refuse
from ruslo.machines.txns.events import RequestInfo
from ruslo.machines.txns.holding import Caller, hold, may_wait
from ruslo.machines.txns.state import ShardState
from ruslo.machines.txns.states import TV0
from ruslo.machines.txns.transaction import Transition
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, TopicPartition
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse


def handle(
    state: ShardState, request: AddOffsetsToTxnRequest, info: RequestInfo, token: Hashable
) -> Decision:
    partition = state.cluster.offsets_partition_of(request.group_id)
    if partition is None:
        return refuse(token, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    caller = Caller(request.transactional_id, request.producer_id, request.producer_epoch)
    added = add(
        state,
        *caller,
        frozenset({TopicPartition(GROUP_OFFSETS_TOPIC, partition)}),
        client_version=TV0,
        api_version=info.api_version,
    )
    if isinstance(added, Transition):
        return Decision((added,), (Reply(token, AddOffsetsToTxnResponse()),))
    if added is ErrorCode.CONCURRENT_TRANSACTIONS and may_wait(state, caller):
        return hold(state, caller.transactional_id, token, lambda: handle(state, request, info, token))
    return answer(token, AddOffsetsToTxnResponse(error_code=added))
