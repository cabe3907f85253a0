"""The controller machine on a list as its log, and the path of admin requests over a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from ruslo.broker.controller.broker_lifecycle import BrokerIdentity, BrokerLifecycle
from ruslo.broker.controller.driver import ControllerDriver
from ruslo.broker.controller.producer_ids import ProducerIds
from ruslo.broker.dispatch.api_table import broker_catalog, controller_catalog
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.metadata.topic_responses import TopicResponses
from ruslo.broker.node.config_rules import BrokerConfigRules
from ruslo.broker.quorum.log_listener import MetadataLogListener
from ruslo.broker.quorum.metadata_transactions import TransactionFilter
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.broker.security.authorization import Authorization
from ruslo.config.broker import BrokerConfig
from ruslo.machines.controller.broker_image import Endpoint
from ruslo.machines.controller.events import Activated, ControllerEvent, RequestOrigin
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.machine import ControllerMachine
from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.state import ControllerSettings, ControllerState
from ruslo.machines.machine import Instant, Requested, TimerFired
from ruslo.machines.quota import ClientQuotas, Windows
from ruslo.machines.raft.leader import Progress
from ruslo.machines.raft.rpc import ReplicaKey
from ruslo.machines.raft.voters import Endpoint as VoterEndpoint
from ruslo.machines.raft.voters import Voter, VoterSet
from ruslo.model.clock import Clock, SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ruslo.protocol.messages.feature_level_record import FeatureLevelRecord
from ruslo.storage.lost_data import LostDataList
from tests.support.brokers.metadata_log import broker_config as node_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MessageT = TypeVar("MessageT", bound=Message)

CLUSTER_ID = "testing-the-controller"
FEATURES = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


def broker_config(overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    return node_config(Path("/nowhere"), overrides)


def numbered_uuid(number: int) -> Uuid:
    """A recognizable uuid outside the reserved range."""
    return bytes([0xAA]) + number.to_bytes(15, "big")


class NumberedUuids:
    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> Uuid:
        self._last += 1
        return numbered_uuid(self._last)


def new_machine(config: BrokerConfig, features: Mapping[str, int] = FEATURES) -> ControllerMachine:
    settings = ControllerSettings(
        node_id=config.node_id,
        cluster_id=CLUSTER_ID,
        num_partitions=config.int("num.partitions"),
        default_replication_factor=config.int("default.replication.factor"),
        min_insync_replicas=config.int("min.insync.replicas"),
        unclean_leader_election_enable=config.bool("unclean.leader.election.enable"),
        broker_session_timeout_ms=config.int("broker.session.timeout.ms"),
    )
    state = ControllerState(
        settings, BrokerConfigRules(lambda: config), SUPPORTED_FEATURES, Random(0), NumberedUuids()
    )
    bootstrap = [FeatureLevelRecord(name=name, feature_level=level) for name, level in features.items()]
    return ControllerMachine(state, bootstrap)


def registration(
    broker_id: int,
    *,
    incarnation: str = "a",
    rack: str | None = None,
    dirs: int = 1,
    previous: int = -1,
    features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES,
) -> BrokerRegistrationRequest:
    """Directories of broker 3 are numbered 300, 301, …; incarnations are letters."""
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=incarnation.encode() * 16,
        listeners=[Listener(name="PLAINTEXT", host="localhost", port=9000 + broker_id, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.items()
        ],
        rack=rack,
        log_dirs=[numbered_uuid(broker_id * 100 + number) for number in range(dirs)],
        previous_broker_epoch=previous,
    )


@dataclass
class MachineBench:
    """Passes events to the machine and plays its driver: appends, replays and commits at once."""

    machine: ControllerMachine
    now_ms: int = 0
    log: list[VersionedRecord] = field(default_factory=list)

    @classmethod
    def started(
        cls,
        brokers: int = 1,
        overrides: Mapping[str, str] | None = None,
        features: Mapping[str, int] = FEATURES,
    ) -> MachineBench:
        bench = cls(new_machine(broker_config(overrides), features))
        bench.activate()
        for broker_id in range(1, brokers + 1):
            bench.join(broker_id)
        return bench

    @property
    def image(self) -> MetadataImage:
        return self.machine.image

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms)

    def activate(self) -> list[VersionedRecord]:
        return self._run(Activated(kraft_version=1))[0]

    def submit(self, request: Message) -> tuple[list[VersionedRecord], Message]:
        """Raises the KafkaError of the reply."""
        records, replies = self._run(Requested("token", request, RequestOrigin(len(self.log))))
        (reply,) = replies
        if isinstance(reply, KafkaError):
            assert not records, "a rejected request must change nothing"
            raise reply
        assert isinstance(reply, Message)
        return records, reply

    def respond(self, request: Message, expected: type[MessageT]) -> MessageT:
        response = self.submit(request)[1]
        assert isinstance(response, expected)
        return response

    def code(self, request: Message) -> ErrorCode:
        """The error of a request that is rejected as a whole."""
        try:
            self.submit(request)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def wait(self, milliseconds: int) -> list[VersionedRecord]:
        """Let time pass, firing the timer whenever it is due."""
        end_ms, records = self.now_ms + milliseconds, []
        while (deadline_ms := self.machine.deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(deadline_ms, self.now_ms)
            records += self._run(TimerFired())[0]
        self.now_ms = end_ms
        return records

    def handle(self, event: ControllerEvent) -> list[VersionedRecord]:
        """The records of an event that has no reply."""
        records, replies = self._run(event)
        assert not replies
        return records

    def join(self, broker_id: int, **how: str | int | None) -> None:
        """Register a broker and have it unfenced."""
        self.respond(registration(broker_id, **how), BrokerRegistrationResponse)  # type: ignore[arg-type]
        assert not self.heartbeat(broker_id).is_fenced

    def heartbeat(
        self,
        broker_id: int,
        *,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offset: int | None = None,
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.cluster.brokers[broker_id].epoch,
            current_metadata_offset=len(self.log) - 1 if offset is None else offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            cordoned_log_dirs=[],
        )
        return self.respond(request, BrokerHeartbeatResponse)

    def _run(self, event: ControllerEvent) -> tuple[list[VersionedRecord], list[object]]:
        outcome = self.machine.handle(event, self.now)
        records = list(outcome.records)
        for offset, (record, _) in enumerate(records, len(self.log)):
            self.machine.replay(record, offset)
        self.log += records
        return records, [reply.message for reply in outcome.replies]


class UndisturbedQuorum:
    """This node always has everything that is committed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def catch_up(self) -> None:
        pass

    def last_contact_ms(self) -> int:
        return self._clock.monotonic_ms()


