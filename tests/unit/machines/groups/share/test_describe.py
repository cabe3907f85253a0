"""ShareGroupDescribe, and what other admin requests tell about share groups."""

from __future__ import annotations

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ruslo.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
)
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ruslo.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from tests.support.groups.consumer_transcript import Consumer
from tests.support.groups.group_bench import GroupBench
from tests.support.groups.offset_calls import commit
from tests.support.groups.share_transcript import ShareConsumer, ShareTranscript


def serving() -> GroupBench:
    transcript = ShareTranscript()
    a = ShareConsumer(transcript, "a", "parcels", "absent", rack_id="north")
    a.join()
    transcript.answer()
    transcript.wait(1_000)
    a.heartbeat()
    return transcript.bench


def describe(bench: GroupBench, *groups: str) -> list[DescribedGroup]:
    return bench.call(ShareGroupDescribeRequest(group_ids=list(groups)), ShareGroupDescribeResponse).groups


def test_a_description_has_epochs_members_and_assignments() -> None:
    bench = serving()
    partitions = TopicPartitions(topic_id=bench.topic_id("parcels"), topic_name="parcels", partitions=[0, 1])
    assert describe(bench, "g") == [
        DescribedGroup(
            group_id="g",
            group_state="Stable",
            group_epoch=3,
            assignment_epoch=3,
            assignor_name="simple",
            members=[
                Member(
                    member_id="a",
                    rack_id="north",
                    member_epoch=3,
                    client_id="app",
                    client_host="/10.0.0.3",
                    subscribed_topic_names=["absent", "parcels"],
                    assignment=Assignment(topic_partitions=[partitions]),
                )
            ],
        )
    ]


def test_groups_that_are_no_share_groups_are_not_found() -> None:
    bench = serving()
    transcript = ShareTranscript(bench, "c")
    Consumer(transcript, "c", "orders").join()
    assert [each.error_code for each in describe(bench, "c", "absent", "")] == [
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_GROUP_ID,
    ]


def test_share_groups_are_listed_by_state_and_type() -> None:
    bench = serving()
    transcript = ShareTranscript(bench, "e")
    gone = ShareConsumer(transcript, "b", "orders")
    gone.join()
    gone.leave()
    stable = ListedGroup(group_id="g", protocol_type="share", group_state="Stable", group_type="share")
    empty = ListedGroup(group_id="e", protocol_type="share", group_state="Empty", group_type="share")
    for request, expected in [
        (ListGroupsRequest(), [stable, empty]),
        (ListGroupsRequest(types_filter=["Share"]), [stable, empty]),
        (ListGroupsRequest(types_filter=["consumer"]), []),
        (ListGroupsRequest(states_filter=["Empty"], types_filter=["share"]), [empty]),
    ]:
        assert bench.call(request, ListGroupsResponse).groups == expected


def test_requests_about_other_groups_do_not_find_share_groups() -> None:
    bench = serving()
    (classic,) = bench.call(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse).groups
    (consumer,) = bench.call(
        ConsumerGroupDescribeRequest(group_ids=["g"]), ConsumerGroupDescribeResponse
    ).groups
    assert classic.error_code == consumer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(bench, 5) == ErrorCode.GROUP_ID_NOT_FOUND
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (fetched,) = bench.call(request, OffsetFetchResponse, 9).groups
    assert fetched.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_initialized_partitions_are_those_with_a_state() -> None:
    bench = serving()
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=None) for each in ("g", "absent")]
    )
    response = bench.call(request, DescribeShareGroupOffsetsResponse)
    found = {
        group.group_id: {
            topic.topic_name: [each.partition_index for each in topic.partitions] for topic in group.topics
        }
        for group in response.groups
    }
    assert found == {"g": {"parcels": [0, 1]}, "absent": {}}


def test_an_empty_share_group_does_not_expire() -> None:
    transcript = ShareTranscript()
    a = ShareConsumer(transcript, "a", "orders")
    a.join()
    a.leave()
    transcript.bench.advance(20 * 86_400_000)
    assert "g" in transcript.bench.shard.state.groups
