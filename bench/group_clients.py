"""Many members of many groups in one process, over plain frames: client libraries do not scale to that."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Sequence

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ruslo.protocol.messages.join_group_response import JoinGroupResponse
from ruslo.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse
from tests.support.clients.raw_client import RawClient, connected, frame, request_bytes

JOIN_VERSION = 3
"""The last JoinGroup version that admits a member without MEMBER_ID_REQUIRED."""
COMMIT_VERSION = 9
SESSION_MS = 300_000
SUBSCRIPTION_VERSION = 1
OPENED_AT_ONCE = 50


@contextlib.asynccontextmanager
async def connections(bootstrap: str, count: int) -> AsyncIterator[list[RawClient]]:
    async with contextlib.AsyncExitStack() as stack:
        clients: list[RawClient] = []
        while len(clients) < count:
            wanted = min(OPENED_AT_ONCE, count - len(clients))
            clients += await asyncio.gather(
                *(stack.enter_async_context(connected(bootstrap)) for _ in range(wanted))
            )
        yield clients


async def wait_for_coordinator(bootstrap: str, group_ids: Sequence[str]) -> None:
    """The first request creates __consumer_offsets; wait until every partition of it has a leader."""
    async with connected(bootstrap) as client:
        deadline = time.monotonic() + 60
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(group_ids))
        while True:
            answer = await client.call(request, FindCoordinatorResponse)
            codes = {each.error_code for each in answer.coordinators}
            if codes == {ErrorCode.NONE}:
                commit = commit_request(group_ids[0], "", -1, 0)
                response = await client.call(commit, OffsetCommitResponse, COMMIT_VERSION)
                codes = {response.topics[0].partitions[0].error_code}
            if codes <= {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"there is no coordinator: {codes}")
            await asyncio.sleep(0.1)


class ClassicMember:
    """A member of a classic group, on a connection that it may share with others."""

    def __init__(self, client: RawClient, group_id: str, topic: str) -> None:
        self.client = client
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.synced_generation = -1
        """The generation of the member's assignment."""
        self.leads = False
        self.wants_rebalance = False
        self._others: list[str] = []
        body = ConsumerProtocolSubscription(topics=[topic]).to_bytes(SUBSCRIPTION_VERSION)
        self._subscription = SUBSCRIPTION_VERSION.to_bytes(2, "big") + body

    async def join(self) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=self._subscription)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = await self.client.call(request, JoinGroupResponse, JOIN_VERSION)
        _check(answer.error_code)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.leads = answer.leader == answer.member_id
        self._others = [each.member_id for each in answer.members]

    async def sync(self) -> None:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=bytes(24)) for each in self._others
            ],
        )
        answer = await self.client.call(request, SyncGroupResponse, 3)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self.rejoin()
        else:
            _check(answer.error_code)
            self.synced_generation = self.generation

    async def rejoin(self) -> None:
        await self.join()
        await self.sync()

    async def beat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
        )
        return ErrorCode((await self.client.call(request, HeartbeatResponse, 4)).error_code)

    async def follow(self) -> None:
        """Send a heartbeat and follow its response."""
        if self.wants_rebalance or await self.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.wants_rebalance = False
            await self.rejoin()


class ConsumerMember:
    """A member of the new protocol (KIP-848)."""

    def __init__(self, client: RawClient, group_id: str, topic: str, number: int) -> None:
        self.client = client
        self.epoch = 0
        self.is_settled = False
        """Whether the last heartbeat changed nothing."""
        self._group_id = group_id
        self._topic = topic
        self._member_id = f"{group_id}-{number}"
        self._owned: list[TopicPartitions] | None = []

    async def beat(self) -> None:
        joins = self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=SESSION_MS if joins else -1,
            subscribed_topic_names=[self._topic] if joins else None,
            topic_partitions=self._owned,
        )
        answer = await self.client.call(request, ConsumerGroupHeartbeatResponse, 1)
        _check(answer.error_code)
        self.is_settled = self.epoch == answer.member_epoch and answer.assignment is None
        self.epoch = answer.member_epoch
        self._owned = None
        if answer.assignment is not None:
            self._owned = [
                TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            ]


def commit_request(group_id: str, member_id: str, epoch: int, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="groups", partitions=[partition])],
    )


def commits_per_s(port: int, group_ids: Sequence[str], connection_count: int, seconds: float) -> float:
    """Every connection has one commit in flight for each of its groups; nothing else is measured.

    All requests carry the same correlation id, so all responses are the same bytes.
    """
    frames = [
        frame(request_bytes(commit_request(group_id, "", -1, 42), COMMIT_VERSION)) for group_id in group_ids
    ]
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connection_count)]
    try:
        sockets[0].sendall(frames[0])
        answer = _read(sockets[0], 4)
        answer += _read(sockets[0], struct.unpack(">i", answer)[0])
        loads = [(each, frames[at::connection_count]) for at, each in enumerate(sockets)]
        done = 0
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            for each, own in loads:
                each.sendall(b"".join(own))
            for each, own in loads:
                if _read(each, len(answer) * len(own)) != answer * len(own):
                    raise RuntimeError("a commit was refused")
                done += len(own)
        return done / (time.monotonic() - start)
    finally:
        for each in sockets:
            each.close()


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the broker closed the connection")
        data += part
    return bytes(data)


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise RuntimeError(f"the coordinator answered {ErrorCode(code).name}")
