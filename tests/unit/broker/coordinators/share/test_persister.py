"""Requests of a broker to share coordinators, before their topic exists and while one loads."""

from __future__ import annotations

from pathlib import Path

from ruslo.machines.share_coordinator.records import ShareKey
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import uuid_to_text
from ruslo.model.topics import SHARE_STATE_TOPIC
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from tests.support.brokers.live_node import live_node, until
from tests.support.clients.raw_client import connected
from tests.support.share.state_requests import (
    GROUP,
    initialize_request,
    read_request,
    write_request,
)

SMALL = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


async def test_first_request_creates_the_state_topic_and_states_survive_a_restart(tmp_path: Path) -> None:
    async with live_node(tmp_path, SMALL) as node:
        topic = await node.create("t", partitions=250)
        persister = node.node.broker.share_persister
        request = initialize_request(1, 5, topic=topic)
        for partition in range(1, 250):
            request.topics[0].partitions += (
                initialize_request(1, 5, topic=topic, partition=partition).topics[0].partitions
            )
        results = await persister.request(request)
        assert {key: each.error_code for key, each in results.items()} == {
            ShareKey(GROUP, topic, partition): ErrorCode.NONE for partition in range(250)
        }
        written = await persister.request(
            write_request((5, 6, 2, 1), start_offset=5, topic=topic, partition=7)
        )
        assert written[ShareKey(GROUP, topic, 7)].error_code == ErrorCode.NONE
    async with live_node(tmp_path, SMALL) as node:
        # The coordinator may still be loading: the request is repeated until it has loaded.
        read = await node.node.broker.share_persister.request(read_request(topic=topic, partition=7))
        result = read[ShareKey(GROUP, topic, 7)]
        assert (result.error_code, result.start_offset) == (ErrorCode.NONE, 5)
        assert [(each.first_offset, each.last_offset) for each in result.state_batches] == [(5, 6)]


async def test_errors_that_do_not_pass_are_results_at_once(tmp_path: Path) -> None:
    async with live_node(tmp_path, SMALL) as node:
        topic = await node.create("t")
        persister = node.node.broker.share_persister
        read = await persister.request(read_request(topic=topic))
        assert read[ShareKey(GROUP, topic, 0)].error_code == ErrorCode.INVALID_REQUEST
        await persister.request(initialize_request(3, 0, topic=topic))
        fenced = await persister.request(write_request((0, 0, 2, 1), state_epoch=2, topic=topic))
        assert fenced[ShareKey(GROUP, topic, 0)].error_code == ErrorCode.FENCED_STATE_EPOCH


async def test_brokers_find_the_coordinator_of_a_share_partition(tmp_path: Path) -> None:
    async with live_node(tmp_path, SMALL) as node, connected(node.bootstrap) as client:
        topic = await node.create("t")
        keys = [
            f"a:b:{uuid_to_text(topic)}:0",
            "no-key",
            f":{uuid_to_text(topic)}:0",
            f"g:{uuid_to_text(topic)}:x",
        ]
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=keys)
        found = (await client.call(request, FindCoordinatorResponse, 6)).coordinators
        assert [(each.key, each.error_code) for each in found] == [
            (keys[0], ErrorCode.NONE),
            *((key, ErrorCode.INVALID_REQUEST) for key in keys[1:]),
        ]
        assert found[0].node_id == node.node.broker.partitions.by_name[SHARE_STATE_TOPIC][0].node_id
        assert "GROUP:TOPIC_ID:PARTITION" in (found[1].error_message or "")
        await until(lambda: node.node.broker.shares.is_active(0))
        older = (await client.call(request, FindCoordinatorResponse, 5)).coordinators
        assert {each.error_code for each in older} == {ErrorCode.INVALID_REQUEST}
