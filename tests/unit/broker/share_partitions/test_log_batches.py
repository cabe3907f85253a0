"""The batches of a read, from their headers."""

from __future__ import annotations

from pathlib import Path

from ruslo.broker.share_partitions import log_batches
from ruslo.broker.share_partitions.log_batches import LogBatches, scan
from ruslo.machines.share_partition.values import AcquiredRange, OffsetRange
from ruslo.records.batch import BASE_OFFSET_STRUCT, CONTROL, TRANSACTIONAL
from ruslo.storage.disk import FileSlice
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.txn_index import AbortedTransaction
from tests.support.brokers.live_node import batch_of


def written(directory: Path, *batches: tuple[int, int, int, int]) -> FileSlice:
    """A file with batches: base offset, records, attributes, producer id."""
    data = bytearray()
    for base, count, attributes, producer_id in batches:
        batch = batch_of(
            *[b"value"] * count,
            attributes=attributes,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        BASE_OFFSET_STRUCT.pack_into(batch, 0, base)
        data += batch
    path = directory / "00000000000000000000.log"
    path.write_bytes(data)
    return FileSlice(LocalDisk(str(directory)).open(str(path)), 0, len(data))


def plain(directory: Path, *sizes: int) -> FileSlice:
    at, batches = 0, []
    for size in sizes:
        batches.append((at, size, 0, -1))
        at += size
    return written(directory, *batches)


def test_whole_batches_up_to_the_one_with_the_last_offset(tmp_path: Path) -> None:
    read = plain(tmp_path, 3, 2, 4)
    assert scan(read, 100).ranges == [OffsetRange(0, 2), OffsetRange(3, 4), OffsetRange(5, 8)]
    assert scan(read, 4).ranges == [OffsetRange(0, 2), OffsetRange(3, 4)]
    assert scan(read, 3).ranges == [OffsetRange(0, 2)]
    assert scan(read._replace(size=read.size - 1), 100).ranges == [OffsetRange(0, 2), OffsetRange(3, 4)]


def test_the_number_of_batches_is_limited(tmp_path: Path) -> None:
    assert log_batches.MAX_BATCHES < 10_000
    read = plain(tmp_path, *[1] * (log_batches.MAX_BATCHES + 5))
    assert len(scan(read, 1 << 40).ranges) == log_batches.MAX_BATCHES


def test_the_bytes_from_the_first_acquired_record_to_the_last(tmp_path: Path) -> None:
    read = plain(tmp_path, 3, 2, 4, 1)
    found = scan(read, 100)

    def offsets(batches: LogBatches, *acquired: AcquiredRange) -> list[int]:
        part = batches.bytes_of(acquired)
        return [each.first for each in scan(part, 100).ranges]

    assert offsets(found, AcquiredRange(0, 9, 1)) == [0, 3, 5, 9]
    assert offsets(found, AcquiredRange(4, 4, 1)) == [3]
    assert offsets(found, AcquiredRange(3, 3, 2), AcquiredRange(6, 6, 1)) == [3, 5]


def test_batches_of_aborted_transactions(tmp_path: Path) -> None:
    read = written(
        tmp_path,
        (0, 2, TRANSACTIONAL, 7),
        (2, 2, TRANSACTIONAL, 8),
        (4, 2, 0, 7),
        (6, 1, TRANSACTIONAL | CONTROL, 7),
        (7, 2, TRANSACTIONAL, 7),
        (9, 2, TRANSACTIONAL, 7),
    )
    aborted = [AbortedTransaction(7, 9, 12, 13), AbortedTransaction(7, 0, 6, 7)]
    assert scan(read, 100).aborted(aborted) == [OffsetRange(0, 1), OffsetRange(9, 10)]
    assert scan(read, 100).aborted(()) == []
