"""Records that this broker had and cannot find any more: what operators are told of damaged log directories.

One list per broker. Whatever finds a loss adds an entry to it; metrics, ``ruslo cluster health`` and the
console show the list. An entry leaves when the records are here again, or the replica is not.
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
    """The whole log: its directory is gone, or nothing proves to which topic it belongs."""
    TAIL = "tail"
    """The end of the log: it ends before an offset that was on disk."""
    UNSYNCED_TAIL = "unsynced tail"
    """The end of the log, whose records only the page cache can have had: a power failure does this."""
    RECORDS = "records"
    """Records inside the log."""


@dataclass(frozen=True, slots=True)
class LostData:
    partition: TopicPartition
    kind: LossKind
    detail: str
    """What was found, and where."""
    first_offset: int = UNKNOWN_OFFSET
    end_offset: int = UNKNOWN_OFFSET
    """The first offset that is not lost any more."""

    def __str__(self) -> str:
        what = f"{self.partition}: the {self.kind.value} of the log is lost"
        if self.kind is LossKind.RECORDS:
            what = f"{self.partition}: records are lost"
        if self.first_offset != UNKNOWN_OFFSET and self.end_offset != UNKNOWN_OFFSET:
            what += f", offsets {self.first_offset} to {self.end_offset - 1}"
        return f"{what} ({self.detail})"


class LostDataList:
    """Entries by partition, kind and first offset. Threads that open logs add to it too."""

    def __init__(self) -> None:
        self._entries: dict[tuple[TopicPartition, LossKind, int], LostData] = {}
        self._lock = Lock()

    def __iter__(self) -> Iterator[LostData]:
        with self._lock:
            return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, lost: LostData) -> None:
        """Report a loss, at ERROR, unless it is known."""
        key = lost.partition, lost.kind, lost.first_offset
        with self._lock:
            known = self._entries.get(key)
            self._entries[key] = lost
        if known != lost:
            logger.error("Lost data: %s", lost, extra=log_ids(partition=lost.partition))

    def forget(self, partition: TopicPartition, kind: LossKind | None = None) -> None:
        """The records of a partition are here again, or the partition is not. None: of every kind."""
        with self._lock:
            for key in list(self._entries):
                if key[0] == partition and kind in (None, key[1]):
                    del self._entries[key]
