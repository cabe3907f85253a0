"""Initialize, Read, Write, Delete and ReadSummary of share-partitions, each also after a reload."""

from __future__ import annotations

import pytest

from ruslo.machines.share_coordinator.records import ShareKey, ShareSnapshot, ShareUpdate
from ruslo.machines.share_coordinator.responses import error_response, joined, split
from ruslo.machines.share_coordinator.state import ShareCoordinatorSettings
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse
from tests.support.share.coordinator_bench import ShareCoordinatorBench
from tests.support.share.state_requests import (
    GROUP,
    TOPIC,
    batches,
    code,
    delete_request,
    initialize_request,
    read_request,
    result,
    summary_request,
    write_request,
)

KEY = ShareKey(GROUP, TOPIC, 0)


def initialized(settings: ShareCoordinatorSettings | None = None) -> ShareCoordinatorBench:
    bench = ShareCoordinatorBench(settings)
    assert code(bench.call(initialize_request(1, 5))) is ErrorCode.NONE
    return bench


def test_a_key_has_kafkas_text() -> None:
    assert str(ShareKey("a group", b"\x00" * 15 + b"\x09", 3)) == "a group:AAAAAAAAAAAAAAAAAAAACQ:3"


def test_state_is_initialized_written_and_read() -> None:
    bench = initialized()
    assert code(bench.call(write_request((5, 9, 0, 1), (7, 7, 2, 1), start_offset=5, complete=1))) == 0
    bench.call(write_request((5, 5, 2, 1), start_offset=-1, complete=-1))
    for _ in range(2):
        response = bench.call(read_request())
        assert batches(response) == [(5, 5, 2, 1), (6, 6, 0, 1), (7, 7, 2, 1), (8, 9, 0, 1)]
        assert (result(response).start_offset, result(response).state_epoch) == (5, 1)
        found = result(bench.call(summary_request()))
        assert (found.start_offset, found.state_epoch, found.leader_epoch) == (5, 1, 0)
        assert found.delivery_complete_count == 1
        bench.reload()
    bench.call(write_request((6, 6, 2, 1), start_offset=8))
    assert batches(bench.call(read_request())) == [(8, 9, 0, 1)]


def test_an_initialization_replaces_the_state_and_fences_older_ones() -> None:
    bench = initialized()
    bench.call(write_request((5, 9, 0, 1), leader_epoch=4))
    assert code(bench.call(initialize_request(3, 100))) is ErrorCode.NONE
    assert bench.log[-1].value == ShareSnapshot(1, 3, -1, 100, 0, bench.wall_ms, bench.wall_ms)
    for _ in range(2):
        assert code(bench.call(initialize_request(2, 0))) is ErrorCode.FENCED_STATE_EPOCH
        assert code(bench.call(write_request(state_epoch=2, leader_epoch=4))) is ErrorCode.FENCED_STATE_EPOCH
        # The leader epoch is still known.
        assert code(bench.call(write_request(state_epoch=3, leader_epoch=3))) is ErrorCode.FENCED_LEADER_EPOCH
        response = bench.call(read_request(4))
        assert (batches(response), result(response).start_offset) == ([], 100)
        bench.reload()
    assert code(bench.call(initialize_request(3, 100))) is ErrorCode.NONE


def test_a_read_fences_the_leader_before() -> None:
    bench = initialized()
    bench.call(write_request((5, 9, 0, 1), leader_epoch=2))
    count = len(bench.log)
    bench.call(read_request(2))
    bench.call(read_request(-1))
    assert len(bench.log) == count
    assert batches(bench.call(read_request(3))) == [(5, 9, 0, 1)]
    assert bench.log[-1].value == ShareUpdate(0, 3, -1)
    bench.reload()
    for request in (write_request(leader_epoch=2), read_request(2), summary_request(2)):
        assert code(bench.call(request)) is ErrorCode.FENCED_LEADER_EPOCH
    assert result(bench.call(summary_request())).start_offset == 0


