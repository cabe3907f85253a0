"""The controller driver: responses wait for commits, and lost leadership loses no committed records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ruslo.broker.controller import driver as controller
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from tests.support.brokers.live_node import until
from tests.support.machines.controller_bench import AdminNode, admin_node, registration


def create_request(name: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
    )


async def run_loop(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_responses_are_released_by_commits_in_order() -> None:
    async with admin_node() as node:
        node.raft.commits_automatically = False
        first = node.controller.submit(create_request("a"))
        second = node.controller.submit(create_request("b"))
        # The error depends on uncommitted records, so this response waits, too.
        rejected = node.controller.submit(create_request("a"))
        await run_loop()
        assert [each.done() for each in (first, second, rejected)] == [False] * 3
        assert node.image.topics.by_name == {}, "the broker sees only committed records"
        assert set(node.machine.image.topics.by_name) == {"a", "b"}
        node.raft.commit()
        assert set(node.image.topics.by_name) == {"a", "b"}
        responses = [await each for each in (first, second, rejected)]
        codes = [each.topics[0].error_code for each in responses if isinstance(each, CreateTopicsResponse)]
        assert codes == [0, 0, ErrorCode.TOPIC_ALREADY_EXISTS]
        node.raft.commits_automatically = True


async def test_the_response_is_immediate_when_nothing_is_uncommitted() -> None:
    async with admin_node() as node:
        response = node.controller.submit(DeleteTopicsRequest(topic_names=["nowhere"]))
        assert response.done()


async def test_disconnected_broker_is_fenced_after_a_failed_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = 0

    def full(*args: object) -> int:
        nonlocal failures
        failures += 1
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")

    async with admin_node({"broker.session.timeout.ms": "4000"}) as node:
        await node.controller.submit(registration(2))
        epoch = node.machine.image.cluster.brokers[2].epoch
        await node.controller.submit(
            BrokerHeartbeatRequest(
                broker_id=2, broker_epoch=epoch, current_metadata_offset=node.raft.end_offset
            )
        )
        assert node.machine.image.cluster.brokers[2].active
        with monkeypatch.context() as patched:
            patched.setattr(node.raft, "append", full)
            node.controller.broker_gone(2, epoch)
            # Only the controller's own timer retries.
            await until(lambda: failures == 2)
        await until(lambda: node.image.cluster.brokers[2].fenced)


async def test_lost_leadership_drops_uncommitted_records() -> None:
    async with admin_node() as node:
        await node.controller.submit(create_request("kept"))
        node.raft.commits_automatically = False
        lost = node.controller.submit(create_request("lost"))
        node.raft.resign()
        with pytest.raises(KafkaError) as error:
            await lost
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        assert set(node.machine.image.topics.by_name) == {"kept"}
        with pytest.raises(KafkaError) as error:
            await node.controller.submit(create_request("never"))
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        # Records that another leader commits in between arrive, and this node can lead again.
        node.raft.commits_automatically = True
        node.raft.lead()
        assert isinstance(await node.controller.submit(create_request("lost")), CreateTopicsResponse)
        assert set(node.image.topics.by_name) == set(node.machine.image.topics.by_name) == {"kept", "lost"}


async def test_leadership_lost_during_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader may notice only then that it has lost its quorum; the records are never committed."""
    async with admin_node() as node:
        await node.controller.submit(create_request("kept"))
        append = node.raft.append

        def resign_after(*args: Any) -> int:
            node.raft.commits_automatically = False
            last = append(*args)
            node.raft.resign()
            return last

        with monkeypatch.context() as patched:
            patched.setattr(node.raft, "append", resign_after)
            lost = node.controller.submit(create_request("lost"))
        with pytest.raises(KafkaError) as error:
            await lost
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        assert set(node.machine.image.topics.by_name) == {"kept"}
        node.raft.commits_automatically = True
        node.raft.lead()
        await node.controller.submit(create_request("after"))
        assert set(node.image.topics.by_name) == set(node.machine.image.topics.by_name)


async def test_follower_replays_committed_records() -> None:
    leader = AdminNode()
    leader.raft.lead()
    await run_loop()
    await leader.lifecycle.register()
    await leader.lifecycle.unfence()
    await leader.controller.submit(create_request("t", 3))
    follower = AdminNode()
    records = [record for record, _ in leader.raft.records]
    for listener in (follower.metadata, follower.controller):
        listener.handle_commit(0, 1, records)
    assert follower.machine.image.topics.by_name == leader.image.topics.by_name
    again = AdminNode()
    snapshot = [record for record, _ in leader.metadata.snapshot_records()]
    for listener in (again.metadata, again.controller):
        list(listener.handle_snapshot(leader.image.offset + 1, 1, snapshot))
    assert again.image.offset == leader.image.offset
    assert again.machine.image.topics.by_name == leader.image.topics.by_name
    leader.lifecycle.abandon()
    leader.controller.stop()


async def test_bootstrap_records_are_one_transaction() -> None:
    node = AdminNode()
    node.raft.lead()
    await run_loop()
    names = [type(record).__name__ for record, _ in node.raft.records]
    assert names[0] == "BeginTransactionRecord"
    assert names[-1] == "EndTransactionRecord"
    assert node.image.features.metadata_version == 30
    # Listeners never see the end marker, and no response waits for it.
    response = await asyncio.wait_for(node.controller.submit(DeleteTopicsRequest(topic_names=["x"])), 60)
    assert response is not None
    node.raft.resign()
    node.raft.lead()
    await run_loop()
    assert len(node.raft.records) == len(names), "later activations write no records"
    node.controller.stop()


async def test_silent_brokers_are_fenced_by_the_timer() -> None:
    async with admin_node({"broker.session.timeout.ms": "40"}) as node:
        other = registration(2)
        await node.controller.submit(other)
        node.lifecycle.abandon()
        fenced = asyncio.Event()

        def watch(delta: MetadataDelta, image: MetadataImage) -> None:
            if image.cluster.brokers[1].fenced:
                fenced.set()

        node.metadata.subscribe(watch)
        await asyncio.wait_for(fenced.wait(), 60)


async def test_unclean_elections_are_counted() -> None:
    async with admin_node() as node:
        await node.controller.submit(create_request("a"))
        node.lifecycle.abandon()
        node.controller.broker_gone(1, node.image.cluster.brokers[1].epoch)
        crashed = registration(1, incarnation="b")
        crashed.log_dirs = list(node.image.cluster.brokers[1].log_dirs)
        registered = await node.controller.submit(crashed)
        assert isinstance(registered, BrokerRegistrationResponse)
        assert node.controller.unclean_elections == 0
        heartbeat = BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=registered.broker_epoch, current_metadata_offset=node.image.offset
        )
        await node.controller.submit(heartbeat)
        assert [each.leader for _, _, each in node.image.topics.partitions()] == [1]
        assert node.controller.unclean_elections == 1


async def test_more_records_than_fit_into_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "MAX_RECORDS_PER_REQUEST", 1_000)
    async with admin_node() as node:
        for name in ("a", "b"):
            await node.controller.submit(create_request(name, 800))
        assert await node.lifecycle.shut_down()
        assert {each.leader for _, _, each in node.image.topics.partitions()} == {-1}


async def test_log_that_rejects_appends() -> None:
    async with admin_node() as node:
        # Raft knows the new leader, but the driver is not notified yet.
        node.raft.leader_id = 2
        with pytest.raises(KafkaError) as error:
            await node.controller.submit(create_request("t"))
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        assert node.machine.image.topics.by_name == {}
        node.raft.leader_id = 1