class MemoryMetadataLog:
    """Stands in for RaftDriver: the same calls in the same order, one voter, nothing on disk."""

    def __init__(self) -> None:
        self.records: list[VersionedRecord] = []
        self.listeners: list[MetadataLogListener] = []
        self.leader_id, self.epoch, self.kraft_version = -1, 0, 1
        self.voters = VoterSet(
            (Voter(1, numbered_uuid(1), (VoterEndpoint("CONTROLLER", "localhost", 9093),)),)
        )
        self.high_watermark = 0
        self.replicas: dict[ReplicaKey, Progress] = {}
        self.commits_automatically = True
        self._transactions = TransactionFilter()

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def lead(self) -> None:
        self.epoch += 1
        self.leader_id = 1
        for listener in self.listeners:
            listener.handle_leader_change(1, self.epoch)

    def resign(self) -> None:
        """Another node leads, and uncommitted records are lost."""
        del self.records[self.high_watermark :]
        self.epoch += 1
        self.leader_id = 2
        for listener in self.listeners:
            listener.handle_leader_change(2, self.epoch)

    def append(
        self, epoch: int, records: Sequence[VersionedRecord], values: Sequence[bytes] | None = None
    ) -> int:
        if self.leader_id != 1 or epoch != self.epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "not the leader")
        for record, version in records:
            record.to_bytes(version)
        self.records += records
        if self.commits_automatically:
            asyncio.get_running_loop().call_soon(self.commit)
        return len(self.records) - 1

    def commit(self) -> None:
        base, self.high_watermark = self.high_watermark, len(self.records)
        if base == self.high_watermark:
            return
        records = [record for record, _ in self.records[base:]]
        for run in self._transactions.feed(base, self.epoch, records):
            for listener in self.listeners:
                listener.handle_commit(run.base_offset, run.epoch, run.records)


