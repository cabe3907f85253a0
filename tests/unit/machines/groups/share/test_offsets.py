"""AlterShareGroupOffsets and DeleteShareGroupOffsets."""

from __future__ import annotations

import pytest

from ruslo.machines.machine import Unloaded
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
)
from ruslo.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ruslo.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
)
from ruslo.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from tests.support.groups.consumer_transcript import Consumer
from tests.support.groups.share_requests import alter_request, delete_request
from tests.support.groups.share_transcript import ShareConsumer, ShareTranscript, with_group


def send(
    transcript: ShareTranscript,
    text: str,
    request: AlterShareGroupOffsetsRequest | DeleteShareGroupOffsetsRequest,
) -> int:
    transcript.step(text)
    token = transcript.bench.send(request)
    transcript.show()
    return token


def altered(transcript: ShareTranscript, token: int) -> dict[str, dict[int, str]]:
    response = transcript.bench.response(token, AlterShareGroupOffsetsResponse)
    assert response.error_code == ErrorCode.NONE
    return {
        topic.topic_name: {each.partition_index: ErrorCode(each.error_code).name for each in topic.partitions}
        for topic in response.responses
    }


def deleted(transcript: ShareTranscript, token: int) -> dict[str, str]:
    response = transcript.bench.response(token, DeleteShareGroupOffsetsResponse)
    assert response.error_code == ErrorCode.NONE
    return {topic.topic_name: ErrorCode(topic.error_code).name for topic in response.responses}


def test_altered_offsets_create_a_group_that_members_join_later() -> None:
    transcript = ShareTranscript()
    token = send(transcript, "offsets are altered", alter_request({"orders": {0: 7, 1: 0}}))
    assert transcript.bench.is_parked(token)
    transcript.answer()
    assert altered(transcript, token) == {"orders": {0: "NONE", 1: "NONE"}}
    ShareConsumer(transcript, "a", "orders").join()
    assert transcript.text == (
        """\
> offsets are altered
15 initializing orders:0,1
initialize orders:0@7,1@0 at 1
> the share coordinator responds
15 initialized orders:0,1
> a joins orders
10 a orders
11 epoch 2
13 a orders:0,1
12 epoch 2
14 a epoch 2 ← 0 orders:0,1
15 initializing orders:2,3 initialized orders:0,1
initialize orders:2,3 at 2
a at 2 has orders:0,1
"""
    )


def test_a_member_that_joins_before_the_result_does_not_reset_the_offsets() -> None:
    transcript = ShareTranscript()
    send(transcript, "offsets are altered", alter_request({"orders": {0: 7}}))
    ShareConsumer(transcript, "a", "orders").join()
    assert transcript.lines[-2] == "initialize orders:1,2,3 at 2"


def test_unknown_partitions_are_errors_of_their_own() -> None:
    transcript = ShareTranscript()
    request = alter_request({"orders": {0: 7, 4: 1, -1: 1, 1: -2}, "absent": {0: 1}})
    token = send(transcript, "offsets are altered", request)
    transcript.answer()
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert altered(transcript, token) == {
        "orders": {0: "NONE", 4: unknown, -1: unknown, 1: "INVALID_REQUEST"},
        "absent": {0: unknown},
    }
    assert "initialize orders:0@7 at 1" in transcript.lines
    token = send(transcript, "nothing is altered", alter_request({"absent": {0: 1}}))
    assert altered(transcript, token) == {"absent": {0: unknown}}


def test_errors_of_the_share_coordinator_are_in_the_response() -> None:
    transcript = with_group("orders")
    token = send(transcript, "offsets are altered", alter_request({"orders": {0: 7, 1: 8}}))
    transcript.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, orders=[1])
    assert altered(transcript, token) == {"orders": {0: "NONE", 1: "COORDINATOR_NOT_AVAILABLE"}}
    assert transcript.text == (
        """\
> offsets are altered
15 initializing orders:0,1 initialized orders:0,1,2,3
initialize orders:0@7,1@8 at 3
> the share coordinator responds COORDINATOR_NOT_AVAILABLE
15 initialized orders:0,1,2,3
"""
    )


