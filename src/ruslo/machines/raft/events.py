"""What can happen to the raft machine. The driver reports each as soon as it is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ruslo.machines.raft.quorum_state import QuorumState


@dataclass(frozen=True, slots=True)
class Started:
    """The log and the quorum state are loaded, every control record replayed."""


@dataclass(frozen=True, slots=True)
class Persisted:
    """This quorum state is on disk, synced."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class Appended:
    """The log grew up to ``end_offset`` (exclusive), not yet synced."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything below ``end_offset`` is on disk, synced."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class Stopping:
    """The node goes down in good order."""


RaftEvent: TypeAlias = Started | Persisted | Appended | Flushed | Stopping
