from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.records.batch import BASE_OFFSET
from ruslo.storage.batch_scan import SCAN_BYTES, buffer_headers, scan_batches, scan_headers
from ruslo.storage.disk import DiskFile
from ruslo.storage.local_disk import LocalDisk
from tests.unit.storage.workbench import batch


def stored(tmp_path: Path, data: bytes) -> DiskFile:
    disk = LocalDisk(str(tmp_path))
    disk.write_file(str(tmp_path / "f"), data)
    return disk.open(str(tmp_path / "f"))


BATCHES = [batch(2, base_offset=base, value=b"x" * (base * 37 % 500)) for base in range(0, 40, 2)]
DATA = b"".join(BATCHES)
POSITIONS = [sum(map(len, BATCHES[:at])) for at in range(len(BATCHES))]


@pytest.mark.parametrize("read_bytes", [61, 100, 1000, 1 << 20])
def test_headers_with_reads_of_any_size(tmp_path: Path, read_bytes: int) -> None:
    found = list(scan_headers(stored(tmp_path, DATA), 0, len(DATA), read_bytes))
    assert [position for position, _ in found] == POSITIONS
    assert [header[BASE_OFFSET] for _, header in found] == list(range(0, 40, 2))


def test_headers_from_the_middle_to_an_end(tmp_path: Path) -> None:
    found = list(scan_headers(stored(tmp_path, DATA), POSITIONS[3], POSITIONS[7] + 5))
    assert [position for position, _ in found] == POSITIONS[3:7]


@pytest.mark.parametrize("garbage", [bytes(100), b"\xff" * 100, bytes(BATCHES[0][:-1]), b"x"])
def test_scans_stop_at_bytes_that_are_not_a_batch(tmp_path: Path, garbage: bytes) -> None:
    data = DATA + garbage
    file = stored(tmp_path, data)
    assert len(list(scan_headers(file, 0, len(data)))) == len(BATCHES)
    assert len(list(scan_batches(file, len(data)))) == len(BATCHES)
    assert len(list(buffer_headers(data))) == len(BATCHES)


def test_batches_larger_than_a_read(tmp_path: Path) -> None:
    large = [batch(base_offset=base, value=bytes(SCAN_BYTES + 17 * base)) for base in range(3)]
    data = b"".join([BATCHES[0], *large, BATCHES[1]])
    found = list(scan_batches(stored(tmp_path, data), len(data)))
    assert b"".join(bytes(content) for _, _, content in found) == data


def test_a_wrong_checksum_ends_only_the_scan_of_whole_batches(tmp_path: Path) -> None:
    data = bytearray(DATA)
    data[POSITIONS[4] + 62] ^= 1
    file = stored(tmp_path, bytes(data))
    assert len(list(scan_batches(file, len(data)))) == 4
    assert len(list(scan_headers(file, 0, len(data)))) == len(BATCHES)
