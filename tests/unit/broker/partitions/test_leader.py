"""Acks, the ISR and watermarks while the test plays a second broker that replicates."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ruslo.protocol.messages.delete_records_response import DeleteRecordsResponse
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from tests.support.brokers.live_node import LiveNode, batch_of, records_in, until
from tests.support.brokers.second_broker import NODE, SECOND, two_brokers
from tests.support.clients.raw_client import connected


async def isr_becomes(node: LiveNode, *members: int) -> None:
    await until(lambda: node.node.metadata.image.topics.by_name["t"].partitions[0].isr == members)


def produced(response: ProduceResponse) -> PartitionProduceResponse:
    return response.responses[0].partition_responses[0]


async def test_acks_all_waits_for_the_follower_and_acks_1_does_not(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (node, second, topic_id), connected(node.bootstrap) as client:
        log = node.partition().log
        client.send(node.produce_request({("t", 0): batch_of(b"one")}))
        await until(lambda: log.end_offset == 1)
        assert log.high_watermark == 0
        data = await second.fetch(topic_id, 0)
        assert [record.value for record in records_in(data.records)] == [b"one"]
        assert log.high_watermark == 0, "the follower has requested the record, but does not have it"
        await second.fetch(topic_id, 1)
        result = produced(await client.receive(ProduceResponse))
        assert (result.error_code, result.base_offset) == (0, 0)
        assert log.high_watermark == 1
        at_once = produced(
            await client.call(node.produce_request({("t", 0): batch_of(b"two")}, acks=1), ProduceResponse)
        )
        assert (at_once.error_code, at_once.base_offset) == (0, 1)
        assert (await node.fetch(client, 1)).records in (None, b""), "consumers wait for the follower"


async def test_an_acks_all_timeout_keeps_the_record(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (node, second, topic_id), connected(node.bootstrap) as client:
        request = node.produce_request({("t", 0): batch_of(b"one")}, timeout_ms=20)
        result = produced(await client.call(request, ProduceResponse))
        assert ErrorCode(result.error_code) is ErrorCode.REQUEST_TIMED_OUT
        await second.fetch(topic_id, 1)
        assert [r.value for r in records_in((await node.fetch(client, 0)).records)] == [b"one"]


async def test_a_silent_follower_leaves_the_isr_and_rejoins(tmp_path: Path) -> None:
    async with (
        two_brokers(tmp_path, "400") as (node, second, topic_id),
        connected(node.bootstrap) as client,
    ):
        await second.fetch(topic_id, 0)
        client.send(node.produce_request({("t", 0): batch_of(b"one")}, timeout_ms=20_000))
        await isr_becomes(node, NODE)
        result = produced(await client.receive(ProduceResponse))
        assert result.error_code == 0, "with the follower out of the ISR the leader's copy is enough"
        await second.fetch(topic_id, 0)
        await asyncio.sleep(0.05)
        assert node.partition().has_followers
        assert node.node.metadata.image.topics.by_name["t"].partitions[0].isr == (NODE,)
        await second.fetch(topic_id, 1)
        await isr_becomes(node, NODE, SECOND)


async def test_acks_all_fails_under_min_isr(tmp_path: Path) -> None:
    async with (
        two_brokers(tmp_path, "400", min_insync_replicas="2") as (node, second, topic_id),
        connected(node.bootstrap) as client,
    ):
        client.send(node.produce_request({("t", 0): batch_of(b"one")}, timeout_ms=1500))
        await isr_becomes(node, NODE)
        late = produced(await client.receive(ProduceResponse))
        assert ErrorCode(late.error_code) is ErrorCode.REQUEST_TIMED_OUT, (
            "the high watermark does not advance"
        )
        assert node.partition().log.high_watermark == 0
        rejected = produced(
            await client.call(node.produce_request({("t", 0): batch_of(b"two")}), ProduceResponse)
        )
        assert ErrorCode(rejected.error_code) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert "min.insync.replicas is 2" in (rejected.error_message or "")
        assert node.partition().log.end_offset == 1
        acks_1 = produced(
            await client.call(node.produce_request({("t", 0): batch_of(b"3")}, acks=1), ProduceResponse)
        )
        assert acks_1.error_code == 0
        await second.fetch(topic_id, 2)
        await isr_becomes(node, NODE, SECOND)
        await until(lambda: node.partition().log.high_watermark == 2)


async def test_a_fetch_with_an_old_broker_epoch_is_rejected(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (_, second, topic_id):
        await second.fetch(topic_id, 0)
        old = await second.fetch(topic_id, 0, epoch=second.epoch - 1)
        assert ErrorCode(old.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "KIP-903"
        assert (await second.fetch(topic_id, 0)).error_code == 0


async def test_a_fenced_broker_leaves_the_isr_and_does_not_rejoin(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (node, second, topic_id), connected(node.bootstrap) as client:
        await second.heartbeat(want_fence=True)
        await isr_becomes(node, NODE)
        assert (await node.produce(client, batch_of(b"one"))).error_code == 0
        await second.fetch(topic_id, 1)
        await asyncio.sleep(0.05)
        assert node.node.metadata.image.topics.by_name["t"].partitions[0].isr == (NODE,)
        await second.heartbeat()
        await second.fetch(topic_id, 1)
        await isr_becomes(node, NODE, SECOND)


async def append_here(node: LiveNode) -> None:
    async with connected(node.bootstrap) as client:
        request = node.produce_request({("t", 0): batch_of(b"more")}, acks=1)
        assert produced(await client.call(request, ProduceResponse)).error_code == 0


def deletion(timeout_ms: int, before: int = -1) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=timeout_ms
    )


def deleted(response: DeleteRecordsResponse) -> tuple[ErrorCode, int]:
    (result,) = response.topics[0].partitions
    return ErrorCode(result.error_code), result.low_watermark


async def test_delete_records_waits_for_the_in_sync_replicas(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (node, second, topic_id), connected(node.bootstrap) as client:
        client.send(node.produce_request({("t", 0): batch_of(b"one", b"two")}))
        await second.fetch(topic_id, 0)
        await second.fetch(topic_id, 2)
        assert produced(await client.receive(ProduceResponse)).error_code == 0
        late = await client.call(deletion(20, before=1), DeleteRecordsResponse)
        assert deleted(late) == (ErrorCode.REQUEST_TIMED_OUT, -1), "the follower still has it"
        client.send(deletion(20_000))
        await until(lambda: node.partition().log.start_offset == 2)
        data = await second.fetch(topic_id, 2, log_start=1)
        assert data.log_start_offset == 2
        await second.fetch(topic_id, 2, log_start=2)
        assert deleted(await client.receive(DeleteRecordsResponse)) == (ErrorCode.NONE, 2)


async def test_a_deletion_completes_the_delayed_fetch_of_a_follower(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (node, second, topic_id), connected(node.bootstrap) as client:
        client.send(node.produce_request({("t", 0): batch_of(b"one")}))
        await second.fetch(topic_id, 0)
        await second.fetch(topic_id, 1)
        assert produced(await client.receive(ProduceResponse)).error_code == 0
        request = second.request(topic_id, 1)
        request.max_wait_ms, request.min_bytes = 600_000, 1
        async with connected(node.bootstrap) as follower:
            follower.send(request)
            leader = node.partition().leader
            assert leader is not None
            await until(lambda: bool(leader.follower_fetches))
            client.send(deletion(20_000))
            data = (await follower.receive(FetchResponse)).responses[0].partitions[0]
            assert data.log_start_offset == 1
            await second.fetch(topic_id, 1, log_start=1)
            assert deleted(await client.receive(DeleteRecordsResponse)) == (ErrorCode.NONE, 1)


async def test_a_deletion_does_not_wait_for_a_replica_that_leaves_the_isr(tmp_path: Path) -> None:
    async with (
        two_brokers(tmp_path, "400") as (node, second, topic_id),
        connected(node.bootstrap) as client,
    ):
        client.send(node.produce_request({("t", 0): batch_of(b"one")}))
        await second.fetch(topic_id, 0)
        await second.fetch(topic_id, 1)
        assert produced(await client.receive(ProduceResponse)).error_code == 0
        client.send(deletion(20_000))
        await until(lambda: node.partition().log.start_offset == 1)
        # The follower does not fetch this append, so it falls behind.
        await append_here(node)
        await isr_becomes(node, NODE)
        assert deleted(await client.receive(DeleteRecordsResponse)) == (ErrorCode.NONE, 1)


async def test_a_follower_deletes_records_before_it_rejoins_the_isr(tmp_path: Path) -> None:
    async with (
        two_brokers(tmp_path, "400") as (node, second, topic_id),
        connected(node.bootstrap) as client,
    ):
        await append_here(node)
        await isr_becomes(node, NODE)
        await client.call(deletion(20_000, before=1), DeleteRecordsResponse)
        request = second.request(topic_id, 1)
        request.max_wait_ms, request.min_bytes = 600_000, 1
        (topic,) = (await client.call(request, FetchResponse)).responses
        assert topic.partitions[0].log_start_offset == 1, (
            "the new log start offset is reported at once, without records"
        )
        leader = node.partition().leader
        assert leader is not None
        assert leader.replication is not None
        assert leader.replication.isr.pending is None
        assert leader.isr == (NODE,), "as leader it would restore the deleted record"
        await second.fetch(topic_id, 1, log_start=1)
        await isr_becomes(node, NODE, SECOND)
