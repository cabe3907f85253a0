"""A broker's life from its own side."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from ruslo.broker.controller import broker_lifecycle as lifecycle_module
from ruslo.broker.controller.broker_lifecycle import BrokerIdentity, BrokerLifecycle, LifecycleState
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.no_op_record import NoOpRecord
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ruslo.testing.simulation.clock import SimClock
from tests.support.machines.controller_bench import (
    AdminNode,
    UndisturbedQuorum,
    admin_node,
    numbered_uuid,
    registration,
)

FIRST, SECOND = numbered_uuid(100), numbered_uuid(101)


async def create(node: AdminNode) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await node.controller.submit(CreateTopicsRequest(topics=[topic]))


async def test_from_start_to_stop_and_back() -> None:
    node = AdminNode()
    node.raft.lead()
    lifecycle = node.lifecycle
    states = [lifecycle.state]
    await lifecycle.register()
    states.append(lifecycle.state)
    assert node.image.cluster.brokers[1].epoch == lifecycle.epoch
    assert node.image.cluster.brokers[1].fenced
    await lifecycle.unfence()
    states.append(lifecycle.state)
    assert states == [LifecycleState.STARTING, LifecycleState.RECOVERY, LifecycleState.RUNNING]
    assert not lifecycle.is_fenced
    assert lifecycle.has_session
    assert node.image.cluster.brokers[1].active
    await create(node)
    assert await lifecycle.shut_down()
    assert node.image.cluster.brokers[1].fenced
    partition = node.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.elr) == (-1, (1,))

    clean = node.new_lifecycle(previous_epoch=lifecycle.epoch)
    await clean.register()
    await clean.unfence()
    partition = node.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.recovery_state) == (1, (1,), 0)
    assert clean.epoch > lifecycle.epoch
    clean.abandon()
    node.controller.stop()


async def test_return_after_a_crash() -> None:
    async with admin_node() as node:
        await create(node)
        node.lifecycle.abandon()
        node.raft.lead()
        crashed = node.lifecycle = node.new_lifecycle()
        await crashed.register()
        assert node.image.topics.by_name["t"].partitions[0].leader == -1
        await crashed.unfence()
        partition = node.image.topics.by_name["t"].partitions[0]
        assert (partition.leader, partition.recovery_state) == (1, 1), "elected, but to be recovered first"


async def test_waits_until_there_is_a_controller() -> None:
    node = AdminNode()
    registering = asyncio.create_task(node.lifecycle.register())
    await asyncio.sleep(0.01)
    assert not registering.done()
    node.raft.lead()
    await asyncio.wait_for(registering, 60)
    node.lifecycle.abandon()
    node.controller.stop()


async def test_gives_up_when_it_cannot_register_in_time() -> None:
    node = AdminNode()
    with pytest.raises(KafkaError, match="could not register within"):
        await node.new_lifecycle(registration_timeout_ms=20).register()


async def test_does_not_wait_for_what_will_not_change() -> None:
    async with admin_node() as node:
        await node.controller.submit(registration(7))
        stolen = node.new_lifecycle(log_dirs=registration(7).log_dirs)
        node.raft.lead()
        with pytest.raises(KafkaError, match="belongs to broker 7") as error:
            await stolen.register()
        assert error.value.code is ErrorCode.INVALID_REGISTRATION


async def test_heartbeats_go_on_by_themselves() -> None:
    node = AdminNode({"broker.session.timeout.ms": "600"})
    node.raft.lead()
    lifecycle = node.new_lifecycle(heartbeat_interval_ms=10)
    await lifecycle.register()
    await lifecycle.unfence()
    await asyncio.sleep(1.3)
    assert node.image.cluster.brokers[1].active, "two sessions later it is still there"
    assert await lifecycle.shut_down()
    node.controller.stop()


async def test_stop_without_ever_having_registered() -> None:
    assert await AdminNode().lifecycle.shut_down()


async def test_stop_is_not_held_up_for_ever() -> None:
    async with admin_node() as node:
        node.raft.resign()
        assert not await node.lifecycle.shut_down(timeout_ms=1)


async def test_a_lost_directory_is_reported_before_the_next_heartbeat_is_due() -> None:
    node = AdminNode()
    node.raft.lead()
    lost: list[bytes] = []
    lifecycle = node.lifecycle = node.new_lifecycle(
        heartbeat_interval_ms=60_000, offline_log_dirs=lambda: lost, log_dirs=[FIRST, SECOND]
    )
    await lifecycle.register()
    await lifecycle.unfence()
    lost.append(SECOND)
    lifecycle.report_failed_directory()
    async with asyncio.timeout(60):
        while node.image.cluster.brokers[1].log_dirs != (FIRST,):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await lifecycle.shut_down()
    node.controller.stop()


async def test_a_broker_that_cannot_report_a_failed_directory_stops() -> None:
    node = AdminNode()
    node.raft.lead()
    lost: list[bytes] = []
    failures: list[str] = []
    lifecycle = node.lifecycle = node.new_lifecycle(
        heartbeat_interval_ms=60_000,
        offline_log_dirs=lambda: lost,
        log_dirs=[FIRST, SECOND],
        lost_directory_timeout_ms=1,
        on_failure=failures.append,
    )
    await lifecycle.register()
    await lifecycle.unfence()
    node.raft.resign()
    lost.append(SECOND)
    lifecycle.report_failed_directory()
    async with asyncio.timeout(60):
        while not failures:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert "log.dir.failure.timeout.ms=1" in failures[0]
    lifecycle.abandon()
    node.controller.stop()


async def test_cordoned_directories_are_reported_once_the_configs_are_known() -> None:
    node = AdminNode()
    node.raft.lead()
    cordoned: list[bytes] = [FIRST]
    told: list[list[bytes] | None] = []
    lifecycle = node.lifecycle = node.new_lifecycle(
        heartbeat_interval_ms=60_000, cordoned_log_dirs=lambda: cordoned, log_dirs=[FIRST, SECOND]
    )
    submit = node.controller.submit

    def watched(request: Message, *, timeout_ms: int = 0) -> asyncio.Future[Message]:
        if isinstance(request, BrokerHeartbeatRequest):
            told.append(request.cordoned_log_dirs)
        return submit(request, timeout_ms=timeout_ms)

    lifecycle._controller = SimpleNamespace(submit=watched)
    await lifecycle.register()
    assert set(map(str, told)) == {"None"}, "dynamic configs may still be unknown"
    await lifecycle.unfence()
    assert node.image.cluster.brokers[1].cordoned_log_dirs == (FIRST,)
    cordoned.append(SECOND)
    lifecycle.report_cordons()
    async with asyncio.timeout(60):
        while node.image.cluster.brokers[1].accepts_new_replicas:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await lifecycle.shut_down()
    node.controller.stop()


async def test_a_live_broker_that_is_unregistered_registers_again() -> None:
    node = AdminNode()
    node.raft.lead()
    lifecycle = node.lifecycle = node.new_lifecycle(heartbeat_interval_ms=60_000)
    await lifecycle.register()
    await lifecycle.unfence()
    await create(node)
    epoch = lifecycle.epoch
    await node.controller.submit(UnregisterBrokerRequest(broker_id=1))
    assert not is_sure(lifecycle), "others lead by now"
    async with asyncio.timeout(60):
        while not is_sure(lifecycle):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    broker = node.image.cluster.brokers[1]
    assert broker.active
    assert broker.epoch == lifecycle.epoch > epoch
    assert node.image.topics.by_name["t"].partitions[0].leader == 1
    assert await lifecycle.shut_down()
    node.controller.stop()


class SlowController:
    """Takes heartbeats and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Message]] = []

    def submit(self, request: Message, *, timeout_ms: int = 0) -> asyncio.Future[Message]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]


