"""The seam between the metadata log and those who live from it: the controller and the metadata image.

The log's side is ``RaftDriver`` (``drivers/raft.py``). It calls each listener on the event loop, one call
at a time, in log order, with committed records only. A metadata transaction (BeginTransaction …
EndTransaction, KIP-868) arrives whole: nothing of it is shown before its end is committed, and nothing at
all if it was aborted; the three marker records themselves are never shown. Control records (leader change,
voters, kraft version) are never shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ruslo.protocol.message import Message


class MetadataLogListener(Protocol):
    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        """Replace everything known by the state at ``offset`` (exclusive end of what the snapshot holds).

        Each step is a turn's work, and the last one puts the new state into effect. A newer snapshot may come
        first: then the rest of the steps is not taken.
        """
        ...

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        """A committed batch, a whole transaction, or of a long batch some changes of partitions that exist
        already; ``base_offset`` is the offset of the first record."""
        ...

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        """-1: nobody leads. The new leader hears it after it has been given every record before its epoch."""
        ...
