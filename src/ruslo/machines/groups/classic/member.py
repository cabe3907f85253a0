"""One member of a classic group, and its parked requests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, TypeAlias

from ruslo.protocol.messages.group_metadata_value import MemberMetadata

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Protocol names and metadata in the member's order of preference; only clients read the metadata."""


class ParkedRequest(NamedTuple):
    token: Hashable
    api_version: int


@dataclass(slots=True, eq=False)
class ClassicMember:
    member_id: str
    _: KW_ONLY
    instance_id: str | None
    """The instance id of a static member (KIP-345)."""
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join: ParkedRequest | None = None
    sync: ParkedRequest | None = None
    is_new: bool = False
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
