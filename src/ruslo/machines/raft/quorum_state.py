"""The content of the ``quorum-state`` file: the election state that must survive a restart.

Data version 0 belongs to kraft.version 0 (static voters), version 1 to kraft.version 1, where a voter is an
id and a directory id (KIP-853). Both are readable at any time: an upgrade leaves the old version in place
until the next election.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ruslo.model.errors import ProtocolError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text

NO_NODE = -1
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class QuorumState:
    epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: Uuid = ZERO_UUID
    """Zero if the vote was granted to a voter known by its node id alone."""

    def to_json(self, kraft_version: int, voter_ids: Iterable[int]) -> bytes:
        fields: dict[str, object]
        if kraft_version == 0:
            fields = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": self.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter_id} for voter_id in sorted(voter_ids)],
                "data_version": 0,
            }
        else:
            fields = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": self.voted_id,
                "votedDirectoryId": uuid_to_text(self.voted_directory_id),
                "data_version": 1,
            }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> QuorumState:
        """Raises ProtocolError unless the data is a quorum state of version 0 or 1."""
        try:
            fields = json.loads(data)
        except ValueError as error:
            raise ProtocolError(f"quorum state is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise ProtocolError(f"quorum state is not a JSON object: {fields!r}")
        version = _integer(fields, "data_version", lowest=0)
        if version > 1:
            raise ProtocolError(f"quorum state has data_version {version}; supported are 0 and 1")
        voted_directory_id = ZERO_UUID
        if version == 1:
            text = fields.get("votedDirectoryId")
            try:
                voted_directory_id = uuid_from_text(text) if isinstance(text, str) else ZERO_UUID
            except ValueError as error:
                raise ProtocolError(f"quorum state has a bad votedDirectoryId: {error}") from error
        return cls(
            epoch=_integer(fields, "leaderEpoch", lowest=0),
            leader_id=_integer(fields, "leaderId", lowest=NO_NODE),
            voted_id=_integer(fields, "votedId", lowest=NO_NODE),
            voted_directory_id=voted_directory_id,
        )


def _integer(fields: dict[str, object], name: str, *, lowest: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= _INT32_MAX:
        raise ProtocolError(f"quorum state has {name} = {value!r}, expected an integer from {lowest} on")
    return value
