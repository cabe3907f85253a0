"""Checkpoints are read completely or rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.broker.quorum.checkpoint_file import read_checkpoint, write_checkpoint
from ruslo.broker.quorum.metadata_batches import read_data
from ruslo.machines.raft.voters import Voter, VoterSet
from ruslo.model.errors import CorruptLogError, StorageError
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.topic_record import TopicRecord
from ruslo.records.builder import build_batch
from ruslo.records.reader import iter_batches
from ruslo.records.record import Record
from ruslo.storage.local_disk import LocalDisk
from tests.support.brokers.metadata_log import topic


def write(path: Path, count: int) -> bytes:
    write_checkpoint(
        LocalDisk(str(path.parent)),
        str(path),
        epoch=3,
        control=(KRaftVersionRecord(kraft_version=1), VoterSet((Voter(1, b"A" * 16),)).to_record()),
        records=(topic(f"topic-{number}") for number in range(count)),
        last_timestamp_ms=1_234,
        now_ms=5_678,
    )
    return path.read_bytes()


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "x.checkpoint"
    write(path, 2_500)
    checkpoint = read_checkpoint(LocalDisk(str(tmp_path)), str(path))
    assert checkpoint.last_timestamp_ms == 1_234
    assert [type(record).__name__ for record in checkpoint.control] == ["KRaftVersionRecord", "VotersRecord"]
    names = [record.name for record in checkpoint.records() if isinstance(record, TopicRecord)]
    assert names == [f"topic-{number}" for number in range(2_500)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.checkpoint"]


def test_truncated_or_damaged_checkpoint_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x.checkpoint"
    content = write(path, 3)
    disk = LocalDisk(str(tmp_path))
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(CorruptLogError):
            read_checkpoint(disk, str(path))
    for position, header in iter_batches(content):
        # Checksums cover the bytes from the magic on, not the offset, length and epoch before it.
        for at in range(position + 16, position + header.size, 3):
            damaged = bytearray(content)
            damaged[at] ^= 0x40
            path.write_bytes(damaged)
            with pytest.raises(CorruptLogError):
                read_checkpoint(disk, str(path))


def test_an_unknown_record_type_is_not_skipped() -> None:
    batch = build_batch([Record(0, 0, None, b"\x01\x63\x00\x00")], base_offset=17)
    with pytest.raises(StorageError, match=r"offset 17 cannot be decoded: .*type 99.* newer release"):
        list(read_data(batch))


def test_an_unknown_record_version_is_not_skipped() -> None:
    batch = build_batch([Record(0, 0, None, b"\x01\x02\x7f\x00")], base_offset=17)
    with pytest.raises(StorageError, match="offset 17 cannot be decoded"):
        list(read_data(batch))


def test_a_record_needs_a_value() -> None:
    with pytest.raises(CorruptLogError, match="has no value"):
        list(read_data(build_batch([Record(0, 0, None, None)])))