def stopping_broker(controller: SlowController, metadata: MetadataLoader) -> BrokerLifecycle:
    identity = BrokerIdentity(broker_id=1, cluster_id="c", endpoints=[], log_dirs=[])
    clock = SystemClock()
    lifecycle = BrokerLifecycle(identity, controller, metadata, UndisturbedQuorum(clock), clock=clock)
    lifecycle.epoch = 5
    return lifecycle


async def test_a_hand_over_may_take_its_time_while_something_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lifecycle_module, "_NO_PROGRESS_TIMEOUT_MS", 20)
    controller, metadata = SlowController(), MetadataLoader()
    stopping = asyncio.create_task(stopping_broker(controller, metadata).shut_down())
    until_s = time.monotonic() + 0.2
    while time.monotonic() < until_s:
        metadata.handle_commit(metadata.image.offset + 1, 1, [NoOpRecord()])
        await asyncio.sleep(0)
    assert not stopping.done()
    assert len(controller.asked) == 1, "it does not ask twice for what is being done"
    controller.asked[0].set_result(BrokerHeartbeatResponse(should_shut_down=True))
    assert await stopping


async def test_controlled_shutdown_gives_up_when_nothing_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lifecycle_module, "_NO_PROGRESS_TIMEOUT_MS", 20)
    controller = SlowController()
    assert not await stopping_broker(controller, MetadataLoader()).shut_down()
    assert controller.asked[0].cancelled()


class SlowQuorum(UndisturbedQuorum):
    """Knows everything when it is told to."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock)
        self.known = asyncio.Event()
        self.last_asked_ms: int | None = None
        """As of a controller that is cut off."""

    async def catch_up(self) -> None:
        await self.known.wait()

    def last_contact_ms(self) -> int:
        return super().last_contact_ms() if self.last_asked_ms is None else self.last_asked_ms


def is_sure(lifecycle: BrokerLifecycle) -> bool:
    return lifecycle.has_session  # mypy takes a property for constant


async def beat(lifecycle: BrokerLifecycle, controller: SlowController) -> None:
    heartbeat = asyncio.create_task(lifecycle._heartbeat())
    await asyncio.sleep(0)
    controller.asked.pop().set_result(BrokerHeartbeatResponse(is_fenced=False))
    await heartbeat
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_session_after_silence_counts_when_what_was_decided_meanwhile_is_known() -> None:
    """Else a coordinator that was cut off would tell what it knew before, until it hears of its successor."""
    clock, controller = SimClock(), SlowController()
    quorum = SlowQuorum(clock)
    identity = BrokerIdentity(broker_id=1, cluster_id="c", endpoints=[], log_dirs=[])
    lifecycle = BrokerLifecycle(
        identity, controller, MetadataLoader(), quorum, clock=clock, session_timeout_ms=1000
    )
    quorum.known.set()
    await beat(lifecycle, controller)
    assert is_sure(lifecycle)
    quorum.known.clear()
    clock.run_for(900)
    await beat(lifecycle, controller)
    clock.run_for(900)
    assert is_sure(lifecycle), "there was no silence"

    clock.run_for(100)
    assert not is_sure(lifecycle)
    for _ in range(2):
        await beat(lifecycle, controller)
        assert not is_sure(lifecycle)
    quorum.known.set()
    await beat(lifecycle, controller)
    assert is_sure(lifecycle)

    # Its own controller still responds, but other nodes no longer use it.
    quorum.last_asked_ms = clock.monotonic_ms()
    clock.run_for(900)
    await beat(lifecycle, controller)
    assert is_sure(lifecycle)
    clock.run_for(100)
    assert not is_sure(lifecycle)
    lifecycle.abandon()
