"""The events of the raft machine. The driver reports each one as soon as it is true.

For every request that the machine sends, the driver reports exactly one ``ResponseReceived`` or
``RequestFailed`` while the node runs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.machines.machine import TimerFired
from ruslo.machines.raft.log_view import QuorumRecord
from ruslo.machines.raft.rpc import RaftRequest, RaftResponse
from ruslo.machines.raft.snapshots import SnapshotId


@dataclass(frozen=True, slots=True)
class Started:
    """The log and the quorum state are loaded and synced; every control record has been replayed."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """Another node or an admin client sent a request; the response carries the token."""

    token: Hashable
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    node_id: int
    request: RaftRequest
    response: RaftResponse


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No connection, or no response in time; the peer may or may not have handled the request."""

    node_id: int
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class PeerGone:
    """The node's process has ended: its connection closed and its address refuses new ones.

    A silent node is not gone: timeouts decide about it.
    """

    node_id: int


@dataclass(frozen=True, slots=True)
class Appended:
    """The log was extended to ``end_offset`` (exclusive), not yet synced; control records are replayed."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class FetchedBatchesAppended:
    """The batches fetched from the leader are in the log, each reported by ``Appended``."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything below ``end_offset`` is synced to disk."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log was truncated as requested; ``end_offset`` is its new end."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    """This node wrote a snapshot of its own; the log may start at a later offset than before."""

    id: SnapshotId
    start_offset: int


@dataclass(frozen=True, slots=True)
class SnapshotLoaded:
    """A snapshot fetched from the leader replaced the whole log."""

    id: SnapshotId
    control: tuple[QuorumRecord, ...]


@dataclass(frozen=True, slots=True)
class UpgradeRequested:
    """Raise kraft.version from 0 to 1: the voters move from the configuration into the log."""

    token: Hashable


@dataclass(frozen=True, slots=True)
class Stopping:
    """The node shuts down in an orderly way."""


RaftEvent: TypeAlias = (
    Started
    | TimerFired
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | PeerGone
    | Appended
    | FetchedBatchesAppended
    | Flushed
    | Truncated
    | SnapshotWritten
    | SnapshotLoaded
    | UpgradeRequested
    | Stopping
)
