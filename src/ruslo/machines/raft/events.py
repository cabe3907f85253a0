"""What can happen to the raft machine. The driver reports each as soon as it is true.

Every ask that the machine sends is followed by exactly one ``Answered`` or ``Unanswered``, as long as the
node lives."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.machines.raft.log_view import QuorumRecord
from ruslo.machines.raft.rpc import Answer, Ask
from ruslo.machines.raft.snapshots import SnapshotId


@dataclass(frozen=True, slots=True)
class Started:
    """The log and the quorum state are loaded and synced, every control record replayed."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """``deadline_ms()`` has come."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Another node, or a tool, asks; the reply carries the token."""

    token: Hashable
    ask: Ask


@dataclass(frozen=True, slots=True)
class Answered:
    node_id: int
    ask: Ask
    answer: Answer


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No connection, or no answer in time; what was asked may have happened or not."""

    node_id: int
    ask: Ask


@dataclass(frozen=True, slots=True)
class PeerGone:
    """The node's process has ended: its connection closed, and nobody listens at its address any more.

    A node that is merely silent is not gone; there the timeouts decide.
    """

    node_id: int


@dataclass(frozen=True, slots=True)
class Appended:
    """The log grew up to ``end_offset`` (exclusive), not yet synced; its control records are replayed."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What the machine wanted to be taken from the leader is in the log, each batch reported as appended."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything below ``end_offset`` is on disk, synced."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log was cut, as the machine asked, and ends here now."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """This node wrote a snapshot of its own; the log may begin later than before."""

    id: SnapshotId
    start_offset: int


@dataclass(frozen=True, slots=True)
class SnapshotLoaded:
    """A snapshot of the leader's has taken the place of the whole log."""

    id: SnapshotId
    control: tuple[QuorumRecord, ...]


@dataclass(frozen=True, slots=True)
class UpgradeAsked:
    """kraft.version is to go from 0 to 1: the voters are to stand in the log from now on."""

    token: Hashable


@dataclass(frozen=True, slots=True)
class Stopping:
    """The node goes down in good order."""


RaftEvent: TypeAlias = (
    Started
    | TimerFired
    | Asked
    | Answered
    | Unanswered
    | PeerGone
    | Appended
    | Taken
    | Flushed
    | Truncated
    | SnapshotTaken
    | SnapshotLoaded
    | UpgradeAsked
    | Stopping
)
