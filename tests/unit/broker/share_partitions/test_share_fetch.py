"""ShareFetch and ShareAcknowledge on a node, over the wire."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ruslo.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from ruslo.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ruslo.protocol.messages.delete_records_response import DeleteRecordsResponse
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.share_fetch_response import ShareFetchResponse
from ruslo.records.batch import TRANSACTIONAL
from tests.support.brokers.live_node import batch_of, live_node, until
from tests.support.share.live_share_node import ShareNode, share_node
from tests.support.share.share_client import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    SMALL,
    Acquired,
    Batches,
    initialize,
    member_on,
)

OTHER = "BBBBBBBBBBBBBBBBBBBBBB"


async def test_records_are_acquired_acknowledged_and_not_delivered_again(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.produce(b"a", b"b", b"c")
        await node.produce(b"d")
        found = await member.fetch([0])
        assert found.acquired() == [Acquired(0, 3, 1)]
        assert found.values() == [b"a", b"b", b"c", b"d"]
        assert found.response.acquisition_lock_timeout_ms == 30_000
        result = await member.acknowledge({0: [(0, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 3, [REJECT])]})
        assert result == {0: ErrorCode.NONE}
        again = await member.fetch()
        assert again.acquired() == [Acquired(2, 2, 2)]
        assert again.values() == [b"c"]
        assert await member.close({0: [(2, 2, [GAP])]}) == {0: ErrorCode.NONE}
        async with node.member(OTHER) as other:
            await node.produce(b"e")
            assert (await other.fetch([0])).acquired() == [Acquired(4, 4, 1)]


@pytest.mark.parametrize("version", [1, 2])
async def test_acknowledgements_in_a_fetch(tmp_path: Path, version: int) -> None:
    async with share_node(tmp_path, 2) as node, node.member() as member:
        await node.produce(b"a", b"b")
        await node.produce(b"x", index=1)
        await member.fetch([0], version=version)
        found = await member.fetch(acks={0: [(0, 0, [ACCEPT])], 1: [(0, 0, [ACCEPT])]}, version=version)
        assert found.acknowledge_error(0) is ErrorCode.NONE
        assert found.acquired(0) == []
        # Partition 1 was never fetched before: no record of it is acquired.
        assert found.acknowledge_error(1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found.values(1) == [b"x"]
        wrong = await member.fetch(acks={0: [(0, 1, [ACCEPT])]}, max_wait_ms=0, version=version)
        assert wrong.acknowledge_error(0) is ErrorCode.NONE, "offset 0 needs no further acknowledgement"
        wrong = await member.fetch(acks={0: [(2, 2, [ACCEPT])]}, max_wait_ms=0, version=version)
        assert wrong.acknowledge_error(0) is ErrorCode.INVALID_RECORD_STATE


async def test_two_members_share_a_partition(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as one, node.member(OTHER) as two:
        for value in (b"a", b"b", b"c"):
            await node.produce(value)
        assert (await one.fetch([0], max_records=1)).values() == [b"a"]
        assert (await two.fetch([0], max_records=2)).values() == [b"b", b"c"]
        assert await two.acknowledge({0: [(0, 0, [ACCEPT])]}) == {0: ErrorCode.INVALID_RECORD_STATE}
        assert await two.acknowledge({0: [(1, 2, [ACCEPT])]}) == {0: ErrorCode.NONE}
        waiting = asyncio.create_task(two.fetch(max_wait_ms=20_000))
        await until(lambda: any(led.delayed_fetches for led in node.shares))
        # Released records wake the fetch of the other member.
        assert await one.acknowledge({0: [(0, 0, [RELEASE])]}) == {0: ErrorCode.NONE}
        assert (await waiting).acquired() == [Acquired(0, 0, 2)]


async def test_a_waiting_fetch_gets_new_records_and_counts_expired_ones(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as one, node.member(OTHER) as two:
        first = asyncio.create_task(one.fetch([0], max_wait_ms=20_000))
        await until(lambda: any(led.machine is not None and led.delayed_fetches for led in node.shares))
        second = asyncio.create_task(two.fetch([0], max_wait_ms=20_000))
        await until(lambda: any(len(led.delayed_fetches) == 2 for led in node.shares))
        await node.produce(b"a")
        assert (await first).values() == [b"a"]
        # The other one found nothing, and goes on waiting.
        await until(lambda: any(led.delayed_fetches for led in node.shares))
        await node.produce(b"b")
        assert (await second).values() == [b"b"]
        assert (await one.fetch(max_wait_ms=1)).partitions == {}
        assert node.shares.counters.expired_fetches == 1
        few = asyncio.create_task(one.fetch(max_wait_ms=20_000, min_bytes=200))
        await until(lambda: any(led.delayed_fetches for led in node.shares))
        await node.produce(b"c")
        await node.produce(b"d" * 200)
        assert (await few).values() == [b"c", b"d" * 200]


async def test_a_lost_connection_releases_the_records_of_its_member(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member(OTHER) as other:
        await node.produce(b"a")
        async with node.member() as member:
            assert (await member.fetch([0])).values() == [b"a"]
            assert (await other.fetch([0], max_wait_ms=0)).acquired() == []
        assert (await other.fetch(max_wait_ms=20_000)).acquired() == [Acquired(0, 0, 2)]
        assert node.shares.sessions.evictions == 1


async def test_a_client_that_disconnects_while_it_waits_gets_no_records(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node:
        async with node.member() as member:
            member.client.send(member.new_fetch([0], max_wait_ms=2**31 - 1))
            await until(lambda: any(led.machine is not None and led.delayed_fetches for led in node.shares))
        await until(lambda: not list(node.shares) and not len(node.shares.sessions))
        assert not node.node.partition().delayed_fetches
        await node.produce(b"a")
        async with node.member(OTHER) as other:
            assert (await other.fetch([0])).acquired() == [Acquired(0, 0, 1)]


async def test_share_sessions(tmp_path: Path) -> None:
    async with share_node(tmp_path, 2) as node, node.member() as member:
        await node.produce(b"a")
        await member.fetch(epoch=1)
        assert member.error.name == "SHARE_SESSION_NOT_FOUND"
        await member.acknowledge({}, epoch=1)
        assert member.error.name == "SHARE_SESSION_NOT_FOUND"
        await member.acknowledge({}, epoch=0)
        assert member.error.name == "INVALID_SHARE_SESSION_EPOCH"
        await member.fetch(epoch=-1)
        assert member.error.name == "SHARE_SESSION_NOT_FOUND"
        await member.fetch(epoch=0, acks={0: [(0, 0, [ACCEPT])]})
        assert member.error.name == "INVALID_REQUEST"
        await member.fetch([0, 1], epoch=0)
        assert member.epoch == 1
        await member.fetch(epoch=7)
        assert member.error.name == "INVALID_SHARE_SESSION_EPOCH"
        assert (await member.fetch(max_wait_ms=0)).partitions == {}
        assert (await member.fetch(forgotten=[0], max_wait_ms=0)).partitions == {}
        assert set((await member.fetch([0], max_wait_ms=0)).partitions) == {0}, "listed again"
        final = await member.fetch(epoch=-1, acks={0: [(0, 0, [ACCEPT])]})
        assert final.acknowledge_error(0) is ErrorCode.NONE
        await member.fetch(epoch=3)
        assert member.error.name == "SHARE_SESSION_NOT_FOUND"


async def test_a_session_beyond_the_limit_is_refused_after_its_wait(tmp_path: Path) -> None:
    limit = {"group.share.max.share.sessions": "1", "group.share.max.size": "1"}
    async with (
        share_node(tmp_path, properties=limit) as node,
        node.member() as one,
        node.member(OTHER) as two,
    ):
        await one.fetch([0], max_wait_ms=0)
        await two.fetch([0], max_wait_ms=1)
        assert two.error is ErrorCode.SHARE_SESSION_LIMIT_REACHED
        two.client.send(two.new_fetch([0], max_wait_ms=2**31 - 1))
    # The node stops although a refused client would have waited for days.


async def test_locks_are_renewed_only_by_requests_that_say_so(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.produce(b"a", b"b")
        await member.fetch([0])
        assert await member.acknowledge({0: [(0, 1, [RENEW])]}) == {0: ErrorCode.INVALID_REQUEST}
        assert await member.acknowledge({0: [(0, 1, [RENEW])]}, is_renew_ack=True) == {0: ErrorCode.NONE}
        assert await member.acknowledge({0: [(0, 0, [RENEW])]}, version=1) == {0: ErrorCode.INVALID_REQUEST}
        no_records: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        found = await member.fetch(acks={0: [(0, 1, [RENEW, ACCEPT])]}, is_renew_ack=True, **no_records)
        assert found.acknowledge_error(0) is ErrorCode.NONE
        await member.fetch(acks={0: [(0, 0, [RENEW])]}, is_renew_ack=True)
        assert member.error is ErrorCode.INVALID_REQUEST


async def test_invalid_acknowledgements(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.produce(b"a", b"b", b"c")
        await member.fetch([0])
        invalid: list[Batches] = [
            [(1, 0, [ACCEPT])],
            [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
            [(0, 0, [])],
            [(0, 2, [ACCEPT, ACCEPT])],
            [(0, 0, [5])],
            [(0, 0, [-1])],
            [(0, 3, [ACCEPT])],
        ]
        for batches in invalid:
            assert await member.acknowledge({0: batches}) == {0: ErrorCode.INVALID_REQUEST}, batches
        assert await member.acknowledge({0: []}) == {}
        assert await member.acknowledge({0: [], 1: [(0, 0, [ACCEPT])]}) == {
            1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        unknown = await member.acknowledge({0: [(0, 0, [ACCEPT])]}, topic=b"no topic has me.")
        assert unknown == {0: ErrorCode.UNKNOWN_TOPIC_ID}
        assert await member.acknowledge({0: [(0, 2, [ACCEPT])]}) == {0: ErrorCode.NONE}


async def test_requests_of_no_member(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node:
        for name in ("", "x" * 37):
            async with node.member(name) as member:
                await member.fetch([0])
                assert member.error is ErrorCode.INVALID_REQUEST
                await member.acknowledge({})
                assert member.error is ErrorCode.INVALID_REQUEST
        async with node.member() as member:
            request = member.new_fetch([0])
            request.group_id = None
            response = await member.client.call(request, ShareFetchResponse)
            assert response.error_code == ErrorCode.INVALID_REQUEST
            await member.fetch([0], mode=2)
            assert member.error is ErrorCode.INVALID_REQUEST


async def test_errors_of_partitions(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.produce(b"a")
        found = await member.fetch([0, 7])
        assert (found.values(0), found.error(7)) == ([b"a"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found = await member.fetch([0], topic=b"no topic has me.", max_wait_ms=0)
        assert {ErrorCode(each.error_code) for each in found.partitions.values()} >= {
            ErrorCode.UNKNOWN_TOPIC_ID
        }
    async with share_node(tmp_path / "2") as node, node.member(group="uninitialized") as member:
        found = await member.fetch([0], max_wait_ms=300)
        assert found.error(0) is ErrorCode.UNKNOWN_SERVER_ERROR, "as in Kafka"


async def test_where_a_group_without_state_starts(tmp_path: Path) -> None:
    async with share_node(tmp_path, start_offset=-1) as node, node.member() as member:
        await node.produce(b"a")
        waiting = asyncio.create_task(member.fetch([0], max_wait_ms=20_000))
        await until(lambda: any(led.machine is not None and led.delayed_fetches for led in node.shares))
        await node.produce(b"b")
        assert (await waiting).acquired() == [Acquired(1, 1, 1)], "latest is the default"
        for group, reset, first in (("e", "earliest", 0), ("d", "by_duration:P36500D", 0)):
            await initialize(node.writer, node.topic, start_offset=-1, group=group)
            await node.node.alter_group(group, share_auto_offset_reset=reset)
            async with node.member(group=group) as other:
                assert (await other.fetch([0])).acquired() == [Acquired(first, 1, 1)]
        await initialize(node.writer, node.topic, start_offset=-1, group="n")
        await node.node.alter_group("n", share_auto_offset_reset="by_duration:PT1S")
        async with node.member(group="n") as other:
            found = await other.fetch([0], max_wait_ms=300)
            assert found.error() is ErrorCode.OFFSET_NOT_AVAILABLE


async def test_configs_of_a_group_take_effect_at_once(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.produce(*[b"v"] * 150)
        found = await member.fetch([0], max_records=1)
        assert found.acquired() == [Acquired(0, 149, 1)]
        await node.node.alter_group(
            "g",
            share_record_lock_duration_ms="15000",
            share_delivery_count_limit="2",
            share_renew_acknowledge_enable="false",
            share_partition_max_record_locks="150",
        )
        led = next(iter(node.shares))
        await until(lambda: led.config.settings.delivery_limit == 2)
        await node.produce(b"w")
        found = await member.fetch(max_wait_ms=0)
        assert (found.acquired(), found.response.acquisition_lock_timeout_ms) == ([], 15_000)
        renewed = await member.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True)
        assert renewed == {0: ErrorCode.INVALID_RECORD_STATE}
        assert await member.acknowledge({0: [(0, 149, [RELEASE])]}) == {0: ErrorCode.NONE}
        assert (await member.fetch(max_records=200)).acquired()[0].delivery_count == 2


async def test_the_log_start_moves_past_records_in_flight(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        for value in (b"a", b"b", b"c"):
            await node.produce(value)
        assert (await member.fetch([0], max_records=1)).values() == [b"a"]
        partition = DeleteRecordsPartition(partition_index=0, offset=2)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=5000
        )
        await node.writer.call(request, DeleteRecordsResponse)
        found = await member.fetch(acks={0: [(0, 0, [ACCEPT])]})
        assert found.acknowledge_error() is ErrorCode.NONE
        assert found.values() == [b"c"]


async def test_a_deleted_topic_and_a_leader_change_unload_the_share_partition(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member, node.member(OTHER) as other:
        await node.produce(b"a")
        assert (await member.fetch([0])).values() == [b"a"]
        led = next(iter(node.shares))
        led.leader_epoch -= 1
        assert await member.acknowledge({0: [(0, 0, [ACCEPT])]}) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert led.failure is not None
        assert led.failure.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await other.fetch([0])).acquired() == [Acquired(0, 0, 1)], "loaded again, without locks"
        waiting = asyncio.create_task(other.fetch(max_wait_ms=20_000))
        await until(lambda: any(each.delayed_fetches for each in node.shares))
        await node.node.delete("t")
        assert (await waiting).error() in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert not list(node.shares)


async def test_state_survives_a_restart(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.produce(b"a", b"b", b"c")
        await member.fetch([0])
        assert await member.acknowledge({0: [(1, 1, [ACCEPT])]}) == {0: ErrorCode.NONE}
        topic = node.topic
    async with live_node(tmp_path, SMALL) as again, member_on(again.bootstrap, topic) as member:
        found = await member.fetch([0], max_wait_ms=20_000)
        # Offset 0 was released when the connection ended: its delivery was counted.
        assert [(each.first, each.last) for each in found.acquired()] == [(0, 0), (2, 2)]
        assert found.values() == [b"a", b"c"]


async def test_no_partition_starves_the_others(tmp_path: Path) -> None:
    async with share_node(tmp_path, 3) as node, node.member() as member:
        for index in range(3):
            for _ in range(4):
                await node.produce(b"v", index=index)
        first = await member.fetch([0, 1, 2], max_records=500, max_wait_ms=20_000)
        while len(first.partitions) < 3:
            first.partitions |= (await member.fetch(max_wait_ms=20_000)).partitions
        for index in range(3):
            for _ in range(4):
                await node.produce(b"v", index=index)
        served = [
            index
            for _ in range(6)
            for index, result in (await member.fetch(max_records=1)).partitions.items()
            if result.acquired_records
        ]
        assert set(served) == {0, 1, 2}


async def test_a_client_above_its_fetch_quota_waits_after_its_records(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.produce(b"v" * 5_000)
        quota = EntryData(
            entity=[EntityData(entity_type="client-id", entity_name="test")],
            ops=[OpData(key="consumer_byte_rate", value=100.0)],
        )
        await node.writer.call(AlterClientQuotasRequest(entries=[quota]), AlterClientQuotasResponse)
        found = await member.fetch([0])
        assert found.values() == [b"v" * 5_000]
        assert found.response.throttle_time_ms > 0


async def test_unused_share_partitions_are_unloaded(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.produce(b"a")
        await member.fetch([0])
        (led,) = node.shares
        led.used_ms -= 1_000_000
        for _ in node.shares._unload_steps():
            pass
        assert list(node.shares) == [led], "a lock is held"
        await member.acknowledge({0: [(0, 0, [ACCEPT])]})
        assert led.machine is not None
        led.machine.expire_locks(1 << 62)
        led.used_ms -= 1_000_000
        for _ in node.shares._unload_steps():
            pass
        assert not list(node.shares)
        await node.produce(b"b")
        assert (await member.fetch()).acquired() == [Acquired(1, 1, 1)]


async def transact(node: ShareNode, name: str, value: bytes, *, commit: bool) -> None:
    """Produce a record in a transaction and end it; the marker is the next offset."""
    writer = node.writer
    await writer.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), FindCoordinatorResponse)
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    producer = await writer.call(init, InitProducerIdResponse)
    while producer.error_code:
        producer = await writer.call(init, InitProducerIdResponse)
    identity: dict[str, Any] = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }
    batch = batch_of(value, base_sequence=0, attributes=TRANSACTIONAL, **identity)
    produced = await node.node.produce(writer, batch, transactional_id=name, version=12)
    assert produced.error_code == ErrorCode.NONE
    end = EndTxnRequest(transactional_id=name, committed=commit, **identity)
    assert (await writer.call(end, EndTxnResponse)).error_code == ErrorCode.NONE


async def test_read_committed_leaves_out_aborted_records(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.node.alter_group("g", share_isolation_level="read_committed")
        await node.produce(b"a")
        await transact(node, "x", b"aborted", commit=False)
        await transact(node, "y", b"committed", commit=True)
        await node.produce(b"z")
        partition = node.node.partition()
        await until(lambda: partition.log.last_stable_offset == 6)
        offsets: set[int] = set()
        values: list[bytes | None] = []
        while 5 not in offsets:
            # A fetch reads one segment, and the old timestamps of the test's records roll some.
            found = await member.fetch([0] if member.epoch == 0 else ())
            offsets.update(at for first, last, _ in found.acquired() for at in range(first, last + 1))
            values += found.values()
        assert offsets == {0, 2, 3, 4, 5}
        assert {b"a", b"committed", b"z"} <= set(values)
        assert b"aborted" not in values
        assert await member.acknowledge({0: [(1, 1, [ACCEPT])]}) == {0: ErrorCode.INVALID_RECORD_STATE}
        batches: Batches = [(0, 0, [ACCEPT]), (2, 5, [GAP, ACCEPT, GAP, ACCEPT])]
        assert await member.acknowledge({0: batches}) == {0: ErrorCode.NONE}
        (led,) = node.shares
        assert led.machine is not None
        assert led.machine.start_offset == 6


async def test_a_large_request_waits_and_is_abandoned_like_a_small_one(tmp_path: Path) -> None:
    """A request of more than 16 KiB is decoded in a thread."""
    async with share_node(tmp_path) as node:
        await node.produce(*[b"v"] * 5_000)
        async with node.member() as member:
            assert (await member.fetch([0])).acquired() == [Acquired(0, 4_999, 1)]
            acks: Batches = [(0, 4_999, [ACCEPT, REJECT] * 2_500)]
            listed = list(range(1, 4_000))
            answered = await member.fetch(listed, acks={0: acks}, max_wait_ms=1)
            assert answered.acknowledge_error(0) is ErrorCode.NONE
            assert answered.error(3_999) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            member.client.send(member.new_fetch(listed, max_wait_ms=2**31 - 1))
            await until(lambda: any(led.delayed_fetches for led in node.shares))
        await until(lambda: not len(node.shares.sessions))
        assert not any(led.delayed_fetches for led in node.shares)
