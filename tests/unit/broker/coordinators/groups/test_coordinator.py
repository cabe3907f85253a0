"""Group shards load and unload with the leadership of their partitions, and equal the state of their logs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ruslo.broker.coordinators.runtime.record_codec import encode_record
from ruslo.broker.scheduling import scheduler
from ruslo.machines.groups.records import offset_record
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.control import end_txn_batch
from ruslo.records.record import Record
from tests.support.brokers.live_node import LiveNode, live_node, run, until
from tests.support.clients.raw_client import connected
from tests.support.groups.group_requests import (
    BY_NAME,
    commit,
    commit_request,
    fetch_offsets,
    find_coordinator,
)

OFFSETS = "__consumer_offsets"
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}
NOW = 1_700_000_000_000


def committed(offset: int, partition: int = 0) -> tuple[bytes, bytes | None]:
    record = offset_record(
        "g", "t", partition, offset=offset, leader_epoch=-1, metadata="", commit_ms=4_000_000_000_000
    )
    return encode_record(record.key, record.value, record.version)


def write(node: LiveNode, *records: tuple[bytes | None, bytes | None], **settings: int) -> None:
    """Append a batch to the offsets log without the coordinator."""
    listed = [Record(at, NOW, key, value) for at, (key, value) in enumerate(records)]
    node.partition(OFFSETS).append_records(build_batch(listed, **settings), NOW)


async def test_committed_state_survives_a_restart(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=4)
        await find_coordinator(client, "g")
        assert len(node.node.metadata.image.topics.by_name[OFFSETS].partitions) == 50
        for number in range(100):
            client.send(commit_request(f"group-{number}", {number % 4: number}), BY_NAME)
        for _ in range(100):
            await client.receive(OffsetCommitResponse)
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await until(lambda: all(node.node.broker.groups.is_active(index) for index in range(50)))
        for number in range(100):
            assert await fetch_offsets(client, f"group-{number}") == {number % 4: number}
        listed = await client.call(ListGroupsRequest(), ListGroupsResponse)
        assert {group.group_id for group in listed.groups} == {f"group-{n}" for n in range(100)}


async def test_long_load_leaves_the_loop_free_and_clients_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=4)
        await find_coordinator(client, "g")
        for start in range(0, 4000, 1000):
            write(node, *(committed(start + at, at % 4) for at in range(1000)))
    monkeypatch.setattr(scheduler, "SLICE_NS", 0)
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        assert not node.node.broker.groups.is_active(0)
        assert await commit(client, "g", {0: 1}) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        listed = await client.call(ListGroupsRequest(), ListGroupsResponse)
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        beat = await client.call(HeartbeatRequest(group_id="g", member_id="m"), HeartbeatResponse)
        assert beat.error_code == ErrorCode.NONE
        await until(lambda: node.node.broker.groups.is_active(0))
        assert await fetch_offsets(client, "g") == {0: 3996, 1: 3997, 2: 3998, 3: 3999}


async def test_markers_apply_to_transactional_offsets_on_load(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=4)
        await find_coordinator(client, "g")
        for producer_id in (7, 8, 9):
            write(
                node,
                committed(producer_id, producer_id - 7),
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                attributes=TRANSACTIONAL,
            )
        log, epoch = node.partition(OFFSETS).log, node.partition(OFFSETS).leader_epoch
        for producer_id, ends in ((7, True), (8, False)):
            marker = end_txn_batch(
                producer_id=producer_id, producer_epoch=0, commit=ends, coordinator_epoch=0, timestamp=NOW
            )
            log.append_marker(marker, epoch, NOW, 1)
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await until(lambda: node.node.broker.groups.is_active(0))
        assert await fetch_offsets(client, "g", [0, 1, 2]) == {0: 7, 1: -1, 2: -1}


def test_unknown_types_are_skipped_and_unknown_versions_reject_the_partition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, value = committed(5)
    assert value is not None

    async def scenario() -> None:
        async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
            await node.create("t", partitions=4)
            await find_coordinator(client, "g")
            write(node, ((99).to_bytes(2, "big"), b"?"), (key, value))
        async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
            await until(lambda: node.node.broker.groups.is_active(0))
            assert await fetch_offsets(client, "g") == {0: 5}
            write(node, (key, (77).to_bytes(2, "big") + value[2:]))
        async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
            await until(lambda: "cannot be loaded" in caplog.text)
            assert await commit(client, "g", {0: 1}) == [ErrorCode.NOT_COORDINATOR]
            # The groups of other partitions can still be listed.
            listed = await client.call(ListGroupsRequest(), ListGroupsResponse)
            assert (listed.error_code, listed.groups) == (0, [])

    with caplog.at_level(logging.WARNING):
        run(scenario())


async def test_offsets_of_a_deleted_topic_are_removed(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=4)
        await find_coordinator(client, "g")
        assert await commit(client, "g", {0: 1, 3: 2}) == [ErrorCode.NONE] * 2
        await node.delete("t")
        log = node.partition(OFFSETS).log
        await until(lambda: log.end_offset == 4)
        assert await fetch_offsets(client, "g") == {}


async def test_requests_get_not_coordinator_without_the_topic(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        assert await commit(client, "g", {0: 1}) == [ErrorCode.NOT_COORDINATOR]
        listed = await client.call(ListGroupsRequest(), ListGroupsResponse)
        assert (listed.error_code, listed.groups) == (0, [])


async def test_offsets_topic_may_be_deleted_and_recreated(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=4)
        await find_coordinator(client, "g")
        assert await commit(client, "g", {0: 1}) == [ErrorCode.NONE]
        await node.delete(OFFSETS)
        assert await commit(client, "g", {0: 1}) == [ErrorCode.NOT_COORDINATOR]
        assert (await find_coordinator(client, "g")).error_code == 0
        assert await fetch_offsets(client, "g") == {}
        assert await commit(client, "g", {0: 9}) == [ErrorCode.NONE]
