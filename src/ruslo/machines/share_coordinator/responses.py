"""Responses of the share coordinator: each has results by topic id and partition.

The coordinator handles one share-partition at a time, in requests that name exactly one. ``split`` makes them
from the request of a broker, and ``joined`` puts their responses together. ``merged`` is the reverse of
``split``, and ``results_by_key`` reads a response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from ruslo.machines.share_coordinator.records import ShareKey
from ruslo.model.errors import ErrorCode
from ruslo.protocol.message import Message
from ruslo.protocol.messages import delete_share_group_state_request as delete_request
from ruslo.protocol.messages import delete_share_group_state_response as delete_response
from ruslo.protocol.messages import initialize_share_group_state_request as initialize_request
from ruslo.protocol.messages import initialize_share_group_state_response as initialize_response
from ruslo.protocol.messages import read_share_group_state_request as read_request
from ruslo.protocol.messages import read_share_group_state_response as read_response
from ruslo.protocol.messages import read_share_group_state_summary_request as summary_request
from ruslo.protocol.messages import read_share_group_state_summary_response as summary_response
from ruslo.protocol.messages import write_share_group_state_request as write_request
from ruslo.protocol.messages import write_share_group_state_response as write_response

ShareRequest: TypeAlias = (
    initialize_request.InitializeShareGroupStateRequest
    | read_request.ReadShareGroupStateRequest
    | write_request.WriteShareGroupStateRequest
    | delete_request.DeleteShareGroupStateRequest
    | summary_request.ReadShareGroupStateSummaryRequest
)


class _Shape(NamedTuple):
    """The classes of one API; the generated ones have no common base."""

    request_topic: Any
    response: Any
    topic: Any
    partition: Any


_SHAPES: dict[type[Message], _Shape] = {
    initialize_request.InitializeShareGroupStateRequest: _Shape(
        initialize_request.InitializeStateData,
        initialize_response.InitializeShareGroupStateResponse,
        initialize_response.InitializeStateResult,
        initialize_response.PartitionResult,
    ),
    read_request.ReadShareGroupStateRequest: _Shape(
        read_request.ReadStateData,
        read_response.ReadShareGroupStateResponse,
        read_response.ReadStateResult,
        read_response.PartitionResult,
    ),
    write_request.WriteShareGroupStateRequest: _Shape(
        write_request.WriteStateData,
        write_response.WriteShareGroupStateResponse,
        write_response.WriteStateResult,
        write_response.PartitionResult,
    ),
    delete_request.DeleteShareGroupStateRequest: _Shape(
        delete_request.DeleteStateData,
        delete_response.DeleteShareGroupStateResponse,
        delete_response.DeleteStateResult,
        delete_response.PartitionResult,
    ),
    summary_request.ReadShareGroupStateSummaryRequest: _Shape(
        summary_request.ReadStateSummaryData,
        summary_response.ReadShareGroupStateSummaryResponse,
        summary_response.ReadStateSummaryResult,
        summary_response.PartitionResult,
    ),
}


def split(request: ShareRequest) -> Iterator[tuple[ShareKey, ShareRequest]]:
    """One request for each share-partition of a request."""
    shape = _SHAPES[type(request)]
    for topic in request.topics:
        for partition in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, partition.partition)
            topics = [shape.request_topic(topic_id=topic.topic_id, partitions=[partition])]
            yield key, type(request)(group_id=request.group_id, topics=topics)


def response_type(request: ShareRequest) -> type[Message]:
    kind: type[Message] = _SHAPES[type(request)].response
    return kind


def merged(parts: Iterable[ShareRequest]) -> ShareRequest:
    """One request with the share-partitions of these requests, which are of one kind and one group."""
    parts = list(parts)
    shape = _SHAPES[type(parts[0])]
    topics: list[Any] = []
    for topic in (topic for part in parts for topic in part.topics):
        if topics and topics[-1].topic_id == topic.topic_id:
            topics[-1].partitions += topic.partitions
        else:
            topics.append(shape.request_topic(topic_id=topic.topic_id, partitions=list(topic.partitions)))
    return type(parts[0])(group_id=parts[0].group_id, topics=topics)


def results_by_key(group_id: str, response: Any) -> dict[ShareKey, Any]:
    """The results of a response by share-partition; each has an error code and message."""
    return {
        ShareKey(group_id, topic.topic_id, result.partition): result
        for topic in response.results
        for result in topic.partitions
    }


def joined(request: ShareRequest, responses: Iterable[Any]) -> Message:
    """The response with the results of these responses, in their order."""
    shape = _SHAPES[type(request)]
    results: list[Any] = []
    for each in responses:
        for topic in each.results:
            if results and results[-1].topic_id == topic.topic_id:
                results[-1].partitions += topic.partitions
            else:
                results.append(topic)
    response: Message = shape.response(results=results)
    return response


def result_of(request: ShareRequest, **fields: object) -> Message:
    """The response to a request with one share-partition."""
    shape = _SHAPES[type(request)]
    topic = request.topics[0]
    partition = shape.partition(partition=topic.partitions[0].partition, **fields)
    response: Message = shape.response(results=[shape.topic(topic_id=topic.topic_id, partitions=[partition])])
    return response


def failure_of(request: ShareRequest, code: ErrorCode, message: str | None = None) -> Message:
    """The response with this error for every share-partition."""
    shape = _SHAPES[type(request)]
    response: Message = shape.response(
        results=[
            shape.topic(
                topic_id=topic.topic_id,
                partitions=[
                    shape.partition(partition=each.partition, error_code=code, error_message=message)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    return response


def error_response(request: Message, api_version: int, code: ErrorCode) -> Message:
    """The response that contains only ``code``. Raises TypeError for a request of another coordinator."""
    if not isinstance(request, ShareRequest):
        raise TypeError(f"{type(request).__name__} is not a request for a share coordinator")
    return failure_of(request, code)