class LocalGateway:
    """The path from a broker to the controller on the same node."""

    def __init__(self, node: AdminNode) -> None:
        self._node = node
        self.handlers = controller_catalog().handlers

    async def forward(self, request: Message, context: RequestContext) -> Message:
        response = self.handlers[request.API_KEY](self._node, request, context._replace(forwarded=True))
        return await response if isawaitable(response) else response  # type: ignore[no-any-return]


class AdminNode:
    """The parts of a node that admin handlers use: attributes as in ``Services``."""

    def __init__(
        self,
        overrides: Mapping[str, str] | None = None,
        features: Mapping[str, int] = FEATURES,
        clock: Clock | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        self.config = broker_config(overrides)
        self.node_id, self.cluster_id = self.config.node_id, CLUSTER_ID
        self.clock = clock or SystemClock()
        self.scheduler = Scheduler(self.clock) if scheduler is None else scheduler
        self.raft = MemoryMetadataLog()
        self.metadata = MetadataLoader()
        self.dynamic_config = DynamicConfig(self.config, self.metadata, node_id=self.node_id)
        self.machine = new_machine(self.config, features)
        self.controller = ControllerDriver(
            self.machine,
            self.raft,
            self.metadata,
            node_id=self.node_id,
            clock=self.clock,
            scheduler=self.scheduler,
            probe=lambda broker_id, broker_epoch: None,
        )
        self.raft.listeners += [self.metadata, self.controller]
        self.topic_responses = TopicResponses(self.metadata, frozenset)
        self.lifecycle = self.new_lifecycle()
        self.assignor_error = lambda group_id: None
        self.topics_in_creation: set[str] = set()
        self.lost_data = LostDataList()
        self.apis = broker_catalog()
        self.gateway = LocalGateway(self)
        self.quotas = ClientQuotas(Windows(), Windows())
        self.authorization: Authorization | None = None
        self.check_config = lambda config: None
        self.producer_ids = ProducerIds(
            self.controller, broker_id=self.node_id, broker_epoch=lambda: self.lifecycle.epoch
        )

    def new_lifecycle(
        self, previous_epoch: int = -1, log_dirs: Sequence[Uuid] = (numbered_uuid(100),), **settings: Any
    ) -> BrokerLifecycle:
        identity = BrokerIdentity(
            broker_id=self.node_id,
            cluster_id=CLUSTER_ID,
            endpoints=[Endpoint("PLAINTEXT", "localhost", 9092, 0)],
            log_dirs=log_dirs,
            previous_epoch=previous_epoch,
        )
        quorum = UndisturbedQuorum(self.clock)
        return BrokerLifecycle(identity, self.controller, self.metadata, quorum, clock=self.clock, **settings)

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image


@asynccontextmanager
async def admin_node(
    overrides: Mapping[str, str] | None = None,
    features: Mapping[str, int] = FEATURES,
    scheduler: Scheduler | None = None,
) -> AsyncIterator[AdminNode]:
    """A node that leads, whose broker is registered and unfenced."""
    node = AdminNode(overrides, features, scheduler=scheduler)
    node.raft.lead()
    await node.lifecycle.register()
    await node.lifecycle.unfence()
    try:
        yield node
    finally:
        await node.producer_ids.stop()
        if node.controller.is_active:
            await node.lifecycle.shut_down()
        else:
            node.lifecycle.abandon()
        node.controller.stop()


def replayed(records: Iterable[VersionedRecord]) -> MetadataImage:
    """The image of the records after they were encoded and decoded."""
    image = MetadataImage()
    for record, version in records:
        image.replay(type(record).from_bytes(record.to_bytes(version), version))
    return image
