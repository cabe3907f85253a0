"""The five requests of a share coordinator, each about one share-partition.

=================  =======================  ===========================================================
request            sender                   what it does
=================  =======================  ===========================================================
Initialize         the group coordinator    starts a state epoch at a start offset, without batches
Read               a new partition leader   reads the state, and fences leaders with an older epoch
Write              the partition leader     adds batches to the state
Delete             the group coordinator    removes the state; one that does not exist is no error
ReadSummary        the group coordinator    reads the state without batches
=================  =======================  ===========================================================
"""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.machine import Outcome
from ruslo.machines.share_coordinator.events import ShareOutcome
from ruslo.machines.share_coordinator.records import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_COUNT,
    UNKNOWN_EPOCH,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
)
from ruslo.machines.share_coordinator.responses import ShareRequest, failure_of, result_of
from ruslo.machines.share_coordinator.state import CoordinatorState, ShareState
from ruslo.machines.share_coordinator.state_batches import StateBatch, combine
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.message import Message
from ruslo.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from ruslo.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ruslo.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from ruslo.protocol.messages.read_share_group_state_response import StateBatch as ReadStateBatch
from ruslo.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from ruslo.protocol.messages.write_share_group_state_request import (
    PartitionData as WriteData,
)
from ruslo.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest

DEFAULT_EPOCH = 0
"""The epochs in the summary of a state that does not exist."""


def handle(state: CoordinatorState, request: ShareRequest, token: Hashable, wall_ms: int) -> ShareOutcome:
    """Handle a request that names exactly one share-partition."""
    outcome: ShareOutcome = Outcome(linearizable=True)
    try:
        response, record = _decide(state, request, wall_ms)
    except KafkaError as error:
        response, record = failure_of(request, error.code, error.message), None
    if record is not None:
        outcome.append([record])
    return outcome.reply(token, response)


def _decide(
    state: CoordinatorState, request: ShareRequest, wall_ms: int
) -> tuple[Message, ShareRecord | None]:
    topic = request.topics[0]
    key = ShareKey(request.group_id, topic.topic_id, topic.partitions[0].partition)
    _check_key(key)
    share = state.shares.get(key)
    match request:
        case InitializeShareGroupStateRequest():
            data = request.topics[0].partitions[0]
            _check_state_epoch(share, data.state_epoch)
            _check_exists(state, key)
            return result_of(request), _initialized(key, share, data.state_epoch, data.start_offset, wall_ms)
        case WriteShareGroupStateRequest():
            return result_of(request), _write(state, key, share, request.topics[0].partitions[0], wall_ms)
        case ReadShareGroupStateRequest():
            leader_epoch = request.topics[0].partitions[0].leader_epoch
            known = _check_leader(state, key, share, leader_epoch)
            return _read(state, request, key, known, leader_epoch, wall_ms)
        case ReadShareGroupStateSummaryRequest():
            return _summary(state, request, key, share), None
        case DeleteShareGroupStateRequest():
            _check_exists(state, key)
            return result_of(request), None if share is None else ShareRecord(key, None)


# -- changes -------------------------------------------------------------------------------------------------


def _initialized(
    key: ShareKey, share: ShareState | None, state_epoch: int, start_offset: int, wall_ms: int
) -> ShareRecord:
    snapshot_epoch = 0 if share is None else share.snapshot.snapshot_epoch + 1
    count = UNKNOWN_COUNT if start_offset == UNINITIALIZED_START_OFFSET else 0
    return ShareRecord(
        key,
        ShareSnapshot(snapshot_epoch, state_epoch, UNKNOWN_EPOCH, start_offset, count, wall_ms, wall_ms),
    )


def _write(
    state: CoordinatorState, key: ShareKey, share: ShareState | None, data: WriteData, wall_ms: int
) -> ShareRecord:
    known = _check_leader(state, key, share, data.leader_epoch)
    _check_state_epoch(known, data.state_epoch)
    batches: list[StateBatch] = []
    for each in data.state_batches:
        if each.first_offset < 0 or each.last_offset < each.first_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The state batch {each.first_offset} to {each.last_offset} is not a range of offsets.",
            )
        batches.append(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        )
    update = ShareUpdate(
        known.snapshot.snapshot_epoch,
        data.leader_epoch,
        data.start_offset,
        data.delivery_complete_count,
        combine([], batches, data.start_offset),
    )
    return _record_of(state, key, known, update, wall_ms)


