"""The life cycle of a broker: registration, heartbeats, controlled shutdown."""

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


async def test_lifecycle_over_a_restart() -> None:
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


async def test_restart_after_a_crash() -> None:
    async with admin_node() as node:
        await create(node)
        node.lifecycle.abandon()
        node.raft.lead()
        crashed = node.lifecycle = node.new_lifecycle()
        await crashed.register()
        assert node.image.topics.by_name["t"].partitions[0].leader == -1
        await crashed.unfence()
        partition = node.image.topics.by_name["t"].partitions[0]
        assert (partition.leader, partition.recovery_state) == (1, 1), (
            "the leader is elected and must recover first"
        )


async def test_registration_waits_for_a_controller() -> None:
    node = AdminNode()
    registering = asyncio.create_task(node.lifecycle.register())
    await asyncio.sleep(0.01)
    assert not registering.done()
    node.raft.lead()
    await asyncio.wait_for(registering, 60)
    node.lifecycle.abandon()
    node.controller.stop()


async def test_registration_times_out() -> None:
    node = AdminNode()
    with pytest.raises(KafkaError, match="could not register within"):
        await node.new_lifecycle(registration_timeout_ms=20).register()


async def test_permanent_registration_errors_are_not_retried() -> None:
    async with admin_node() as node:
        await node.controller.submit(registration(7))
        taken_over = node.new_lifecycle(log_dirs=registration(7).log_dirs)
        node.raft.lead()
        with pytest.raises(KafkaError, match="belongs to broker 7") as error:
            await taken_over.register()
        assert error.value.code is ErrorCode.INVALID_REGISTRATION


async def test_heartbeats_keep_the_session() -> None:
    node = AdminNode({"broker.session.timeout.ms": "600"})
    node.raft.lead()
    lifecycle = node.new_lifecycle(heartbeat_interval_ms=10)
    await lifecycle.register()
    await lifecycle.unfence()
    await asyncio.sleep(1.3)
    assert node.image.cluster.brokers[1].active, "the broker is still unfenced after two session timeouts"
    assert await lifecycle.shut_down()
    node.controller.stop()


async def test_shutdown_without_a_registration() -> None:
    assert await AdminNode().lifecycle.shut_down()


async def test_controlled_shutdown_has_a_timeout() -> None:
    async with admin_node() as node:
        node.raft.resign()
        assert not await node.lifecycle.shut_down(timeout_ms=1)


async def test_failed_directory_is_reported_before_the_next_heartbeat_is_due() -> None:
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


async def test_broker_that_cannot_report_a_failed_directory_stops() -> None:
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
    reported: list[list[bytes] | None] = []
    lifecycle = node.lifecycle = node.new_lifecycle(
        heartbeat_interval_ms=60_000, cordoned_log_dirs=lambda: cordoned, log_dirs=[FIRST, SECOND]
    )
    submit = node.controller.submit

    def watched(request: Message, *, timeout_ms: int = 0) -> asyncio.Future[Message]:
        if isinstance(request, BrokerHeartbeatRequest):
            reported.append(request.cordoned_log_dirs)
        return submit(request, timeout_ms=timeout_ms)

    lifecycle._controller = SimpleNamespace(submit=watched)
    await lifecycle.register()
    assert set(map(str, reported)) == {"None"}, "dynamic configs may still be unknown"
    await lifecycle.unfence()
    assert node.image.cluster.brokers[1].cordoned_log_dirs == (FIRST,)
    cordoned.append(SECOND)
    lifecycle.report_cordons()
    async with asyncio.timeout(60):
        while node.image.cluster.brokers[1].accepts_new_replicas:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await lifecycle.shut_down()
    node.controller.stop()


async def test_unregistered_broker_registers_again() -> None:
    node = AdminNode()
    node.raft.lead()
    lifecycle = node.lifecycle = node.new_lifecycle(heartbeat_interval_ms=60_000)
    await lifecycle.register()
    await lifecycle.unfence()
    await create(node)
    epoch = lifecycle.epoch
    await node.controller.submit(UnregisterBrokerRequest(broker_id=1))
    assert not has_session(lifecycle), "another replica leads"
    async with asyncio.timeout(60):
        while not has_session(lifecycle):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    broker = node.image.cluster.brokers[1]
    assert broker.active
    assert broker.epoch == lifecycle.epoch > epoch
    assert node.image.topics.by_name["t"].partitions[0].leader == 1
    assert await lifecycle.shut_down()
    node.controller.stop()


