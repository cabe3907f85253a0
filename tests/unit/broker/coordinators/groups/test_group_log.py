"""Offset commits through a whole node, and the resulting ``__consumer_offsets`` log."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from ruslo.broker.requests.context import RequestContext
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.shard import GroupShard
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ruslo.protocol.messages.join_group_response import JoinGroupResponse
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ruslo.records.batch import BatchHeader
from ruslo.records.control import end_txn_batch
from ruslo.records.reader import iter_batches
from ruslo.storage.disk import DiskError
from tests.support.brokers.live_node import HeldDisk, LiveNode, held_disks, live_node, until
from tests.support.clients.raw_client import RawClient, connected
from tests.support.groups.group_requests import (
    BY_NAME,
    commit,
    commit_codes,
    commit_request,
    fetch_offsets,
    find_coordinator,
)

__all__ = ["held_disks"]

ONE_PARTITION = {"offsets.topic.num.partitions": "1"}
OFFSETS = "__consumer_offsets"


def batches(node: LiveNode, index: int = 0) -> list[BatchHeader]:
    """The headers of all batches in the offsets log."""
    log = node.partition(OFFSETS, index).log
    headers: list[BatchHeader] = []
    offset = log.start_offset
    while offset < log.end_offset:
        log_slice = log.read(offset, 1 << 20, log.end_offset).slice
        assert log_slice is not None
        headers += [header for _, header in iter_batches(log_slice.read())]
        offset = headers[-1].last_offset + 1
    return headers


async def ready(node: LiveNode, client: RawClient) -> None:
    await node.create("t", partitions=4)
    assert (await find_coordinator(client, "g")).error_code == 0


def join_request(group_id: str, **settings: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        protocol_type="consumer",
        session_timeout_ms=settings.get("session_timeout_ms", 10_000),
        rebalance_timeout_ms=settings.get("rebalance_timeout_ms", 10_000),
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
    )


async def test_concurrent_commits_share_a_batch(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        for number in range(50):
            client.send(commit_request(f"g{number % 5}", {number % 4: number}), BY_NAME)
        responses = [await client.receive(OffsetCommitResponse) for _ in range(50)]
        assert {code for response in responses for code in commit_codes(response)} == {ErrorCode.NONE}
        written = batches(node)
        assert sum(header.count for header in written) == 50
        assert len(written) <= 10
        assert {(each.producer_id, each.base_sequence, each.codec) for each in written} == {(-1, 0, 0)}


@pytest.mark.parametrize(("linger", "most"), [("0", 20), ("5", 5)])
async def test_linger_limits_the_time_that_records_are_collected(
    tmp_path: Path, linger: str, most: int
) -> None:
    properties = {**ONE_PARTITION, "group.coordinator.append.linger.ms": linger}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        for number in range(20):
            client.send(commit_request("g", {0: number}), BY_NAME)
        for _ in range(20):
            assert commit_codes(await client.receive(OffsetCommitResponse)) == [ErrorCode.NONE]
        written = batches(node)
        assert sum(header.count for header in written) == 20
        assert len(written) == 20 if linger == "0" else len(written) <= most
        assert await fetch_offsets(client, "g") == {0: 19}


async def test_batches_are_compressed_as_configured(tmp_path: Path) -> None:
    properties = {**ONE_PARTITION, "offsets.topic.compression.codec": "4"}
    async with live_node(tmp_path, properties) as node:
        async with connected(node.bootstrap) as client:
            await ready(node, client)
            assert await commit(client, "g", {0: 5}) == [ErrorCode.NONE]
        assert {header.codec for header in batches(node)} == {4}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await until(lambda: node.node.broker.groups.is_active(0))
        assert await fetch_offsets(client, "g") == {0: 5}


async def test_responses_wait_for_the_commit(tmp_path: Path, held_disks: dict[str, HeldDisk]) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        await node.alter(OFFSETS, flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        client.send(commit_request("g", {0: 7}), BY_NAME)
        async with connected(node.bootstrap) as other:
            log = node.partition(OFFSETS).log
            await until(lambda: log.end_offset == 1)
            # A read depends on the uncommitted record: it waits with the commit.
            reading = asyncio.create_task(fetch_offsets(other, "g"))
            done, _ = await asyncio.wait([reading], timeout=0.05)
            assert not done
            assert log.high_watermark == 0
            disk.free.set()
            assert commit_codes(await client.receive(OffsetCommitResponse)) == [ErrorCode.NONE]
            assert await reading == {0: 7}


async def test_commit_that_times_out_is_retriable(tmp_path: Path, held_disks: dict[str, HeldDisk]) -> None:
    properties = {**ONE_PARTITION, "offsets.commit.timeout.ms": "30"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        await node.alter(OFFSETS, flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        assert await commit(client, "g", {0: 7}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        disk.free.set()
        log = node.partition(OFFSETS).log
        await until(lambda: log.high_watermark == 1)
        assert await commit(client, "g", {1: 8}) == [ErrorCode.NONE]
        # The commit was written and committed later.
        assert await fetch_offsets(client, "g") == {0: 7, 1: 8}


async def test_uncommitted_offset_is_not_readable(tmp_path: Path, held_disks: dict[str, HeldDisk]) -> None:
    properties = {**ONE_PARTITION, "offsets.commit.timeout.ms": "30"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        assert await commit(client, "g", {0: 6}) == [ErrorCode.NONE]
        await node.alter(OFFSETS, flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        assert await commit(client, "g", {0: 7}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        # A power failure could still lose it; then a consumer would continue from an offset that was never
        # committed.
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        (group,) = (await client.call(request, OffsetFetchResponse, BY_NAME)).groups
        assert (group.error_code, group.topics) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
        disk.free.set()
        log = node.partition(OFFSETS).log
        await until(lambda: log.high_watermark == 2)
        assert await fetch_offsets(client, "g") == {0: 7}


async def test_offsets_of_a_marker_are_not_readable_before_it_is_committed(
    tmp_path: Path, held_disks: dict[str, HeldDisk]
) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        log, groups = node.partition(OFFSETS).log, node.node.broker.groups
        pending = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id="g",
            producer_id=7,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9)],
                )
            ],
        )
        groups.submit("g", pending, RequestContext(api_version=5))
        assert log.high_watermark == 1
        await node.alter(OFFSETS, flush_messages="1")
        disk = held_disks[str(tmp_path)]
        disk.free.clear()
        marker = end_txn_batch(producer_id=7, producer_epoch=1, commit=True, coordinator_epoch=0, timestamp=0)
        groups.append_marker(0, marker, 2)
        reading = asyncio.create_task(fetch_offsets(client, "g"))
        done, _ = await asyncio.wait([reading], timeout=0.05)
        assert not done
        assert log.high_watermark == 1
        disk.free.set()
        assert await reading == {0: 9}


async def test_failed_append_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        live_node(tmp_path, ONE_PARTITION) as node,
        connected(node.bootstrap) as client,
        connected(node.bootstrap) as member,
    ):
        await ready(node, client)
        assert await commit(client, "g", {0: 1}) == [ErrorCode.NONE]
        partition = node.partition(OFFSETS)
        real = type(partition).append_records

        def full(*_: object) -> None:
            error = DiskError(str(tmp_path), "x.log", "append", OSError(errno.ENOSPC, "disk full"))
            error.fatal = False
            raise error

        monkeypatch.setattr(type(partition), "append_records", full)
        member.send(join_request("parked"), 3)
        client.send(commit_request("g", {0: 2, 1: 2}), BY_NAME)
        joined = await member.receive(JoinGroupResponse)
        assert joined.error_code == ErrorCode.NOT_COORDINATOR
        rejected = await client.receive(OffsetCommitResponse)
        assert set(commit_codes(rejected)) == {ErrorCode.NOT_COORDINATOR}
        monkeypatch.setattr(type(partition), "append_records", real)
        await until(lambda: node.node.broker.groups.is_active(0))
        # The machine had already replayed the commit. After the reload it has only the state of the log.
        assert await fetch_offsets(client, "g") == {0: 1}
        assert await commit(client, "g", {0: 3}) == [ErrorCode.NONE]
        assert await fetch_offsets(client, "g") == {0: 3}


async def test_record_that_cannot_be_replayed_is_not_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        real = GroupShard.replay

        def failing_replay(shard: GroupShard, record: GroupRecord, offset: int) -> None:
            if isinstance(record.key, OffsetCommitKey) and record.key.group == "bad":
                raise ValueError("a bug of ours")
            real(shard, record, offset)

        monkeypatch.setattr(GroupShard, "replay", failing_replay)
        client.send(commit_request("g", {0: 1}), BY_NAME)
        client.send(commit_request("bad", {0: 1}), BY_NAME)
        codes = [commit_codes(await client.receive(OffsetCommitResponse)) for _ in range(2)]
        assert codes == [[ErrorCode.NONE], [ErrorCode.UNKNOWN_SERVER_ERROR]]
        await until(lambda: node.node.broker.groups.is_active(0))
        assert sum(header.count for header in batches(node)) == 1
        assert await fetch_offsets(client, "g") == {0: 1}


async def test_too_large_change_does_not_affect_the_others(tmp_path: Path) -> None:
    async with live_node(tmp_path, ONE_PARTITION) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        await node.alter(OFFSETS, max_message_bytes="1000")
        client.send(commit_request("g", {0: 1}), BY_NAME)
        client.send(commit_request("big", {0: 1}, metadata="x" * 2000), BY_NAME)
        client.send(commit_request("h", {0: 1}), BY_NAME)
        codes = [commit_codes(await client.receive(OffsetCommitResponse)) for _ in range(3)]
        assert codes == [[ErrorCode.NONE], [ErrorCode.UNKNOWN_SERVER_ERROR], [ErrorCode.NONE]]
        assert await fetch_offsets(client, "big") == {}
        # Records that do not fit into one batch are divided between requests.
        for number in range(40):
            client.send(commit_request("g", {number % 4: number}, metadata="y" * 200), BY_NAME)
        for _ in range(40):
            assert commit_codes(await client.receive(OffsetCommitResponse)) == [ErrorCode.NONE]
        assert max(header.size for header in batches(node)) <= 1000
        assert await fetch_offsets(client, "g") == {0: 36, 1: 37, 2: 38, 3: 39}


async def test_timers_run(tmp_path: Path) -> None:
    properties = {**ONE_PARTITION, "group.min.session.timeout.ms": "50"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        joined = await client.call(join_request("g", session_timeout_ms=60), JoinGroupResponse, 3)
        assert joined.error_code == 0
        # Without heartbeats the session of the only member expires.
        shard = node.node.broker.groups.shard_of("g")
        assert shard is not None
        await until(lambda: shard.state.groups["g"].is_empty)
        assert await commit(client, "g", {0: 1}) == [ErrorCode.NONE]


async def test_parked_join_fails_when_the_node_stops(tmp_path: Path) -> None:
    properties = {**ONE_PARTITION, "group.initial.rebalance.delay.ms": "60000"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await ready(node, client)
        context = node.node.broker.groups
        client.send(join_request("g"), 3)
        await until(lambda: batches(node) != [])
        await context.stop()
        joined = await client.receive(JoinGroupResponse)
        assert joined.error_code == ErrorCode.NOT_COORDINATOR