def _record_of(
    state: CoordinatorState, key: ShareKey, share: ShareState, update: ShareUpdate, wall_ms: int
) -> ShareRecord:
    """The update itself, or a snapshot that includes it after a number of updates."""
    if share.updates < state.settings.updates_per_snapshot:
        return ShareRecord(key, update)
    return ShareRecord(key, snapshot_of(share, update, wall_ms))


def snapshot_of(share: ShareState, update: ShareUpdate, wall_ms: int) -> ShareSnapshot:
    """The next snapshot, with an update included."""
    after = share.updated(update)
    return ShareSnapshot(
        after.snapshot_epoch + 1,
        after.state_epoch,
        after.leader_epoch,
        after.start_offset,
        after.delivery_complete_count,
        after.create_ms,
        wall_ms,
        after.batches,
    )


# -- reads ---------------------------------------------------------------------------------------------------


def _read(
    state: CoordinatorState,
    request: ReadShareGroupStateRequest,
    key: ShareKey,
    share: ShareState,
    leader_epoch: int,
    wall_ms: int,
) -> tuple[Message, ShareRecord | None]:
    current = share.snapshot
    response = result_of(
        request,
        state_epoch=current.state_epoch,
        start_offset=current.start_offset,
        state_batches=[
            ReadStateBatch(
                first_offset=first, last_offset=last, delivery_state=value, delivery_count=delivery_count
            )
            for first, last, value, delivery_count in current.batches
        ],
    )
    if leader_epoch in (UNKNOWN_EPOCH, current.leader_epoch):
        return response, None
    update = ShareUpdate(current.snapshot_epoch, leader_epoch, UNINITIALIZED_START_OFFSET)
    return response, _record_of(state, key, share, update, wall_ms)


def _summary(
    state: CoordinatorState,
    request: ReadShareGroupStateSummaryRequest,
    key: ShareKey,
    share: ShareState | None,
) -> Message:
    leader_epoch = request.topics[0].partitions[0].leader_epoch
    if share is None:
        _check_exists(state, key)
        return result_of(
            request,
            state_epoch=DEFAULT_EPOCH,
            leader_epoch=DEFAULT_EPOCH,
            start_offset=UNINITIALIZED_START_OFFSET,
            delivery_complete_count=UNKNOWN_COUNT,
        )
    current = _check_leader(state, key, share, leader_epoch).snapshot
    return result_of(
        request,
        state_epoch=current.state_epoch,
        leader_epoch=current.leader_epoch,
        start_offset=current.start_offset,
        delivery_complete_count=current.delivery_complete_count,
    )


# -- checks --------------------------------------------------------------------------------------------------


def _check_key(key: ShareKey) -> None:
    if not key.group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The group id is empty.")
    if key.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The topic id is zero.")
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Partition {key.partition} is negative.")


def _check_exists(state: CoordinatorState, key: ShareKey) -> None:
    if not state.partition_exists(key.topic_id, key.partition):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The partition of {key} does not exist, or not any more."
        )


def _check_leader(
    state: CoordinatorState, key: ShareKey, share: ShareState | None, leader_epoch: int
) -> ShareState:
    """Return the state, which must exist; a leader with an older epoch was replaced."""
    if share is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{key} has no state. The group coordinator must initialize it before it is read or written.",
        )
    known = share.snapshot.leader_epoch
    if UNKNOWN_EPOCH < leader_epoch < known:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"Leader epoch {leader_epoch} of {key} is old: a leader with epoch {known} has read the state.",
        )
    _check_exists(state, key)
    return share


def _check_state_epoch(share: ShareState | None, state_epoch: int) -> None:
    if share is not None and UNKNOWN_EPOCH < state_epoch < share.snapshot.state_epoch:
        raise KafkaError(
            ErrorCode.FENCED_STATE_EPOCH,
            f"State epoch {state_epoch} is old: the state was initialized again with epoch "
            f"{share.snapshot.state_epoch}.",
        )
