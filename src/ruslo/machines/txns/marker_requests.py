"""Converts markers to WriteTxnMarkers v1-2 and back.

Only markers for other nodes become requests; markers for partitions of its own node a coordinator writes
directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ruslo.machines.txns.records import by_topic
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ruslo.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

MarkerCodes: TypeAlias = Mapping[tuple[int, TopicPartition], int]
"""The error codes of markers by producer id and partition."""


class EndMarker(NamedTuple):
    """The end of one producer's transaction, for some of its partitions."""

    producer_id: int
    epoch: int
    commits: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: list[TopicPartition]


def request_of(markers: Iterable[EndMarker]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.epoch,
                transaction_result=marker.commits,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(marker.partitions)
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker in markers
        ]
    )


def markers_of(request: WriteTxnMarkersRequest) -> list[EndMarker]:
    return [
        EndMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
            [
                TopicPartition(topic.name, index)
                for topic in marker.topics
                for index in topic.partition_indexes
            ],
        )
        for marker in request.markers
    ]


def response_of(request: WriteTxnMarkersRequest, codes: MarkerCodes) -> WriteTxnMarkersResponse:
    """The response to a request; every one of its markers must have a code."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=codes[marker.producer_id, TopicPartition(topic.name, index)],
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def codes_of(response: WriteTxnMarkersResponse) -> MarkerCodes:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