def test_state_that_does_not_exist() -> None:
    bench = ShareCoordinatorBench()
    assert code(bench.call(read_request())) is ErrorCode.INVALID_REQUEST
    assert code(bench.call(write_request())) is ErrorCode.INVALID_REQUEST
    found = result(bench.call(summary_request()))
    assert (found.error_code, found.start_offset, found.delivery_complete_count) == (0, -1, -1)
    assert code(bench.call(delete_request())) is ErrorCode.NONE
    assert bench.log == []


def test_delete_removes_the_state() -> None:
    bench = initialized()
    assert code(bench.call(delete_request())) is ErrorCode.NONE
    assert code(bench.call(read_request())) is ErrorCode.INVALID_REQUEST
    bench.reload()
    assert KEY not in bench.shard.state.shares
    # Epochs begin again.
    assert code(bench.call(initialize_request(0, 3))) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (initialize_request(group=""), ErrorCode.INVALID_REQUEST),
        (initialize_request(topic=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (initialize_request(partition=-1), ErrorCode.INVALID_REQUEST),
        (initialize_request(topic=b"x" * 16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (initialize_request(partition=5_000), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (summary_request(topic=b"x" * 16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (delete_request(topic=b"x" * 16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (write_request((9, 5, 0, 1)), ErrorCode.INVALID_REQUEST),
        (write_request((-9, 5, 0, 1)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_requests_that_are_rejected(request_: object, expected: ErrorCode) -> None:
    bench = initialized()
    count = len(bench.log)
    response = bench.call(request_)  # type: ignore[arg-type]
    assert code(response) is expected
    assert result(response).error_message
    assert len(bench.log) == count


def test_a_snapshot_follows_a_number_of_updates() -> None:
    bench = initialized(ShareCoordinatorSettings(updates_per_snapshot=3))
    for offset in range(8):
        bench.call(write_request((5 + offset, 5 + offset, 2, 1), start_offset=5, complete=offset))
    kinds = [type(record.value).__name__[5:] for record in bench.log]
    assert kinds == ["Snapshot", *["Update"] * 3, "Snapshot", *["Update"] * 3, "Snapshot"]
    last = bench.log[-1].value
    assert isinstance(last, ShareSnapshot)
    assert (last.snapshot_epoch, last.state_epoch, last.delivery_complete_count) == (2, 1, 7)
    assert [tuple(each) for each in last.batches] == [(5, 12, 2, 1)]


def test_an_older_version_of_write_keeps_the_count() -> None:
    bench = initialized()
    bench.call(write_request(complete=4))
    bench.call(write_request(), version=0)
    assert result(bench.call(summary_request())).delivery_complete_count == 4


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_failed_appends(error: ErrorCode, expected: ErrorCode) -> None:
    bench = initialized()
    bench.append_error = error
    assert code(bench.call(write_request())) is expected


def test_requests_are_split_by_share_partition_and_joined() -> None:
    request = write_request((0, 0, 2, 1), partition=0)
    request.topics[0].partitions += write_request(partition=1).topics[0].partitions
    request.topics += write_request(topic=b"y" * 16, partition=9).topics
    parts = list(split(request))
    assert [key for key, _ in parts] == [
        ShareKey(GROUP, TOPIC, 0),
        ShareKey(GROUP, TOPIC, 1),
        ShareKey(GROUP, b"y" * 16, 9),
    ]
    assert [len(part.topics[0].partitions) for _, part in parts] == [1, 1, 1]
    responses = [error_response(part, 1, ErrorCode(at)) for at, (_, part) in enumerate(parts)]
    response = joined(request, responses)
    assert isinstance(response, WriteShareGroupStateResponse)
    found = [(each.partition, each.error_code) for topic in response.results for each in topic.partitions]
    assert found == [(0, 0), (1, 1), (9, 2)]
    assert len(response.results) == 2


def test_requests_of_other_coordinators_are_rejected() -> None:
    bench = initialized()
    with pytest.raises(TypeError, match="HeartbeatRequest is not a request for a share coordinator"):
        bench.call(HeartbeatRequest())
