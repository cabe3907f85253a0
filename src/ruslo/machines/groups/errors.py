"""Responses that contain only an error, in the schema of each request.

| situation                                             | code                         |
|-------------------------------------------------------|------------------------------|
| this node does not lead the partition, or cannot load | NOT_COORDINATOR              |
| the partition is loading                              | COORDINATOR_LOAD_IN_PROGRESS |
| the group protocol is disabled                        | UNSUPPORTED_VERSION          |
| the append failed, or was not committed in time       | see ``append_error``         |

Three requests differ: a classic Heartbeat succeeds while the partition is loading, TxnOffsetCommit below v2
does not know that code, and an OffsetFetch with RequireStable gets NOT_COORDINATOR for
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from ruslo.machines.groups.classic.responses import join_error
from ruslo.machines.groups.offsets.fetch import SEVERAL_GROUPS_MIN_VERSION
from ruslo.machines.machine import COORDINATOR_APPEND_ERRORS
from ruslo.model.errors import ErrorCode
from ruslo.protocol.message import Message
from ruslo.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ruslo.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
)
from ruslo.protocol.messages.consumer_group_describe_response import (
    DescribedGroup as DescribedConsumerGroup,
)
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from ruslo.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ruslo.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from ruslo.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup as DescribedOffsets,
)
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.join_group_request import JoinGroupRequest
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse
from ruslo.protocol.messages.offset_commit_request import OffsetCommitRequest
from ruslo.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ruslo.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ruslo.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ruslo.protocol.messages.share_group_describe_response import (
    DescribedGroup as DescribedShareGroup,
)
from ruslo.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_describe_response import (
    DescribedGroup as DescribedStreamsGroup,
)
from ruslo.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse
from ruslo.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ruslo.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from ruslo.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ruslo.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse
from ruslo.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ruslo.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_APPEND_ERRORS = COORDINATOR_APPEND_ERRORS | {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

OFFSET_FETCH_TOP_LEVEL_ERROR_MIN_VERSION = 2
TXN_COMMIT_LOADING_MIN_VERSION = 2


def append_error(code: ErrorCode) -> ErrorCode:
    """The error of a client whose records could not be appended, or not committed in time."""
    return _APPEND_ERRORS.get(code, code)


def error_response(request: Message, api_version: int, code: ErrorCode) -> Message:
    """The response that contains only ``code``. Raises TypeError for a request of another coordinator."""
    match request:
        case JoinGroupRequest():
            return join_error(code, "", api_version)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=code)
        case HeartbeatRequest():
            # The load starts all sessions again, so no member's session expires meanwhile.
            loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=code)
        case OffsetCommitRequest():
            return _offset_commit(request, code)
        case TxnOffsetCommitRequest():
            return _txn_offset_commit(request, api_version, code)
        case OffsetFetchRequest():
            return _offset_fetch(request, api_version, code)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=code)
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=code)
        case DescribeGroupsRequest():
            return DescribeGroupsResponse(
                groups=[DescribedGroup(group_id=each, error_code=code) for each in request.groups]
            )
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(
                results=[
                    DeletableGroupResult(group_id=each, error_code=code) for each in request.groups_names
                ]
            )
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=code)
        case ConsumerGroupDescribeRequest():
            return ConsumerGroupDescribeResponse(
                groups=[DescribedConsumerGroup(group_id=each, error_code=code) for each in request.group_ids]
            )
        case StreamsGroupHeartbeatRequest():
            return StreamsGroupHeartbeatResponse(error_code=code)
        case StreamsGroupDescribeRequest():
            return StreamsGroupDescribeResponse(
                groups=[DescribedStreamsGroup(group_id=each, error_code=code) for each in request.group_ids]
            )
        case StreamsGroupTopologyDescriptionUpdateRequest():
            return StreamsGroupTopologyDescriptionUpdateResponse(error_code=code)
        case ShareGroupHeartbeatRequest():
            return ShareGroupHeartbeatResponse(error_code=code)
        case ShareGroupDescribeRequest():
            return ShareGroupDescribeResponse(
                groups=[DescribedShareGroup(group_id=each, error_code=code) for each in request.group_ids]
            )
        case DescribeShareGroupOffsetsRequest():
            return DescribeShareGroupOffsetsResponse(
                groups=[DescribedOffsets(group_id=each.group_id, error_code=code) for each in request.groups]
            )
        case AlterShareGroupOffsetsRequest():
            return AlterShareGroupOffsetsResponse(error_code=code)
        case DeleteShareGroupOffsetsRequest():
            return DeleteShareGroupOffsetsResponse(error_code=code)
    raise TypeError(f"{type(request).__name__} is not a request for a group coordinator")


def _offset_commit(request: OffsetCommitRequest, code: ErrorCode) -> Message:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _txn_offset_commit(request: TxnOffsetCommitRequest, api_version: int, code: ErrorCode) -> Message:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < TXN_COMMIT_LOADING_MIN_VERSION:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_fetch(request: OffsetFetchRequest, api_version: int, code: ErrorCode) -> Message:
    if code is ErrorCode.COORDINATOR_NOT_AVAILABLE and request.require_stable:
        code = ErrorCode.NOT_COORDINATOR
    if api_version >= SEVERAL_GROUPS_MIN_VERSION:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(group_id=each.group_id, error_code=code) for each in request.groups
            ]
        )
    if api_version >= OFFSET_FETCH_TOP_LEVEL_ERROR_MIN_VERSION:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition, committed_offset=-1, metadata="", error_code=code
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )
