"""Short functions for requests to a group coordinator."""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ruslo.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from tests.support.clients.raw_client import RawClient

SEVERAL_KEYS_FROM = 4
SEVERAL_GROUPS_FROM = 8
BY_NAME = 9
"""The newest version of OffsetCommit and OffsetFetch that names topics."""


async def find_coordinator(client: RawClient, group_id: str, version: int = 4) -> Coordinator:
    request = FindCoordinatorRequest(coordinator_keys=[group_id])
    if version < SEVERAL_KEYS_FROM:
        request = FindCoordinatorRequest(key=group_id)
    response = await client.call(request, FindCoordinatorResponse, version)
    if version >= SEVERAL_KEYS_FROM:
        return response.coordinators[0]
    return Coordinator(
        key=group_id,
        node_id=response.node_id,
        host=response.host,
        port=response.port,
        error_code=response.error_code,
        error_message=response.error_message,
    )


def commit_request(
    group_id: str,
    offsets: Mapping[int, int],
    *,
    topic: str = "t",
    topic_id: Uuid = ZERO_UUID,
    member_id: str = "",
    generation: int = -1,
    metadata: str | None = "",
) -> OffsetCommitRequest:
    """``offsets`` by partition."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index, offset in offsets.items()
                ],
            )
        ],
    )


def commit_codes(response: OffsetCommitResponse) -> list[ErrorCode]:
    return [ErrorCode(each.error_code) for topic in response.topics for each in topic.partitions]


async def commit(client: RawClient, group_id: str, offsets: Mapping[int, int]) -> list[ErrorCode]:
    """Commit offsets as a client that is not a member."""
    response = await client.call(commit_request(group_id, offsets), OffsetCommitResponse, BY_NAME)
    return commit_codes(response)


async def fetch_offsets(
    client: RawClient, group_id: str, partitions: list[int] | None = None, version: int = BY_NAME
) -> dict[int, int]:
    """Committed offsets of topic ``t`` by partition, all without ``partitions``; raises on an error."""
    if version >= SEVERAL_GROUPS_FROM:
        topics = None
        if partitions is not None:
            topics = [OffsetFetchRequestTopics(name="t", partition_indexes=partitions)]
        requested = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        response = await client.call(OffsetFetchRequest(groups=[requested]), OffsetFetchResponse, version)
        (group,) = response.groups
        assert group.error_code == 0, ErrorCode(group.error_code).name
        return {
            each.partition_index: each.committed_offset for topic in group.topics for each in topic.partitions
        }
    old = None if partitions is None else [OffsetFetchRequestTopic(name="t", partition_indexes=partitions)]
    request = OffsetFetchRequest(group_id=group_id, topics=old)
    response = await client.call(request, OffsetFetchResponse, version)
    assert response.error_code == 0, ErrorCode(response.error_code).name
    return {
        each.partition_index: each.committed_offset for topic in response.topics for each in topic.partitions
    }
