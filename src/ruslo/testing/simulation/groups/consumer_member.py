"""A client of the new protocol (KIP-848): it sends heartbeats, and the coordinator assigns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ruslo.machines.groups.epoch_group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ruslo.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from ruslo.testing.simulation.connection import LineFaults
from ruslo.testing.simulation.groups.coordinator import SimCoordinator
from ruslo.testing.simulation.groups.member import BACKOFF_MS, RETRIABLE_ERRORS, SimMember, expected

if TYPE_CHECKING:
    from ruslo.testing.simulation.groups.invariants import GroupInvariants

VERSION = 1


class ConsumerSimMember(SimMember):
    def __init__(
        self,
        name: str,
        group_id: str,
        coordinator: SimCoordinator,
        faults: LineFaults,
        invariants: GroupInvariants,
        *,
        topics: Iterable[str],
        regex: str | None = None,
        instance_id: str | None = None,
        rebalance_ms: int = 30_000,
    ) -> None:
        super().__init__(
            name, group_id, coordinator, faults, invariants, topics=topics, instance_id=instance_id
        )
        self.regex = regex
        self.member_id = self._random.randbytes(16).hex()
        self._rebalance_ms = rebalance_ms
        self._epoch = JOIN_EPOCH
        self._send_all = True
        """Whether the next heartbeat must be full, because the last one may be lost."""
        self._send_owned = True
        self._topic_ids: dict[str, Uuid] = {}
        self._later(0, self._heartbeat)

    @property
    def epoch(self) -> int:
        return self._epoch

    def subscribe(self, topics: Iterable[str]) -> None:
        self.topics = list(topics)
        self._send_all = True

    def leave(self) -> None:
        """Leave; a static member leaves temporarily."""
        if self._epoch > 0:
            self.commit()
            self._epoch = LEAVE_EPOCH if self.instance_id is None else STATIC_LEAVE_EPOCH
            self.own(set())
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=self._epoch,
                instance_id=self.instance_id,
            )
            self._call(request, VERSION, ConsumerGroupHeartbeatResponse, lambda response: None)
        self.kill()

    def _heartbeat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=self.instance_id,
        )
        if self._send_all or self._send_owned:
            request.topic_partitions = self._owned_by_id()
        if self._send_all:
            request.rebalance_timeout_ms = self._rebalance_ms
            request.subscribed_topic_names = sorted(self.topics)
            request.subscribed_topic_regex = self.regex or ""
        self._send_all = self._send_owned = False
        self._call(request, VERSION, ConsumerGroupHeartbeatResponse, self._on_heartbeat)

    def _owned_by_id(self) -> list[TopicPartitions]:
        by_id: dict[Uuid, list[int]] = {}
        for tp in sorted(self.owned):
            by_id.setdefault(self._topic_ids[tp.topic], []).append(tp.partition)
        return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_id.items()]

    def _on_heartbeat(self, response: ConsumerGroupHeartbeatResponse | None) -> None:
        code = None if response is None else expected(response.error_code)
        if code is ErrorCode.NONE and response is not None:
            self._epoch = response.member_epoch
            if response.assignment is not None:
                self._apply_assignment(response.assignment)
            soon = self._send_all or self._send_owned
            self._later(0 if soon else response.heartbeat_interval_ms, self._heartbeat)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.kill()
        else:
            if code is not None and code not in RETRIABLE_ERRORS:
                # It is fenced or unknown: rejoin without partitions.
                self._epoch = JOIN_EPOCH
                self.own(set())
            self._send_all = True
            self._later(BACKOFF_MS, self._heartbeat)

    def _apply_assignment(self, assignment: Assignment) -> None:
        tps: set[TopicPartition] = set()
        for topic in assignment.topic_partitions:
            known = self._coordinator.topics.by_id(topic.topic_id)
            if known is not None:
                self._topic_ids[known.name] = known.id
                tps.update(TopicPartition(known.name, partition) for partition in topic.partitions)
        if tps == self.owned:
            return
        if self.owned - tps:
            self.commit()
        self.own(tps)
        self._send_owned = True
