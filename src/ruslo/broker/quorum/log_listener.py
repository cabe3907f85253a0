"""The interface between the metadata log and its users: the controller and the metadata loader.

``RaftDriver`` calls each listener on the event loop, one call at a time, in log order, with committed records
only. A metadata transaction (BeginTransaction … EndTransaction, KIP-868) is delivered as a whole once its end
is committed, or not at all if it was aborted. Listeners never see the three transaction markers, nor control
records (leader change, voters, kraft version).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ruslo.protocol.message import Message


class MetadataLogListener(Protocol):
    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        """Replace the whole state by the state at ``offset`` (the first offset not in the snapshot).

        Each step is a slice of the work; the last one puts the new state into effect. If a newer snapshot
        arrives first, the remaining steps are not taken.
        """
        ...

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        """A committed batch, a whole transaction, or some partition changes of a long batch; ``base_offset``
        is the offset of the first record."""
        ...

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        """-1: no leader. A new leader is notified of itself after every record before its epoch."""
        ...
