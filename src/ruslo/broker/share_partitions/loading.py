"""Loads a share-partition: reads its state from the share coordinator, and finds where a new group starts."""

from __future__ import annotations

from ruslo.broker.coordinators.share.persister import SharePersister
from ruslo.broker.share_partitions.led_partition import LedSharePartition
from ruslo.broker.share_partitions.persister_errors import persister_error
from ruslo.broker.share_partitions.start_offset import initial_offset
from ruslo.machines.share_coordinator.records import UNINITIALIZED_START_OFFSET
from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.values import StateBatch
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.read_share_group_state_request import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)


async def load(led: LedSharePartition, persister: SharePersister, clock: Clock) -> SharePartition:
    """The machine with the persisted state; raises KafkaError or StorageError.

    Reading with the leader epoch fences writes of the leader before.
    """
    group_id, topic_id, index = led.key
    data = PartitionData(partition=index, leader_epoch=led.leader_epoch)
    topics = [ReadStateData(topic_id=topic_id, partitions=[data])]
    results = await persister.request(ReadShareGroupStateRequest(group_id=group_id, topics=topics))
    state = results.get(led.key)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The share coordinator did not return {led}.")
    error = persister_error(state.error_code, state.error_message)
    if error is not None:
        raise error
    led.state_epoch = state.state_epoch
    start_offset = state.start_offset
    if start_offset == UNINITIALIZED_START_OFFSET:
        start_offset = initial_offset(led.partition, led.config.offset_reset, clock.now_ms())
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in state.state_batches
    ]
    try:
        return SharePartition(led.config.settings, start_offset, batches)
    except ValueError as invalid:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The state of {led} cannot be loaded: {invalid}."
        ) from invalid
