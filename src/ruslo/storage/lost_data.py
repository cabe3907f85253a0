"""The broker's list of lost data: records that this broker had and cannot find in its log directories.

Metrics, ``ruslo cluster health`` and the console show the list. An entry is removed when the records were
replicated again or the replica was removed.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from ruslo.model.log_ids import log_ids
from ruslo.model.topics import TopicPartition

logger = logging.getLogger(__name__)

UNKNOWN_OFFSET = -1


class LossKind(enum.Enum):
    """Which part of a replica is lost."""

    REPLICA = "whole"
    """The whole log: its directory is missing, or nothing proves which topic it belongs to."""
    TAIL = "tail"
    """The end of the log: an offset past it was on disk."""
    UNSYNCED_TAIL = "unsynced tail"
    """The end of the log, whose records were only in the page cache: a power failure loses them."""
    RECORDS = "records"
    """Records inside the log."""


@dataclass(frozen=True, slots=True)
class LostData:
    partition: TopicPartition
    kind: LossKind
    detail: str
    """What was found in which file."""
    first_offset: int = UNKNOWN_OFFSET
    end_offset: int = UNKNOWN_OFFSET
    """The first offset after the loss."""

    def __str__(self) -> str:
        what = f"{self.partition}: the {self.kind.value} of the log is lost"
        if self.kind is LossKind.RECORDS:
            what = f"{self.partition}: records are lost"
        if self.first_offset != UNKNOWN_OFFSET and self.end_offset != UNKNOWN_OFFSET:
            what += f", offsets {self.first_offset} to {self.end_offset - 1}"
        return f"{what} ({self.detail})"


class LostDataList:
    """Entries by partition, kind and first offset; thread-safe, because threads that open logs add to it."""

    def __init__(self) -> None:
        self._entries: dict[tuple[TopicPartition, LossKind, int], LostData] = {}
        self._lock = Lock()

    def __iter__(self) -> Iterator[LostData]:
        with self._lock:
            return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, lost: LostData) -> None:
        """Add an entry, and log it at ERROR if it is new."""
        key = lost.partition, lost.kind, lost.first_offset
        with self._lock:
            known = self._entries.get(key)
            self._entries[key] = lost
        if known != lost:
            logger.error("Lost data: %s", lost, extra=log_ids(partition=lost.partition))

    def forget(self, partition: TopicPartition, kind: LossKind | None = None) -> None:
        """Remove the entries of a partition; ``kind`` None: of every kind."""
        with self._lock:
            for key in list(self._entries):
                if key[0] == partition and kind in (None, key[1]):
                    del self._entries[key]
