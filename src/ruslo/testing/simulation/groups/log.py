"""A partition of ``__consumer_offsets`` in memory: its records and its high watermark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from random import Random
from typing import NamedTuple, TypeAlias

from ruslo.machines.groups.records import GroupRecord
from ruslo.protocol.coordinator_records import GROUP_RECORDS


class Logged(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None
    record: GroupRecord
    """The record as it was appended."""

    def decode(self) -> GroupRecord:
        """The record as it is read from the log."""
        key = GROUP_RECORDS.decode_key(self.key)
        if self.value is None:
            return GroupRecord(key, None)
        return GroupRecord(key, *GROUP_RECORDS.decode_value(key.API_KEY, self.value))


Batch: TypeAlias = list[Logged]
"""Records that are appended, committed or lost together."""


class SimGroupLog:
    def __init__(self) -> None:
        self._committed: list[Logged] = []
        self._uncommitted: deque[Batch] = deque()
        self.end_offset = 0

    @property
    def all_committed(self) -> bool:
        return not self._uncommitted

    def append(self, records: Iterable[GroupRecord]) -> Batch:
        batch = [
            Logged(
                offset,
                GROUP_RECORDS.encode_key(record.key),
                None if record.value is None else GROUP_RECORDS.encode_value(record.value, record.version),
                record,
            )
            for offset, record in enumerate(records, self.end_offset)
        ]
        self._uncommitted.append(batch)
        self.end_offset += len(batch)
        return batch

    def commit(self, offset: int) -> list[Batch]:
        """Commit all batches before ``offset``; returns those that were not committed before."""
        committed: list[Batch] = []
        while self._uncommitted and self._uncommitted[0][-1].offset < offset:
            batch = self._uncommitted.popleft()
            self._committed += batch
            committed.append(batch)
        return committed

    def lose_tail(self, random: Random) -> None:
        """Another replica becomes the leader: it has all committed batches and maybe some others."""
        for _ in range(random.randint(0, len(self._uncommitted))):
            self.end_offset = self._uncommitted.pop()[0].offset

    def compact(self) -> None:
        """Keep the last committed record of every key, also tombstones, at its offset."""
        last = {record.key: record.offset for record in self._committed}
        self._committed = [record for record in self._committed if last[record.key] == record.offset]

    def __iter__(self) -> Iterator[Logged]:
        return chain(self._committed, chain.from_iterable(self._uncommitted))
