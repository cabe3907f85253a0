"""A member of a classic group that behaves like a client library, against a GroupBench."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse
from ruslo.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ruslo.protocol.messages.join_group_response import JoinGroupResponse
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse
from tests.support.groups.group_bench import Coordinator, GroupBench
from tests.support.groups.offset_calls import commit

SESSION_MS = 10_000
REBALANCE_MS = 30_000


def subscription(topics: Iterable[str], version: int = 1) -> bytes:
    body = ConsumerProtocolSubscription(topics=list(topics)).to_bytes(version)
    return version.to_bytes(2, "big") + body


class ClassicClient:
    def __init__(
        self,
        bench: Coordinator,
        name: str,
        *,
        group: str = "g",
        instance: str | None = None,
        topics: Iterable[str] = ("orders",),
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        join_version: int = 9,
    ) -> None:
        self.bench = bench
        self.name = name
        self.group = group
        self.instance = instance
        self.protocols = {"range": subscription(topics)} if protocols is None else dict(protocols)
        self.protocol_type = protocol_type
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.join_version = join_version
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.token = 0
        self.last_join = JoinGroupResponse()

    def join(self) -> JoinGroupResponse | None:
        """Join, again if a member id is required; None while the request is parked."""
        response = self.join_once()
        if response is not None and response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = self.join_once()
        return response

    def join_once(self) -> JoinGroupResponse | None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self.protocols.items()],
        )
        self.token = self.bench.send(request, self.join_version, self.name)
        return None if self.bench.is_parked(self.token) else self.joined()

    def joined(self) -> JoinGroupResponse:
        """The response to the parked JoinGroup."""
        response = self.last_join = self.bench.response(self.token, JoinGroupResponse)
        if response.error_code == ErrorCode.NONE:
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.protocol = response.protocol_name
        return response

    @property
    def waits(self) -> bool:
        return self.bench.is_parked(self.token)

    @property
    def leads(self) -> bool:
        return self.last_join.leader == self.member_id

    def sync(
        self, assignments: Mapping[str, bytes] | None = None, version: int = 5
    ) -> bytes | ErrorCode | None:
        """Sync; None while the request is parked."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        self.token = self.bench.send(request, version, self.name)
        return None if self.waits else self.synced()

    def synced(self) -> bytes | ErrorCode:
        response = self.bench.response(self.token, SyncGroupResponse)
        code = ErrorCode(response.error_code)
        return response.assignment if code is ErrorCode.NONE else code

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return ErrorCode(self.bench.call(request, HeartbeatResponse).error_code)

    def leave(self) -> ErrorCode:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        request = LeaveGroupRequest(group_id=self.group, members=[identity])
        response = self.bench.call(request, LeaveGroupResponse)
        return ErrorCode(response.error_code or response.members[0].error_code)

    def commit(
        self, offset: int, *, topic: str = "orders", partition: int = 0, version: int = 9
    ) -> ErrorCode:
        return commit(
            self.bench,
            offset,
            group=self.group,
            topic=topic,
            partition=partition,
            member=self.member_id,
            instance=self.instance,
            generation=self.generation,
            version=version,
        )


def stable_group(bench: GroupBench, *clients: ClassicClient) -> None:
    """Form a generation of exactly these members; each is assigned its own name."""
    for client in clients:
        client.join()
    bench.advance(2 * bench.settings.initial_rebalance_delay_ms)
    for client in clients:
        client.joined()
    complete_rebalance(*clients)


def complete_rebalance(*clients: ClassicClient) -> None:
    """Complete a rebalance that all members have joined: the leader assigns, and all sync."""
    assignments = {client.member_id: client.name.encode() for client in clients}
    leader = next(client for client in clients if client.leads)
    for client in clients:
        if client is not leader:
            assert client.sync() is None
    assert leader.sync(assignments) == leader.name.encode()
    for client in clients:
        if client is not leader:
            assert client.synced() == client.name.encode()
