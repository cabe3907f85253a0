"""A log in a temporary directory, and batches for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ruslo.config.log_config import LogConfig
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import HEADER, TRANSACTIONAL, read_header
from ruslo.records.builder import build_batch
from ruslo.records.control import end_txn_batch
from ruslo.records.reader import iter_batches, read_records
from ruslo.records.record import Record
from ruslo.storage.checkpoints import CheckpointedState
from ruslo.storage.disk import Disk, DiskError
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log import AppendResult, Log
from ruslo.storage.log_creation import create_log
from ruslo.storage.log_loader import open_log
from ruslo.storage.log_manager import Job, LogManager
from ruslo.storage.trash import Trash

NOW = 1_700_000_000_000
PARTITION = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))


class ManualClock:
    def __init__(self) -> None:
        self.ms = NOW

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000


def batch(
    count: int = 1,
    *,
    value: bytes = b"v",
    timestamp: int = NOW,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    step_ms: int = 0,
) -> bytearray:
    return build_batch(
        [Record(delta, timestamp + delta * step_ms, None, value) for delta in range(count)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        leader_epoch=leader_epoch,
        attributes=attributes,
    )


class Workbench:
    """The log of one partition, which can be closed, crashed and reopened."""

    compacted_at_most = 0
    """The recovery point on disk before a compaction round."""

    def __init__(self, directory: Path, config: LogConfig | None = None, disk: Disk | None = None) -> None:
        self.directory = str(directory)
        self.disk: Disk = disk if disk is not None else LocalDisk(self.directory)
        self.clock = ManualClock()
        self.trash = Trash(self.disk, self.clock)
        self.config = config or LogConfig()
        self.path = f"{self.directory}/{PARTITION}"
        self.log: Log = create_log(
            self.disk, self.path, PARTITION, TOPIC_ID, self.config, self.trash, self.clock.now_ms()
        )

    def append(self, data: bytearray, leader_epoch: int = 0, **options: Any) -> AppendResult:
        return self.log.append_leader(data, HEADER.unpack_from(data), leader_epoch, self.clock.ms, **options)

    def append_many(self, batches: int, count: int = 1) -> None:
        for _ in range(batches):
            self.append(batch(count))

    def append_transactional(
        self, producer_id: int, epoch: int, sequence: int, count: int = 1
    ) -> AppendResult:
        return self.append(
            batch(
                count,
                producer_id=producer_id,
                producer_epoch=epoch,
                sequence=sequence,
                attributes=TRANSACTIONAL,
            )
        )

    def end_transaction(
        self, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0, version: int = 2
    ) -> AppendResult:
        marker = end_txn_batch(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self.clock.ms,
        )
        return self.log.append_marker(marker, 0, self.clock.ms, version)

    def commit_all(self) -> None:
        self.log.advance_high_watermark(self.log.end_offset)

    def reopen(self, *, clean: bool = True, recovery_point: int = 0, start_offset: int = 0) -> Log:
        """Close the log, or drop it as a crash does, and open it again."""
        if clean:
            self.log.close(self.clock.ms)
        self.log = open_log(
            self.disk,
            self.path,
            PARTITION,
            self.config,
            self.trash,
            self.clock.ms,
            CheckpointedState(
                clean=clean,
                recovery_point=recovery_point,
                start_offset=start_offset,
                high_watermark=self.log.high_watermark,
                gaps_below=max(recovery_point, self.compacted_at_most),
                compacted_below=self.compacted_at_most,
            ),
        )
        return self.log

    def names(self) -> set[str]:
        return set(os.listdir(self.path))

    def content(self, name: str) -> bytes:
        return Path(self.path, name).read_bytes()


def bases_in(data: bytes) -> list[int]:
    """The base offsets of the complete batches in a byte range."""
    return [header.base_offset for _, header in iter_batches(data)]


def records_from(log: Log, offset: int = 0, upper: int | None = None) -> list[tuple[int, bytes | None]]:
    """The offset and value of every record from ``offset``, read as a consumer does."""
    bound = log.end_offset if upper is None else upper
    found: list[tuple[int, bytes | None]] = []
    while offset < bound:
        part = log.read(offset, 1 << 20, bound)
        if part.slice is None:
            break
        data = part.slice.read()
        for position, header in iter_batches(data):
            for record in read_records(data[position : position + header.size]):
                if record.offset >= offset:
                    found.append((record.offset, record.value))
            last = header.last_offset
        offset = last + 1
    return found


def headers_in(log: Log) -> Sequence[tuple[int, int]]:
    """The base offset and last offset of every batch, over all segments."""
    found = []
    for segment in log.segments:
        data = Path(segment.stem + ".log").read_bytes()
        position = 0
        while position < len(data):
            header = read_header(data, position)
            found.append((header.base_offset, header.last_offset))
            position += header.size
    return found


def run_jobs(manager: LogManager, jobs: Iterable[Job]) -> None:
    """Run the jobs as the broker's housekeeping thread does."""
    for job in jobs:
        try:
            job.run()
        except DiskError as error:
            manager.report(error)
