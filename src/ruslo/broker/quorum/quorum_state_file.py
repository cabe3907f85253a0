"""The ``quorum-state`` file: epoch, vote and leader, synced before they take effect."""

from __future__ import annotations

import os

from ruslo.machines.raft.quorum_state import QuorumState
from ruslo.machines.raft.voters import VoterSet
from ruslo.model.errors import CorruptLogError, ProtocolError
from ruslo.storage.disk import Disk

NAME = "quorum-state"


def load(disk: Disk, directory: str) -> QuorumState:
    """A missing file is the state of a node that has never taken part in an election."""
    path = os.path.join(directory, NAME)
    if disk.status(path) is None:
        return QuorumState()
    try:
        return QuorumState.from_json(disk.read_file(path))
    except ProtocolError as error:
        raise CorruptLogError(
            f"{path} is damaged: {error}. Restore it from a backup. If this node is the only voter, delete "
            "the file instead: the metadata log also has the last epoch"
        ) from error


def store(disk: Disk, directory: str, state: QuorumState, kraft_version: int, voters: VoterSet) -> None:
    disk.replace_file(os.path.join(directory, NAME), state.to_json(kraft_version, voters.ids))
