"""A client of the classic protocol: it joins, syncs, sends heartbeats, and assigns if it is the leader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ruslo.client.wire.by_topic import indexes_by_topic
from ruslo.machines.groups.consumer.embedded import read_assignment, read_subscription
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ruslo.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedPartitions
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ruslo.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedPartitions
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ruslo.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse
from ruslo.testing.simulation.connection import LineFaults
from ruslo.testing.simulation.groups.assigning import Subscriber, assign_cooperative, assign_range
from ruslo.testing.simulation.groups.coordinator import SimCoordinator
from ruslo.testing.simulation.groups.member import BACKOFF_MS, SimMember, expected

if TYPE_CHECKING:
    from ruslo.testing.simulation.groups.invariants import GroupInvariants

HEARTBEAT_MS = 3_000
SUBSCRIPTION_VERSION = 2
ASSIGNMENT_VERSION = 1
NO_GENERATION = -1
RANGE = "range"
COOPERATIVE = "cooperative-sticky"


class ClassicSimMember(SimMember):
    def __init__(
        self,
        name: str,
        group_id: str,
        coordinator: SimCoordinator,
        faults: LineFaults,
        invariants: GroupInvariants,
        *,
        topics: Iterable[str],
        instance_id: str | None = None,
        cooperative: bool = False,
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        join_version: int = 9,
    ) -> None:
        super().__init__(
            name, group_id, coordinator, faults, invariants, topics=topics, instance_id=instance_id
        )
        self.cooperative = cooperative
        self._session_ms = session_ms
        self._rebalance_ms = rebalance_ms
        self._join_version = join_version
        self._generation = NO_GENERATION
        self._synced = False
        """Whether the member has its assignment and sends heartbeats."""
        self._must_report_revocation = False
        """Whether the member has revoked partitions and must rejoin to report that."""
        self._protocol: str | None = None
        self.joined_topics: list[str] = []
        """The subscription of the last JoinGroup."""
        self._assigned_counts: dict[str, int] | None = None
        """On the leader, the partition counts that it has assigned."""
        self._later(0, self._join)
        self._later(HEARTBEAT_MS, self._heartbeat)

    @property
    def epoch(self) -> int:
        return self._generation

    def subscribe(self, topics: Iterable[str]) -> None:
        self.topics = list(topics)
        if self._synced:
            self._rejoin()

    def leave(self) -> None:
        """Leave; a static member sends no LeaveGroup, so it can rejoin (KIP-345)."""
        if self.member_id and self.instance_id is None:
            self.commit()
            identity = MemberIdentity(member_id=self.member_id)
            request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
            self._call(request, 5, LeaveGroupResponse, lambda response: None)
        self.kill()

    # -- joining ---------------------------------------------------------------------------------------------

    def _rejoin(self) -> None:
        if self._synced:
            self.commit()
        self._synced = False
        self._assigned_counts = None
        if not self.cooperative:
            self.own(set())
        self._join()

    def _lose_all(self, *, forget_id: bool) -> None:
        """Abandon all partitions: other members may own them by now."""
        self._synced = False
        self._assigned_counts = None
        self._generation = NO_GENERATION
        if forget_id:
            self.member_id = ""
        self.own(set())
        self._later(BACKOFF_MS, self._join)

    def _join(self) -> None:
        self.joined_topics = self.topics
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name=COOPERATIVE if self.cooperative else RANGE, metadata=self._subscription()
                )
            ],
        )
        timeout_ms = 2 * self._rebalance_ms
        self._call(request, self._join_version, JoinGroupResponse, self._joined, timeout_ms)

    def _subscription(self) -> bytes:
        owned = [
            OwnedPartitions(topic=topic, partitions=partitions)
            for topic, partitions in indexes_by_topic(sorted(self.owned)).items()
        ]
        subscription = ConsumerProtocolSubscription(
            topics=sorted(self.topics), owned_partitions=owned, generation_id=self._generation
        )
        return SUBSCRIPTION_VERSION.to_bytes(2, "big") + subscription.to_bytes(SUBSCRIPTION_VERSION)

    def _joined(self, response: JoinGroupResponse | None) -> None:
        code = None if response is None else expected(response.error_code)
        if response is None:
            self._later(BACKOFF_MS, self._join)
        elif code is ErrorCode.NONE:
            self.member_id = response.member_id
            if self._missed_generation(response.generation_id):
                # The leader of the missed generation did not know its partitions and may have assigned them.
                self.commit()
                self.own(set())
                self._must_report_revocation = True
            self._generation = response.generation_id
            self._protocol = response.protocol_name
            leads = response.leader == response.member_id and bool(response.members)
            self._assigned_counts = self._partition_counts(response.members) if leads else None
            self._sync(response.members if leads and not response.skip_assignment else [])
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._join()
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._lose_all(forget_id=True)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.kill()
        else:
            self._later(BACKOFF_MS, self._join)

    def _missed_generation(self, generation: int) -> bool:
        """Whether the member missed a generation, as a static member may."""
        return bool(self.owned) and generation > self._generation + 1

    # -- the assignment --------------------------------------------------------------------------------------

    def _sync(self, members: list[JoinGroupResponseMember]) -> None:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol,
            assignments=self._assign(members),
        )
        self._call(request, 5, SyncGroupResponse, self._on_assignment, 2 * self._rebalance_ms)

    def _partition_counts(self, members: list[JoinGroupResponseMember]) -> dict[str, int]:
        names = {topic for each in members for topic in read_subscription(each.metadata).topics}
        topics = (self._coordinator.topics.by_name(name) for name in sorted(names))
        return {topic.name: topic.partition_count for topic in topics if topic is not None}

    def _assign(self, members: list[JoinGroupResponseMember]) -> list[SyncGroupRequestAssignment]:
        subscribers = []
        for each in members:
            subscription = read_subscription(each.metadata)
            owned = frozenset(
                TopicPartition(topic.topic, partition)
                for topic in subscription.owned_partitions
                for partition in topic.partitions
            )
            subscribers.append(
                Subscriber(
                    each.member_id,
                    each.group_instance_id,
                    frozenset(subscription.topics),
                    owned,
                    subscription.generation_id,
                )
            )
        assign = assign_cooperative if self._protocol == COOPERATIVE else assign_range
        assigned = assign(subscribers, self._assigned_counts or {})
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment(tps))
            for member_id, tps in assigned.items()
        ]

    def _on_assignment(self, response: SyncGroupResponse | None) -> None:
        code = None if response is None else expected(response.error_code)
        if code is ErrorCode.NONE and response is not None:
            self._apply_assignment(bytes(response.assignment))
        elif not self._handle_error(code):
            self._later(BACKOFF_MS, self._rejoin)

    def _handle_error(self, code: ErrorCode | None) -> bool:
        """Leave, rejoin or end as the error requires; False if it does not concern the membership."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin()
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._lose_all(forget_id=code is ErrorCode.UNKNOWN_MEMBER_ID)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.kill()
        else:
            return False
        return True

    def _apply_assignment(self, assignment: bytes) -> None:
        tps = {
            TopicPartition(topic.topic, partition)
            for topic in (read_assignment(assignment).assigned_partitions if assignment else [])
            for partition in topic.partitions
        }
        revoked = self._must_report_revocation or bool(self.owned - tps)
        if revoked:
            self.commit()
        self._synced = True
        self._must_report_revocation = False
        self.own(tps)
        if revoked or self.topics is not self.joined_topics:
            # Its revoked partitions are free now and must be assigned in another rebalance (KIP-429).
            self._rejoin()

    # -- heartbeats ------------------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        self._later(HEARTBEAT_MS, self._heartbeat)
        if not self._synced:
            return
        if self._assigned_counts is not None and self._topics_changed():
            self._rejoin()
            return
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        generation = self._generation
        self._call(request, 4, HeartbeatResponse, lambda response: self._on_heartbeat(generation, response))

    def _topics_changed(self) -> bool:
        known = self._assigned_counts or {}
        return any(self._partition_count(topic) != count for topic, count in known.items()) or any(
            topic not in known and self._partition_count(topic) for topic in self.topics
        )

    def _partition_count(self, name: str) -> int:
        topic = self._coordinator.topics.by_name(name)
        return 0 if topic is None else topic.partition_count

    def _on_heartbeat(self, generation: int, response: HeartbeatResponse | None) -> None:
        if response is not None and self._synced and self._generation == generation:
            self._handle_error(expected(response.error_code))


def _assignment(tps: Iterable[TopicPartition]) -> bytes:
    assigned = [
        AssignedPartitions(topic=topic, partitions=partitions)
        for topic, partitions in indexes_by_topic(sorted(tps)).items()
    ]
    body = ConsumerProtocolAssignment(assigned_partitions=assigned).to_bytes(ASSIGNMENT_VERSION)
    return ASSIGNMENT_VERSION.to_bytes(2, "big") + body
