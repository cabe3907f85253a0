"""Requests about the state of one share-partition, and the result in their responses."""

from __future__ import annotations

from typing import Any

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.messages import delete_share_group_state_request as delete
from ruslo.protocol.messages import initialize_share_group_state_request as initialize
from ruslo.protocol.messages import read_share_group_state_request as read
from ruslo.protocol.messages import read_share_group_state_summary_request as summary
from ruslo.protocol.messages import write_share_group_state_request as write

TOPIC: Uuid = b"topic-id-16bytes"
GROUP = "g"


def initialize_request(
    state_epoch: int = 1,
    start_offset: int = 0,
    *,
    topic: Uuid = TOPIC,
    partition: int = 0,
    group: str = GROUP,
) -> initialize.InitializeShareGroupStateRequest:
    data = initialize.PartitionData(partition=partition, state_epoch=state_epoch, start_offset=start_offset)
    topics = [initialize.InitializeStateData(topic_id=topic, partitions=[data])]
    return initialize.InitializeShareGroupStateRequest(group_id=group, topics=topics)


def write_request(
    *batches: tuple[int, int, int, int],
    start_offset: int = 0,
    state_epoch: int = 1,
    leader_epoch: int = 0,
    complete: int = 0,
    topic: Uuid = TOPIC,
    partition: int = 0,
) -> write.WriteShareGroupStateRequest:
    data = write.PartitionData(
        partition=partition,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=complete,
        state_batches=[
            write.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in batches
        ],
    )
    topics = [write.WriteStateData(topic_id=topic, partitions=[data])]
    return write.WriteShareGroupStateRequest(group_id=GROUP, topics=topics)


def read_request(
    leader_epoch: int = 0, *, topic: Uuid = TOPIC, partition: int = 0
) -> read.ReadShareGroupStateRequest:
    data = read.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topics = [read.ReadStateData(topic_id=topic, partitions=[data])]
    return read.ReadShareGroupStateRequest(group_id=GROUP, topics=topics)


def summary_request(
    leader_epoch: int = -1, *, topic: Uuid = TOPIC, partition: int = 0
) -> summary.ReadShareGroupStateSummaryRequest:
    data = summary.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topics = [summary.ReadStateSummaryData(topic_id=topic, partitions=[data])]
    return summary.ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=topics)


def delete_request(*, topic: Uuid = TOPIC, partition: int = 0) -> delete.DeleteShareGroupStateRequest:
    data = delete.PartitionData(partition=partition)
    topics = [delete.DeleteStateData(topic_id=topic, partitions=[data])]
    return delete.DeleteShareGroupStateRequest(group_id=GROUP, topics=topics)


def result(response: Any) -> Any:
    """The result of the only share-partition."""
    (topic,) = response.results
    (partition,) = topic.partitions
    return partition


def code(response: Any) -> ErrorCode:
    return ErrorCode(result(response).error_code)


def batches(response: Any) -> list[tuple[int, int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in result(response).state_batches
    ]
