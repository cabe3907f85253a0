"""Checks the files in the directory of a partition against each other: ``ruslo log verify``.

Nothing is written. After damaged bytes the check continues with the next sound batch, so one run finds all
damage and ``repair`` removes no more than necessary.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from ruslo.model.errors import CorruptLogError
from ruslo.records.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    RECORD_COUNT,
    last_offset_of,
)
from ruslo.storage import txn_index
from ruslo.storage.checkpoints import LEADER_EPOCHS, parse_epochs
from ruslo.storage.disk import Disk
from ruslo.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ruslo.storage.index_check import OffsetIndexCheck, TimeIndexCheck
from ruslo.storage.partition_files import PARTITION_METADATA, offset_of, parse_partition_metadata
from ruslo.storage.producer_replay import replay_batch
from ruslo.storage.producer_snapshot import SNAPSHOT_SUFFIX, decode_snapshot
from ruslo.storage.producer_state import ProducerStates
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from ruslo.storage.sound_batches import sound_batches
from ruslo.storage.txn_index import AbortedTransaction

_READ_BYTES = 1 << 20


class Kind(Enum):
    RECORDS = "records"
    """Bytes in a ``.log`` file that are not a sound batch: their records are lost."""
    INDEX = "index"
    """A file that can be rebuilt from the ``.log`` files."""
    IDENTITY = "identity"
    """``partition.metadata``: no other file has the topic id."""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    file: str
    message: str
    position: int = -1
    size: int = 0
    offset: int = -1
    """The first offset that may be damaged."""


@dataclass(slots=True)
class PartitionReport:
    path: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)


class PartitionCheck:
    """The check of one partition; call ``run`` once."""

    def __init__(self, disk: Disk, path: str, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        self._disk = disk
        self._path = path
        self._on_bytes = on_bytes
        self.report = PartitionReport(path)
        self._names: set[str] = set()
        self._producers = ProducerStates()

    def run(self) -> PartitionReport:
        self._names = set(self._disk.list_names(self._path))
        bases = sorted(
            base for name in self._names if name.endswith(LOG_SUFFIX) if (base := offset_of(name)) is not None
        )
        for at, base in enumerate(bases):
            following = bases[at + 1] if at + 1 < len(bases) else None
            self._check_segment(base, following)
        self._check_other_files()
        return self.report

    def _find(self, kind: Kind, name: str, message: str, **where: int) -> None:
        self.report.findings.append(Finding(kind, f"{self._path}/{name}", message, **where))

    # --- segments -----------------------------------------------------------------------

    def _check_segment(self, base: int, following: int | None) -> None:
        name = f"{base:020d}{LOG_SUFFIX}"
        file = self._disk.open(f"{self._path}/{name}")
        size = file.size()
        self.report.segments += 1
        offsets = OffsetIndexCheck(self._read_index(base, INDEX_SUFFIX, size, following))
        times = TimeIndexCheck(self._read_index(base, TIME_INDEX_SUFFIX, size, following))
        limit = following if following is not None else base + MAX_RELATIVE_OFFSET + 1
        aborted: list[AbortedTransaction] = []
        markers: dict[int, int] = {}
        reached = 0
        for found in sound_batches(file, size, base, limit):
            self._on_bytes(found.position + found.size - reached)
            reached = found.position + found.size
            header = found.header
            if header is None:
                self._find(
                    Kind.RECORDS,
                    name,
                    found.problem,
                    position=found.position,
                    size=found.size,
                    offset=found.offset,
                )
                continue
            self.report.batches += 1
            self.report.records += header[RECORD_COUNT]
            last = last_offset_of(header) - base
            offsets.check_batch(found.position, last)
            times.check_batch(header[MAX_TIMESTAMP], last)
            if header[PRODUCER_ID] >= 0:
                entry = replay_batch(self._producers, header, file.pread(found.size, found.position))
                if entry is not None:
                    aborted.append(entry)
                if header[ATTRIBUTES] & CONTROL:
                    markers[header[BASE_OFFSET]] = header[PRODUCER_ID]
        self.report.bytes += size
        damaged = any(each.kind is Kind.RECORDS and each.file.endswith(name) for each in self.report.findings)
        if not damaged:
            for kind, problem in ((INDEX_SUFFIX, offsets.problem()), (TIME_INDEX_SUFFIX, times.problem())):
                if problem is not None:
                    self._find(Kind.INDEX, f"{base:020d}{kind}", problem)
            self._check_txn_index(base, aborted, markers)

    def _read_index(self, base: int, kind: str, size: int, following: int | None) -> bytes:
        name = f"{base:020d}{kind}"
        if name not in self._names:
            # A running broker has the indexes of the active segment only in memory.
            if size and following is not None:
                self._find(Kind.INDEX, name, "it is missing")
            return b""
        data = self._disk.read_file(f"{self._path}/{name}")
        entry = OFFSET_ENTRY if kind == INDEX_SUFFIX else TIME_ENTRY
        if len(data) % entry.size and following is not None:
            self._find(Kind.INDEX, name, f"its {len(data)} bytes are not a multiple of {entry.size}")
        # Zeros after the last entry are space that a running Kafka broker has preallocated.
        whole = len(data) - len(data) % entry.size
        while whole and following is None and not any(data[whole - entry.size : whole]):
            whole -= entry.size
        return data[:whole]

    def _check_txn_index(
        self, base: int, expected: list[AbortedTransaction], markers: dict[int, int]
    ) -> None:
        name = f"{base:020d}{TXN_INDEX_SUFFIX}"
        path = f"{self._path}/{name}"
        try:
            data = self._disk.read_file(path) if name in self._names else b""
            found = list(txn_index.parse(data, path))
        except CorruptLogError as error:
            self._find(Kind.INDEX, name, str(error))
            return
        # Compaction removes the records of an aborted transaction before its marker and its entry.
        unexpected = [entry for entry in found if markers.get(entry.last_offset) != entry.producer_id]
        if unexpected or {entry[:3] for entry in expected} - {entry[:3] for entry in found}:
            self._find(
                Kind.INDEX,
                name,
                f"its entries differ from the {len(expected)} aborted transactions of the segment",
            )

    # --- everything else ----------------------------------------------------------------

    def _check_other_files(self) -> None:
        for name in sorted(self._names):
            path = f"{self._path}/{name}"
            try:
                if name.endswith(SNAPSHOT_SUFFIX):
                    decode_snapshot(self._disk.read_file(path), path)
                elif name == LEADER_EPOCHS:
                    parse_epochs(self._disk.read_file(path), path)
            except CorruptLogError as error:
                self._find(Kind.INDEX, name, str(error))
            try:
                if name == PARTITION_METADATA:
                    parse_partition_metadata(self._disk.read_file(path), path)
            except CorruptLogError as error:
                self._find(Kind.IDENTITY, name, str(error))


def partition_directories(disk: Disk, path: str) -> list[str]:
    """The partition directories in a log directory, or the directory itself if it is one."""
    if any(name.endswith(LOG_SUFFIX) and offset_of(name) is not None for name in disk.list_names(path)):
        return [path]
    return sorted(
        os.path.join(path, name)
        for name in disk.list_directories(path)
        if any(file.endswith(LOG_SUFFIX) for file in disk.list_names(os.path.join(path, name)))
    )