def test_deleted_offsets_are_initialized_again_for_the_next_member() -> None:
    transcript = with_group("orders", "parcels")
    token = send(transcript, "orders is deleted", delete_request("orders", "absent"))
    assert transcript.bench.is_parked(token)
    transcript.answer()
    assert deleted(transcript, token) == {"absent": "UNKNOWN_TOPIC_OR_PARTITION", "orders": "NONE"}
    ShareConsumer(transcript, "a", "orders").join()
    assert transcript.text == (
        """\
> orders is deleted
15 initialized parcels:0,1 deleting orders
delete orders:0,1,2,3
> the share coordinator responds
15 initialized parcels:0,1
> a joins orders
10 a orders
11 epoch 4
14 a epoch 2 ← 0
15 initializing orders:0,1,2,3 initialized parcels:0,1
initialize orders:0,1,2,3 at 4
a at 2 has nothing
"""
    )


def test_a_failed_deletion_can_be_repeated() -> None:
    transcript = with_group("orders")
    token = send(transcript, "orders is deleted", delete_request("orders"))
    transcript.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert deleted(transcript, token) == {"orders": "COORDINATOR_NOT_AVAILABLE"}
    token = send(transcript, "orders is deleted again", delete_request("orders"))
    transcript.answer()
    assert deleted(transcript, token) == {"orders": "NONE"}
    token = send(transcript, "nothing is left", delete_request("orders"))
    assert deleted(transcript, token) == {"orders": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_joining_initializes_a_topic_whose_deletion_failed() -> None:
    transcript = with_group("orders")
    send(transcript, "orders is deleted", delete_request("orders"))
    transcript.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ShareConsumer(transcript, "a", "orders").join()
    assert "15 initializing orders:0,1,2,3" in transcript.lines


@pytest.mark.parametrize("request_", [alter_request({"orders": {0: 1}}), delete_request("orders")])
def test_offsets_of_a_group_with_members_cannot_change(
    request_: AlterShareGroupOffsetsRequest | DeleteShareGroupOffsetsRequest,
) -> None:
    transcript = ShareTranscript()
    ShareConsumer(transcript, "a", "orders").join()
    assert error_of(transcript, request_) is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_other_groups_are_not_found() -> None:
    transcript = ShareTranscript()
    Consumer(transcript, "c", "orders").join()
    for request in (alter_request({"orders": {0: 1}}), delete_request("orders")):
        assert error_of(transcript, request) is ErrorCode.GROUP_ID_NOT_FOUND
    assert error_of(transcript, delete_request("orders", group="absent")) is ErrorCode.GROUP_ID_NOT_FOUND
    for nameless in (alter_request({"orders": {0: 1}}, group=""), delete_request("orders", group="")):
        assert error_of(transcript, nameless) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("commit", [False, True])
def test_a_change_that_cannot_be_written_fails_the_request(commit: bool) -> None:
    for request in (alter_request({"orders": {0: 1}}), delete_request("orders")):
        transcript = with_group("orders")
        if commit:
            transcript.bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
        else:
            transcript.bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert error_of(transcript, request) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert transcript.bench.queries == []


def test_a_coordinator_that_moves_fails_waiting_requests() -> None:
    for request in (alter_request({"orders": {0: 1}}), delete_request("orders")):
        transcript = with_group("orders")
        token = transcript.bench.send(request)
        transcript.bench.run(Unloaded())
        assert error_code(transcript, token) is ErrorCode.NOT_COORDINATOR


def error_of(
    transcript: ShareTranscript, request: AlterShareGroupOffsetsRequest | DeleteShareGroupOffsetsRequest
) -> ErrorCode:
    return error_code(transcript, transcript.bench.send(request))


def error_code(transcript: ShareTranscript, token: int) -> ErrorCode:
    response = transcript.bench.responses[token]
    assert isinstance(response, AlterShareGroupOffsetsResponse | DeleteShareGroupOffsetsResponse)
    assert response.responses == []
    return ErrorCode(response.error_code)
