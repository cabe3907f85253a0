"""The share coordinator on a node: the log of its topic, loading it, and deleting what it does not need."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ruslo.broker.coordinators.runtime.internal_topic import SHARE_STATE_PLAN, InternalTopic
from ruslo.broker.coordinators.runtime.record_codec import decode_records
from ruslo.broker.coordinators.share.coordinator import ShareCoordinator
from ruslo.machines.share_coordinator.events import PruneLog
from ruslo.machines.share_coordinator.responses import ShareRequest, split
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.model.topics import SHARE_STATE_TOPIC
from ruslo.protocol.coordinator_records import SHARE_RECORDS
from ruslo.records.reader import iter_batches
from tests.support.brokers.live_node import LiveNode, live_node, run, until
from tests.support.share.state_requests import (
    batches,
    code,
    initialize_request,
    read_request,
    result,
    write_request,
)

SMALL = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
}


def coordinator(node: LiveNode) -> ShareCoordinator:
    return node.node.broker.shares


async def call(node: LiveNode, request: ShareRequest) -> Any:
    response = coordinator(node).submit(request, 0)
    return await response if isinstance(response, asyncio.Future) else response


async def create_state_topic(node: LiveNode) -> None:
    broker = node.node.broker
    await InternalTopic(SHARE_STATE_PLAN, lambda: broker._shared.config, broker._gateway).create()
    await until(lambda: SHARE_STATE_TOPIC in broker.partitions.by_name)


def record_types(node: LiveNode, index: int) -> list[str]:
    log = node.partition(SHARE_STATE_TOPIC, index).log
    log_slice = log.read(log.start_offset, 1 << 20, log.end_offset).slice
    data = memoryview(b"" if log_slice is None else log_slice.read())
    return [
        type(key).__name__.removesuffix("Key")
        for at, header in iter_batches(data)
        for _, key, _, _ in decode_records(data[at : at + header.size], SHARE_RECORDS)
    ]


def state_partition(node: LiveNode, topic: Uuid) -> int:
    ((key, _),) = split(read_request(topic=topic))
    return coordinator(node).partition_of(str(key))


def test_state_survives_a_restart_and_old_records_are_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with live_node(tmp_path, SMALL) as node:
            topic = await node.create("t", partitions=4)
            # Without the topic no node is coordinator.
            assert code(await call(node, initialize_request(topic=topic))) is ErrorCode.NOT_COORDINATOR
            await create_state_topic(node)
            config = node.partition(SHARE_STATE_TOPIC).log.config
            assert len(node.node.broker.partitions.by_name[SHARE_STATE_TOPIC]) == 3
            assert not config.compacts
            assert config.retention_ms == -1
            # One request with several share-partitions, of several shards.
            request = initialize_request(1, 0, topic=topic)
            for partition in range(1, 4):
                request.topics[0].partitions += (
                    initialize_request(1, 0, topic=topic, partition=partition).topics[0].partitions
                )
            (results,) = (await call(node, request)).results
            assert [(each.partition, each.error_code) for each in results.partitions] == [
                (partition, 0) for partition in range(4)
            ]
            for offset in range(4):
                await call(node, write_request((offset, offset, 2, 1), topic=topic))
            index = state_partition(node, topic)
            kinds = record_types(node, index)
            assert kinds.count("ShareUpdate") == 3
            assert kinds[-1] == "ShareUpdate"
            assert kinds[-2] == "ShareSnapshot"
        async with live_node(tmp_path, SMALL) as node:
            await until(lambda: coordinator(node).is_active(index))
            assert batches(await call(node, read_request(topic=topic))) == [(0, 3, 2, 1)]
            shard = coordinator(node).get(index)
            assert shard is not None
            log = shard.partition.log
            needed = min(each.offset for each in shard.machine.state.shares.values())
            coordinator(node)._execute(shard, PruneLog(needed))
            assert log.start_offset == needed
            coordinator(node)._execute(shard, PruneLog(1 << 40))
            assert log.start_offset == log.high_watermark
            await node.delete("t")
            await until(lambda: not shard.machine.state.shares)
            assert code(await call(node, read_request(topic=topic))) is ErrorCode.INVALID_REQUEST

    run(scenario())


def test_a_summary_of_a_partition_that_does_not_exist(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with live_node(tmp_path, SMALL) as node:
            topic = await node.create("t")
            await create_state_topic(node)
            response = await call(node, initialize_request(topic=topic, partition=1))
            assert code(response) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert "does not exist" in result(response).error_message

    run(scenario())
