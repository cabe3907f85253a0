"""One member of a classic group, and its parked requests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeAlias

from ruslo.protocol.messages.group_metadata_value import MemberMetadata

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Protocol names and metadata in the member's order of preference; only clients read the metadata."""


class ParkedRequest(NamedTuple):
    token: Hashable
    api_version: int


class ClassicMember:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        """The instance id of a static member (KIP-345)."""
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join: ParkedRequest | None = None
        self.sync: ParkedRequest | None = None
        self.is_new = False
        """Whether its first JoinGroup is parked, so it cannot send heartbeats yet."""

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for this protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Sequence[str] | set[str]) -> str:
        """The candidate that the member prefers; every member supports every candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    def to_record(self, protocol: str | None) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )

    @classmethod
    def from_record(cls, record: MemberMetadata, protocol: str | None) -> ClassicMember:
        # The first version of the record contains only the session timeout.
        rebalance_ms = record.rebalance_timeout
        return cls(
            record.member_id,
            instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=record.session_timeout if rebalance_ms == -1 else rebalance_ms,
            session_timeout_ms=record.session_timeout,
            protocols=() if protocol is None else ((protocol, record.subscription),),
            assignment=record.assignment,
        )
