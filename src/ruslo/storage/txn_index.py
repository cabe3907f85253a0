"""The transaction index (``.txnindex``): the aborted transactions whose markers lie in a segment.

Entries have 34 bytes each and are in marker order. A segment without aborted transactions has no such file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from ruslo.model.errors import CorruptLogError
from ruslo.storage.checkpoints import TxnIndexChecksum
from ruslo.storage.disk import Disk, DiskError

ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    """The last stable offset after the marker was written."""

    def to_bytes(self) -> bytes:
        return ENTRY.pack(_VERSION, *self)


def parse(data: bytes, path: str, from_offset: int = 0) -> Iterator[AbortedTransaction]:
    """The entries whose marker is at or past an offset; raises CorruptLogError if the data is malformed."""
    if len(data) % ENTRY.size:
        raise CorruptLogError(f"{path} has {len(data)} bytes, not a multiple of {ENTRY.size}")

    def marker_offset(at: int) -> int:
        return int(ENTRY.unpack_from(data, at * ENTRY.size)[3])

    count = len(data) // ENTRY.size
    start = bisect_left(range(count), from_offset, key=marker_offset)
    for entry in ENTRY.iter_unpack(memoryview(data)[start * ENTRY.size :]):
        version, producer_id, first_offset, last_offset, last_stable_offset = entry
        if version != _VERSION:
            raise CorruptLogError(f"{path} has an entry of version {version}, only {_VERSION} is supported")
        yield AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)


class TransactionIndex:
    """The transaction index of one segment."""

    __slots__ = ("_checksum", "_disk", "exists", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.exists = False
        self._checksum: TxnIndexChecksum | None = None
        """What the file held when this process last wrote or read all of it."""

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry. After a DiskError that is not ``fatal`` the file is unchanged."""
        file = self._disk.open(self.path, create=True)
        before = file.size()
        data = aborted.to_bytes()
        known = self._checksum or TxnIndexChecksum(0, 0)
        try:
            file.append(data)
        except DiskError as error:
            file.truncate(before)
            error.fatal = error.fatal and not error.disk_full
            raise
        self.exists = True
        self._checksum = None
        if known.size == before:
            self._checksum = TxnIndexChecksum(before + len(data), crc32c(data, known.checksum))

    def checksum(self) -> TxnIndexChecksum:
        if self._checksum is None:
            data = self._read()
            self._checksum = TxnIndexChecksum(len(data), crc32c(data))
        return self._checksum

    def extends(self, known: TxnIndexChecksum) -> bool:
        """Whether the file begins with the checkpointed bytes. Apache Kafka may have appended since."""
        if self.checksum() == known:
            return True
        data = self._read()
        return len(data) > known.size and crc32c(data[: known.size]) == known.checksum

    def entries(self, from_offset: int = 0) -> Iterator[AbortedTransaction]:
        """The aborted transactions whose marker is in this segment, at or past an offset.

        Raises CorruptLogError if the file differs from what was written or read before: without it consumers
        would get records of aborted transactions.
        """
        if self.exists:
            data = self._read()
            if self._checksum not in (None, (len(data), crc32c(data))):
                raise CorruptLogError(f"{self.path} is damaged: its checksum changed. Restart the broker")
            yield from parse(data, self.path, from_offset)

    def rewrite(self, entries: Iterable[AbortedTransaction]) -> None:
        data = b"".join(aborted.to_bytes() for aborted in entries)
        self._disk.replace_file(self.path, data)
        self.exists = bool(data)
        self._checksum = TxnIndexChecksum(len(data), crc32c(data))

    def delete(self) -> None:
        self._disk.unlink(self.path)
        self.exists = False
        self._checksum = None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker is at or past ``offset``."""
        if not self.exists:
            return
        # Entries are in marker order, so the dropped ones end the file. Truncating works on a full disk too.
        kept = sum(aborted.last_offset < offset for aborted in self.entries())
        self._disk.open(self.path).truncate(kept * ENTRY.size)
        self.exists = kept > 0
        self._checksum = None

    def _read(self) -> bytes:
        return self._disk.read_file(self.path) if self.exists else b""
