"""Error counters find the error codes at every level of a response."""

from __future__ import annotations

from ruslo.broker.counters.api_stats import ApiStats, RequestStats, error_codes_in
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ruslo.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup


def test_codes_at_the_top_level_in_lists_and_in_nested_lists() -> None:
    assert list(error_codes_in(HeartbeatResponse(error_code=27))) == [27]
    topics = [CreatableTopicResult(error_code=code) for code in (0, 36, 17)]
    assert list(error_codes_in(CreateTopicsResponse(topics=topics))) == [36, 17]
    partitions = [MetadataResponsePartition(error_code=code) for code in (5, 0)]
    metadata = MetadataResponse(
        topics=[MetadataResponseTopic(error_code=3), MetadataResponseTopic(partitions=partitions)]
    )
    assert sorted(error_codes_in(metadata)) == [3, 5]
    assert list(error_codes_in(DescribeGroupsResponse(groups=[DescribedGroup()]))) == []


def test_nullable_list() -> None:
    group = OffsetFetchResponseGroup(group_id="g", error_code=16)
    assert list(error_codes_in(OffsetFetchResponse(groups=[group]))) == [16]


def test_stats_of_an_api_are_created_once_and_count_by_code() -> None:
    requests = RequestStats(SystemClock())
    stats = requests.of("Heartbeat")
    assert requests.of("Heartbeat") is stats
    assert isinstance(stats, ApiStats)
    stats.record_response(stats.now_ns())
    stats.record_errors(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    stats.record_errors(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    stats.record_errors(HeartbeatResponse())
    assert stats.errors == {ErrorCode.REBALANCE_IN_PROGRESS: 2}
    assert stats.durations.count == 1
