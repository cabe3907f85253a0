"""Commits, fetches, deletions and the expiry of a streams group's offsets."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.group import Committer
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse
from ruslo.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ruslo.protocol.messages.offset_delete_response import OffsetDeleteResponse
from tests.support.groups.group_bench import topic_id
from tests.support.groups.offset_calls import commit
from tests.support.groups.streams_transcript import (
    READY,
    StreamsTranscript,
    StreamThread,
    stateless_topology,
)


def reconciled() -> tuple[StreamsTranscript, StreamThread, StreamsGroup]:
    """Member a is at epoch 3; it has had the tasks 0 and 1 since epoch 2 and revoked 2 and 3."""
    transcript = StreamsTranscript(topics=READY)
    a, b = (StreamThread(transcript, name, stateless_topology()) for name in "ab")
    a.join()
    b.join()
    a.heartbeat()
    a.report_tasks()
    group = transcript.bench.shard.state.groups["g"]
    assert isinstance(group, StreamsGroup)
    return transcript, a, group


def check(
    group: StreamsGroup,
    epoch: int,
    *partitions: int,
    member_id: str = "a",
    topic: str = "orders",
    api_version: int = 10,
    transactional: bool = False,
) -> ErrorCode:
    info = TopicInfo(topic, topic_id(1), 4)
    return group.check_offset_commit(
        Committer(
            member_id, None, epoch, api_version, transactional, lambda: ((info, each) for each in partitions)
        )
    )


@pytest.mark.parametrize(
    ("epoch", "partitions", "code"),
    [
        (3, (0, 3), ErrorCode.NONE),
        (4, (0,), ErrorCode.STALE_MEMBER_EPOCH),
        (2, (0, 1), ErrorCode.NONE),
        (2, (0, 2), ErrorCode.STALE_MEMBER_EPOCH),
        (1, (0,), ErrorCode.STALE_MEMBER_EPOCH),
        (-1, (0,), ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_commits_of_a_member(epoch: int, partitions: tuple[int, ...], code: ErrorCode) -> None:
    _, _, group = reconciled()
    assert check(group, epoch, *partitions) is code


def test_other_commits() -> None:
    _, _, group = reconciled()
    assert check(group, 2, 0, topic="parcels") is ErrorCode.STALE_MEMBER_EPOCH
    assert check(group, 3, 0, member_id="x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert check(group, 3, 0, api_version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert check(group, -1, 0, member_id="", transactional=True) is ErrorCode.NONE
    assert check(group, -1, 0, member_id="") is ErrorCode.UNKNOWN_MEMBER_ID
    assert check(StreamsGroup("empty"), -1, 0, member_id="") is ErrorCode.NONE
    group.topology = None
    assert check(group, 2, 0) is ErrorCode.STALE_MEMBER_EPOCH


def test_fetches() -> None:
    _, _, group = reconciled()
    assert group.check_offset_fetch(None, -1) is ErrorCode.NONE
    assert group.check_offset_fetch("a", 3) is ErrorCode.NONE
    assert group.check_offset_fetch("a", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.check_offset_fetch("x", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def delete_offset(transcript: StreamsTranscript, topic: str) -> int:
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        ],
    )
    response = transcript.bench.call(request, OffsetDeleteResponse)
    return response.topics[0].partitions[0].error_code


def test_offsets_of_source_topics_are_kept_while_there_are_members() -> None:
    transcript = StreamsTranscript(topics=READY)
    a = StreamThread(transcript, "a", stateless_topology())
    a.join()
    commit(transcript.bench, 10, member="a", generation=2)
    assert delete_offset(transcript, "orders") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offset(transcript, "parcels") == ErrorCode.NONE
    a.leave()
    assert delete_offset(transcript, "orders") == ErrorCode.NONE


def test_a_group_expires_with_its_offsets() -> None:
    transcript = StreamsTranscript(topics=READY)
    a = StreamThread(transcript, "a", stateless_topology())
    a.join()
    commit(transcript.bench, 10, member="a", generation=2)
    retention_ms = transcript.bench.settings.offsets_retention_ms
    for _ in range(retention_ms // 40_000 + 1):
        transcript.bench.advance(40_000)
        a.report_tasks()
    assert "g" in transcript.bench.shard.state.groups
    a.leave()
    transcript.bench.advance(retention_ms)
    assert "g" not in transcript.bench.shard.state.groups
    transcript.bench.reload()
    assert "g" not in transcript.bench.shard.state.groups


def test_only_an_empty_group_can_be_deleted() -> None:
    transcript = StreamsTranscript(topics=READY)
    a = StreamThread(transcript, "a", stateless_topology())
    a.join()
    request = DeleteGroupsRequest(groups_names=["g"])
    for code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        (result,) = transcript.bench.call(request, DeleteGroupsResponse).results
        assert result.error_code == code
        if code is ErrorCode.NON_EMPTY_GROUP:
            a.leave()
    transcript.bench.reload()
    assert "g" not in transcript.bench.shard.state.groups


def test_listed_as_a_streams_group() -> None:
    transcript = StreamsTranscript(topics=READY)
    StreamThread(transcript, "a", stateless_topology()).join()
    request = ListGroupsRequest(types_filter=["Streams"], states_filter=["Stable"])
    (listed,) = transcript.bench.call(request, ListGroupsResponse).groups
    assert (listed.group_id, listed.group_type, listed.protocol_type) == ("g", "streams", "streams")
