"""Error responses of a broker that does not coordinate the group."""

from __future__ import annotations

import pytest

from ruslo.machines.groups.errors import append_error, error_response
from ruslo.model.errors import ErrorCode
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.message import Message
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.join_group_request import JoinGroupRequest
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ruslo.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ruslo.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

TXN_COMMIT = TxnOffsetCommitRequest(
    topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[TxnOffsetCommitRequestPartition()])]
)
FETCH = OffsetFetchRequest(
    topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
    groups=[OffsetFetchRequestGroup(group_id="g")],
)
REQUESTS: list[Message] = [
    JoinGroupRequest(group_id="g"),
    SyncGroupRequest(group_id="g"),
    HeartbeatRequest(group_id="g"),
    LeaveGroupRequest(group_id="g"),
    OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition()])]
    ),
    TXN_COMMIT,
    FETCH,
    OffsetDeleteRequest(group_id="g"),
    ListGroupsRequest(),
    DescribeGroupsRequest(groups=["g"]),
    DeleteGroupsRequest(groups_names=["g"]),
    ConsumerGroupHeartbeatRequest(group_id="g"),
    ConsumerGroupDescribeRequest(group_ids=["g"]),
]


def codes(message: object) -> set[int]:
    """Every error code in a message, at any depth."""
    found: set[int] = set()
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name == "error_code":
            found.add(value)
        elif isinstance(value, list):
            for each in value:
                found |= codes(each)
    return found


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_every_request_has_an_error_response_in_every_version(request_: Message) -> None:
    api = API_BY_KEY[request_.API_KEY]
    for version in range(api.min_version, api.max_version + 1):
        response = error_response(request_, version, ErrorCode.NOT_COORDINATOR)
        received = type(response).from_bytes(response.to_bytes(version), version)
        assert ErrorCode.NOT_COORDINATOR in codes(received), version


def test_while_loading() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    heartbeat = error_response(HeartbeatRequest(), 4, loading)
    assert heartbeat == HeartbeatResponse(error_code=ErrorCode.NONE)
    for version, code in ((1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, loading)):
        response = error_response(TXN_COMMIT, version, loading)
        assert isinstance(response, TxnOffsetCommitResponse)
        assert response.topics[0].partitions[0].error_code == code
    assert codes(error_response(JoinGroupRequest(), 9, loading)) == {loading}


def test_stable_fetch_gets_not_coordinator() -> None:
    plain = error_response(FETCH, 8, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert isinstance(plain, OffsetFetchResponse)
    assert plain.groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    stable = OffsetFetchRequest(groups=FETCH.groups, require_stable=True)
    response = error_response(stable, 8, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert isinstance(response, OffsetFetchResponse)
    assert response.groups[0].error_code == ErrorCode.NOT_COORDINATOR


def test_oldest_fetch_has_its_error_in_the_partitions() -> None:
    response = error_response(FETCH, 1, ErrorCode.NOT_COORDINATOR)
    assert isinstance(response, OffsetFetchResponse)
    partition = response.topics[0].partitions[0]
    assert (partition.error_code, partition.committed_offset) == (ErrorCode.NOT_COORDINATOR, -1)


@pytest.mark.parametrize(
    ("codes_sent", "expected"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_append_errors_are_translated_for_clients(codes_sent: ErrorCode, expected: ErrorCode) -> None:
    assert append_error(codes_sent) is expected


def test_request_of_another_api_is_a_bug() -> None:
    with pytest.raises(TypeError, match="ApiVersionsRequest"):
        error_response(ApiVersionsRequest(), 4, ErrorCode.NOT_COORDINATOR)
