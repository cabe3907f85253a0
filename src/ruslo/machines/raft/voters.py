"""The voters of the quorum.

Under kraft.version 0 they are configured in ``controller.quorum.voters``, and a voter is its node id. Under
kraft.version 1 they are in Voters records of the log, and a voter is its node id and the id of its log
directory, so a node that lost its disk is not mistaken for the old voter (KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.model.ids import ZERO_UUID, Uuid, uuid_to_text
from ruslo.protocol.messages import voters_record as wire
from ruslo.protocol.messages.voters_record import VotersRecord

KRAFT_VERSION_MAX = 1
"""The highest kraft.version that Ruslo supports; the lowest is 0."""


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    node_id: int
    directory_id: Uuid = ZERO_UUID
    """Zero under kraft.version 0."""
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_range: tuple[int, int] = (0, KRAFT_VERSION_MAX)

    def is_node(self, node_id: int, directory_id: Uuid) -> bool:
        return self.node_id == node_id and self.directory_id in (ZERO_UUID, directory_id)

    def __str__(self) -> str:
        if self.directory_id == ZERO_UUID:
            return str(self.node_id)
        return f"{self.node_id}-{uuid_to_text(self.directory_id)}"


@dataclass(frozen=True, slots=True)
class VoterSet:
    voters: tuple[Voter, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.node_id for voter in self.voters)

    def find(self, node_id: int, directory_id: Uuid) -> Voter | None:
        """The voter that this replica is; None for an observer."""
        return next((voter for voter in self.voters if voter.is_node(node_id, directory_id)), None)

    def updated(self, voter: Voter) -> VoterSet:
        """The set with this voter replacing the one of the same node id."""
        return VoterSet(tuple(voter if each.node_id == voter.node_id else each for each in self.voters))

    def added(self, voter: Voter) -> VoterSet:
        return VoterSet((*self.voters, voter))

    def removed(self, voter: Voter) -> VoterSet:
        return VoterSet(tuple(each for each in self.voters if each != voter))

    @classmethod
    def static(cls, addresses: Mapping[int, tuple[str, int]], listener: str) -> VoterSet:
        """From ``controller.quorum.voters``: host and port by node id."""
        return cls(
            tuple(
                Voter(node_id=node_id, endpoints=(Endpoint(listener, host, port),))
                for node_id, (host, port) in addresses.items()
            )
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls(
            tuple(
                Voter(
                    node_id=voter.voter_id,
                    directory_id=voter.voter_directory_id,
                    endpoints=tuple(Endpoint(at.name, at.host, at.port) for at in voter.endpoints),
                    kraft_version_range=(
                        voter.kraft_version_feature.min_supported_version,
                        voter.kraft_version_feature.max_supported_version,
                    ),
                )
                for voter in record.voters
            )
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                wire.Voter(
                    voter_id=voter.node_id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        wire.Endpoint(name=at.listener, host=at.host, port=at.port) for at in voter.endpoints
                    ],
                    kraft_version_feature=wire.KRaftVersionFeature(
                        min_supported_version=voter.kraft_version_range[0],
                        max_supported_version=voter.kraft_version_range[1],
                    ),
                )
                for voter in self.voters
            ],
        )

    def __str__(self) -> str:
        return ", ".join(str(voter) for voter in self.voters)