class SlowController:
    """A controller that receives heartbeats and responds when the test says so."""

    def __init__(self) -> None:
        self.pending: list[asyncio.Future[Message]] = []

    def submit(self, request: Message, *, timeout_ms: int = 0) -> asyncio.Future[Message]:
        self.pending.append(asyncio.get_running_loop().create_future())
        return self.pending[-1]


def stopping_broker(controller: SlowController, metadata: MetadataLoader) -> BrokerLifecycle:
    identity = BrokerIdentity(broker_id=1, cluster_id="c", endpoints=[], log_dirs=[])
    clock = SystemClock()
    lifecycle = BrokerLifecycle(identity, controller, metadata, UndisturbedQuorum(clock), clock=clock)
    lifecycle.epoch = 5
    return lifecycle


async def test_controlled_shutdown_may_take_long_while_records_are_committed(
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
    assert len(controller.pending) == 1, "the pending request is not repeated"
    controller.pending[0].set_result(BrokerHeartbeatResponse(should_shut_down=True))
    assert await stopping


async def test_controlled_shutdown_gives_up_when_no_records_are_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lifecycle_module, "_NO_PROGRESS_TIMEOUT_MS", 20)
    controller = SlowController()
    assert not await stopping_broker(controller, MetadataLoader()).shut_down()
    assert controller.pending[0].cancelled()


class SlowQuorum(UndisturbedQuorum):
    """A quorum that catches up when the test says so."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock)
        self.caught_up = asyncio.Event()
        self.fixed_contact_ms: int | None = None
        """The last contact of a partitioned controller; None keeps the contact current."""

    async def catch_up(self) -> None:
        await self.caught_up.wait()

    def last_contact_ms(self) -> int:
        return super().last_contact_ms() if self.fixed_contact_ms is None else self.fixed_contact_ms


def has_session(lifecycle: BrokerLifecycle) -> bool:
    return lifecycle.has_session  # mypy treats a property as constant


async def beat(lifecycle: BrokerLifecycle, controller: SlowController) -> None:
    heartbeat = asyncio.create_task(lifecycle._heartbeat())
    await asyncio.sleep(0)
    controller.pending.pop().set_result(BrokerHeartbeatResponse(is_fenced=False))
    await heartbeat
    for _ in range(3):
        await asyncio.sleep(0)


async def test_session_after_a_partition_counts_once_the_metadata_is_current() -> None:
    """A partitioned coordinator would otherwise serve stale metadata until it learns of its successor."""
    clock, controller = SimClock(), SlowController()
    quorum = SlowQuorum(clock)
    identity = BrokerIdentity(broker_id=1, cluster_id="c", endpoints=[], log_dirs=[])
    lifecycle = BrokerLifecycle(
        identity, controller, MetadataLoader(), quorum, clock=clock, session_timeout_ms=1000
    )
    quorum.caught_up.set()
    await beat(lifecycle, controller)
    assert has_session(lifecycle)
    quorum.caught_up.clear()
    clock.run_for(900)
    await beat(lifecycle, controller)
    clock.run_for(900)
    assert has_session(lifecycle), "heartbeats never paused"

    clock.run_for(100)
    assert not has_session(lifecycle)
    for _ in range(2):
        await beat(lifecycle, controller)
        assert not has_session(lifecycle)
    quorum.caught_up.set()
    await beat(lifecycle, controller)
    assert has_session(lifecycle)

    # The broker's own controller still responds, but the other nodes no longer follow it.
    quorum.fixed_contact_ms = clock.monotonic_ms()
    clock.run_for(900)
    await beat(lifecycle, controller)
    assert has_session(lifecycle)
    clock.run_for(100)
    assert not has_session(lifecycle)
    lifecycle.abandon()
