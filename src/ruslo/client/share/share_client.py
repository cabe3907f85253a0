"""A member of a share group: keeps its membership, and fetches and acknowledges at the leaders."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from ruslo.client.share.acknowledgements import Acknowledgements, SharePartitionId
from ruslo.client.share.broker_session import BrokerSession, Fetched, Outcomes
from ruslo.client.share.member import MemberState, ShareMember
from ruslo.client.share.session import FetchLimits
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.client.wire.metadata import ClusterMetadata, TopicInfo
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.net.channel import error_of
from ruslo.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

_log = logging.getLogger("ruslo.client")
_METADATA_MAX_AGE_MS = 300_000
_RETRY_BACKOFF_MS = 200
_FAILED_HEARTBEAT_INTERVAL_S = 1.0
_LEAVE_TIMEOUT_S = 5.0
_RETRIED = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR})
"""Errors of a fetch that are retried, although Kafka's table does not call them retriable."""


class ShareClient:
    """``start`` joins the group, ``close`` leaves it. Everything runs on one event loop.

    Errors that a retry does not fix are raised by ``leaders``: missing permissions, or a cluster without
    share groups.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Collection[str],
        *,
        rack_id: str | None = None,
        request_timeout_ms: int = 30_000,
    ) -> None:
        self.member = ShareMember(group_id, topics, rack_id=rack_id)
        self.changed = asyncio.Event()
        """Set when the assignment, or the error to raise, may have changed."""
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)
        self._request_timeout_ms = request_timeout_ms
        self._clock = SystemClock()
        self._topics = set(topics)
        self._metadata: ClusterMetadata | None = None
        self._metadata_due_ms = 0
        self._retry_at_ms: dict[int, int] = {}
        self._sessions: dict[int, BrokerSession] = {}
        self._membership: asyncio.Task[None] | None = None
        self._heartbeat_due = asyncio.Event()
        self._membership_error: KafkaError | None = None
        self._fetch_error: KafkaError | None = None

    # -- membership

    def start(self) -> None:
        """Join the group, or join it again after ``leave``."""
        if self._membership is None or self._membership.done():
            self.member.subscribe(self._topics)
            self._membership = asyncio.create_task(self._keep_membership())

    def subscribe(self, topics: Collection[str]) -> None:
        self._topics = set(topics)
        self._metadata = None
        self.member.subscribe(topics)
        self._heartbeat_due.set()

    async def leave(self) -> None:
        """End the membership. Acquired records stay locked until they are acknowledged, or for their time."""
        self.member.leave()
        self._heartbeat_due.set()
        if self._membership is not None:
            try:
                async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                    await self._membership
            except TimeoutError:
                _log.info("left share group %s without a response", self.member.group_id)
            self._membership = None

    async def close(self, acknowledgements: Mapping[int, Acknowledgements]) -> dict[int, Outcomes]:
        """Acknowledge, release all other acquired records, leave the group. Returns outcomes by leader."""
        nodes = list(self._sessions.keys() | acknowledgements.keys())
        found = await asyncio.gather(
            *(self._session(node).close(acknowledgements.get(node, {})) for node in nodes)
        )
        self._sessions.clear()
        await self.leave()
        return {node: outcomes for node, outcomes in zip(nodes, found, strict=True) if outcomes}

    async def _keep_membership(self) -> None:
        member = self.member
        while True:
            self._heartbeat_due.clear()
            leaves = member.state is MemberState.LEFT
            try:
                response = await self._coordinators.one(member.group_id, self._heartbeat)
            except KafkaError as error:
                recovers = member.on_error(error.code)
                self._membership_error = None if recovers else error
                wait_s = _FAILED_HEARTBEAT_INTERVAL_S
                if member.state is MemberState.JOINING and recovers:
                    _log.info("joining share group %s again: %s", member.group_id, error)
                    wait_s = _RETRY_BACKOFF_MS / 1000
            else:
                member.on_response(response)
                self._membership_error = None
                wait_s = member.interval_ms / 1000
            self.changed.set()
            if leaves:
                return
            try:
                async with asyncio.timeout(wait_s):
                    await self._heartbeat_due.wait()
            except TimeoutError:
                pass

    async def _heartbeat(self, node: int) -> ShareGroupHeartbeatResponse | KafkaError:
        response = await self._cluster.node(node, self.member.heartbeat(), ShareGroupHeartbeatResponse)
        if response.error_code:
            text = response.error_message or f"share group {self.member.group_id} rejected the member"
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                text = "the cluster has no share groups: finalize its feature share.version at 1 or more"
            return error_of(response.error_code, text)
        return response

    # -- assignment

    async def leaders(self) -> dict[int, list[SharePartitionId]]:
        """The assigned partitions by leader, without leaders that failed a moment ago."""
        self._raise_error()
        now_ms = self._clock.monotonic_ms()
        topics = await self._assigned_topics(now_ms)
        found: dict[int, list[SharePartitionId]] = {}
        for topic_id, number in sorted(self.member.assigned):
            topic = topics.get(topic_id)
            info = None if topic is None else topic.partition(number)
            if topic is None or info is None or info.leader_id < 0:
                self._refresh_metadata()
            elif self._retry_at_ms.get(info.leader_id, 0) <= now_ms:
                partition = SharePartitionId(topic.name, topic_id, number)
                found.setdefault(info.leader_id, []).append(partition)
        return found

    async def _assigned_topics(self, now_ms: int) -> dict[Uuid, TopicInfo]:
        if self._metadata is None or now_ms >= self._metadata_due_ms:
            self._metadata = await self._cluster.retrying(lambda: self._cluster.metadata(self._topics))
            self._metadata_due_ms = now_ms + _METADATA_MAX_AGE_MS
            for error in self._metadata.errors.values():
                if not error.code.retriable:
                    raise error
        return {topic.topic_id: topic for topic in self._metadata.topics.values()}

    def _refresh_metadata(self) -> None:
        """Request metadata again, but not with every call: a new leader may take a moment to be known."""
        due_ms = self._clock.monotonic_ms() + _RETRY_BACKOFF_MS
        self._metadata_due_ms = min(self._metadata_due_ms, due_ms)

    def _raise_error(self) -> None:
        if self._membership is not None and self._membership.done():
            # It ends by itself only because of a bug, or after the cluster was closed.
            self._membership.result()
        if self._membership_error is not None:
            raise self._membership_error
        if self._fetch_error is not None:
            error, self._fetch_error = self._fetch_error, None
            raise error

    # -- records

    async def fetch(
        self,
        node_id: int,
        partitions: Collection[SharePartitionId],
        limits: FetchLimits,
        acknowledgements: Acknowledgements | None = None,
    ) -> Fetched:
        """Acquire records at one leader. An error is noted: another call may find the new leader."""
        try:
            fetched = await self._session(node_id).fetch(partitions, limits, acknowledgements)
        except KafkaError as error:
            self._note_failure(node_id, error)
            return Fetched([], dict.fromkeys(acknowledgements or (), error), dict.fromkeys(partitions, error))
        for problem in fetched.errors.values():
            self._note_failure(node_id, problem)
        return fetched

    async def acknowledge(self, acknowledgements: Mapping[int, Acknowledgements]) -> dict[int, Outcomes]:
        """Send acknowledgements to the leaders that acquired the records. Returns outcomes by leader."""
        found = await asyncio.gather(
            *(self._session(node).acknowledge(batches) for node, batches in acknowledgements.items())
        )
        return dict(zip(acknowledgements, found, strict=True))

    @property
    def lock_timeout_ms(self) -> int | None:
        """How long records stay locked, the shortest of all leaders; None until one has said it."""
        return min((s.lock_timeout_ms for s in self._sessions.values() if s.lock_timeout_ms), default=None)

    def _session(self, node_id: int) -> BrokerSession:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = BrokerSession(
                self._cluster, node_id, self.member.group_id, self.member.member_id, self._request_timeout_ms
            )
        return session

    def _note_failure(self, node_id: int, error: KafkaError) -> None:
        if not error.code.retriable and error.code not in _RETRIED:
            self._fetch_error = error
            self.changed.set()
            return
        _log.debug("cannot fetch from broker %d: %s", node_id, error)
        self._retry_at_ms[node_id] = self._clock.monotonic_ms() + _RETRY_BACKOFF_MS
        self._refresh_metadata()
