"""Changes of many partitions run in slices, are atomic, and keep the order of events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.topic_image import NO_LEADER
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ruslo.protocol.messages.delete_topics_response import DeleteTopicsResponse
from ruslo.protocol.metadata_records import encode_metadata_record
from tests.support.brokers.stepping import stepping_scheduler
from tests.support.machines.controller_bench import AdminNode, admin_node, registration

STEPS_PER_SLICE = 300
PARTITIONS = 3 * STEPS_PER_SLICE


def create_request(name: str, partitions: int = PARTITIONS) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
    )


def code_of(response: Message) -> int:
    assert isinstance(response, CreateTopicsResponse)
    return response.topics[0].error_code


async def test_requests_are_served_between_slices_and_the_topic_is_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_node(scheduler=stepping_scheduler(STEPS_PER_SLICE)) as node:
        appended: list[tuple[int, bool]] = []
        append = node.raft.append

        def watched(
            epoch: int, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None
        ) -> int:
            encoded = [encode_metadata_record(*each) for each in records]
            appended.append((len(records), values == encoded))
            return append(epoch, records, values)

        monkeypatch.setattr(node.raft, "append", watched)
        response = node.controller.submit(create_request("big"))
        slices = 0
        while not response.done():
            slices += 1
            await asyncio.sleep(0)
        assert code_of(await response) == ErrorCode.NONE
        assert slices > PARTITIONS // STEPS_PER_SLICE
        assert appended == [(PARTITIONS + 1, True)]
        assert len(node.image.topics.by_name["big"].partitions) == PARTITIONS
        assert node.machine.image.topics.by_name == node.image.topics.by_name


async def test_events_between_slices_wait_in_order() -> None:
    async with admin_node(scheduler=stepping_scheduler(STEPS_PER_SLICE)) as node:
        requests = [
            create_request("big"),
            create_request("big"),
            DeleteTopicsRequest(topic_names=["big"]),
            create_request("big", 2 * STEPS_PER_SLICE),
            create_request("small", 1),
        ]
        first, rejected, deleted, second, small = await asyncio.gather(
            *[node.controller.submit(each) for each in requests]
        )
        assert isinstance(deleted, DeleteTopicsResponse)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        codes = [code_of(each) for each in (first, rejected, second, small)]
        assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE, ErrorCode.NONE]
        assert len(node.image.topics.by_name["big"].partitions) == 2 * STEPS_PER_SLICE
        assert node.machine.image.topics.by_name == node.image.topics.by_name


async def test_registration_that_waited_gets_the_offset_of_its_record() -> None:
    async with admin_node(scheduler=stepping_scheduler(STEPS_PER_SLICE)) as node:
        created = node.controller.submit(create_request("big"))
        registered = node.controller.submit(registration(7))
        await asyncio.gather(created, registered)
        assert node.image.cluster.brokers[7].epoch == node.raft.end_offset - 1


@pytest.mark.parametrize("slices", range(14))
async def test_leadership_is_lost_after_every_slice(slices: int) -> None:
    """The machine keeps only committed records, and the next leadership starts from them."""
    async with admin_node(scheduler=stepping_scheduler(STEPS_PER_SLICE)) as node:
        names = ("big", "waits")
        responses = [
            node.controller.submit(create_request(names[0])),
            node.controller.submit(create_request("waits", 1)),
        ]
        for _ in range(slices):
            await asyncio.sleep(0)
        node.raft.resign()
        committed = set(node.image.topics.by_name)
        assert node.machine.image.topics.by_name == node.image.topics.by_name
        for name, response in zip(
            names, await asyncio.gather(*responses, return_exceptions=True), strict=True
        ):
            if isinstance(response, KafkaError):
                assert response.code is ErrorCode.NOT_CONTROLLER
            else:
                assert name in committed
        node.raft.lead()
        again = code_of(await node.controller.submit(create_request("big")))
        assert again == (ErrorCode.TOPIC_ALREADY_EXISTS if "big" in committed else ErrorCode.NONE)
        assert len(node.image.topics.by_name["big"].partitions) == PARTITIONS
        assert node.machine.image.topics.by_name == node.image.topics.by_name


async def test_failed_append_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_node(scheduler=stepping_scheduler(STEPS_PER_SLICE)) as node:

        def full(epoch: int, records: Sequence[VersionedRecord], values: object = None) -> int:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

        with monkeypatch.context() as patch:
            patch.setattr(node.raft, "append", full)
            with pytest.raises(KafkaError, match="no room"):
                await node.controller.submit(create_request("big"))
        assert "big" not in node.machine.image.topics.by_name
        assert code_of(await node.controller.submit(create_request("big"))) == ErrorCode.NONE


async def test_broker_with_thousands_of_leaders_is_fenced_and_unfenced() -> None:
    async with admin_node(scheduler=stepping_scheduler(STEPS_PER_SLICE)) as node:
        await node.controller.submit(create_request("big"))
        _lose_broker(node)
        await _until_leader(node, NO_LEADER)
        again = node.new_lifecycle()
        await again.register()
        await again.unfence()
        await _until_leader(node, 1)
        assert node.machine.image.topics.by_name == node.image.topics.by_name
        again.abandon()
        node.raft.resign()


@pytest.mark.parametrize("slices", range(14))
async def test_leadership_is_lost_after_every_slice_of_fencing(slices: int) -> None:
    """Fencing changes partitions in several batches: no change is lost or repeated wherever it stops."""
    async with admin_node(scheduler=stepping_scheduler(STEPS_PER_SLICE)) as node:
        await node.controller.submit(create_request("big"))
        _lose_broker(node)
        for _ in range(slices):
            await asyncio.sleep(0)
        node.raft.resign()
        assert node.machine.image.topics.by_name == node.image.topics.by_name
        node.raft.lead()
        node.controller.broker_gone(1, node.image.cluster.brokers[1].epoch)
        await _until_leader(node, NO_LEADER)
        await node.controller.submit(create_request("after", 1))
        assert node.machine.image.topics.by_name == node.image.topics.by_name
        assert {each.partition_epoch for each in node.image.topics.by_name["big"].partitions} == {1}
        node.raft.resign()


def _lose_broker(node: AdminNode) -> None:
    """The broker sends no more heartbeats: one that came later would unfence it again."""
    node.lifecycle.abandon()
    node.controller.broker_gone(1, node.image.cluster.brokers[1].epoch)


async def _until_leader(node: AdminNode, leader: int) -> None:
    partitions = node.image.topics.by_name["big"].partitions
    async with asyncio.timeout(30):
        while {each.leader for each in partitions} != {leader}:  # noqa: ASYNC110
            await asyncio.sleep(0)
