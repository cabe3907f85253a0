"""A partition of ``__consumer_offsets`` in memory: what is written, and how far it is safe."""

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
    """As it was given."""

    def decode(self) -> GroupRecord:
        """As it is read."""
        key = GROUP_RECORDS.decode_key(self.key)
        if self.value is None:
            return GroupRecord(key, None)
        return GroupRecord(key, *GROUP_RECORDS.decode_value(key.API_KEY, self.value))


Batch: TypeAlias = list[Logged]
"""Written, kept or lost as one."""


class SimGroupLog:
    def __init__(self) -> None:
        self._safe: list[Logged] = []
        self._unsafe: deque[Batch] = deque()
        self.end_offset = 0

    @property
    def all_safe(self) -> bool:
        return not self._unsafe

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
        self._unsafe.append(batch)
        self.end_offset += len(batch)
        return batch

    def confirm(self, offset: int) -> list[Batch]:
        """What lies before ``offset`` is safe from now on; gives the batches for which that is new."""
        confirmed: list[Batch] = []
        while self._unsafe and self._unsafe[0][-1].offset < offset:
            batch = self._unsafe.popleft()
            self._safe += batch
            confirmed.append(batch)
        return confirmed

    def lose_tail(self, random: Random) -> None:
        """Another replica takes over: it has all that is safe, and maybe some of the rest."""
        for _ in range(random.randint(0, len(self._unsafe))):
            self.end_offset = self._unsafe.pop()[0].offset

    def compact(self) -> None:
        """Of what is safe keep the last record of every key, tombstones too, where it stands."""
        last = {record.key: record.offset for record in self._safe}
        self._safe = [record for record in self._safe if last[record.key] == record.offset]

    def __iter__(self) -> Iterator[Logged]:
        return chain(self._safe, chain.from_iterable(self._unsafe))
