from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.model.errors import CorruptLogError
from ruslo.model.topics import TopicPartition
from ruslo.storage.checkpoints import (
    CheckpointFile,
    format_epochs,
    format_offsets,
    parse_epochs,
    parse_offsets,
    read_offsets,
)
from ruslo.storage.local_disk import LocalDisk


def test_offsets_as_kafka_writes_them() -> None:
    offsets = {TopicPartition("orders", 0): 17, TopicPartition("a.b-c", 12): 0}
    assert format_offsets(offsets) == b"0\n2\norders 0 17\na.b-c 12 0\n"
    assert parse_offsets(format_offsets(offsets), "p") == offsets


def test_an_empty_set_and_an_empty_file_mean_the_same() -> None:
    assert format_offsets({}) == b"0\n0\n"
    assert parse_offsets(b"0\n0\n", "p") == parse_offsets(b"", "p") == {}


def test_epochs_as_kafka_writes_them() -> None:
    assert format_epochs([(0, 0), (3, 120)]) == b"0\n2\n0 0\n3 120\n"
    assert parse_epochs(b"0\n2\n0 0\n3 120\n", "p") == [(0, 0), (3, 120)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"0\n", "version and a count"),
        (b"1\n0\n", "version '1'"),
        (b"0\n2\nt 0 1\n", "says that it has 2 entries, but has 1"),
        (b"0\n1\nt 0\n", "is not 'topic partition offset'"),
        (b"0\n1\nt x 1\n", "is not 'topic partition offset'"),
        (b"\xff\xfe", "version and a count"),
    ],
)
def test_invalid_checkpoints(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptLogError, match=problem):
        parse_offsets(data, "some/file")


def test_files(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    assert read_offsets(disk, path) is None
    file = CheckpointFile(disk, path)
    older = file.prepare({TopicPartition("t", 1): 5})
    newer = file.prepare({TopicPartition("t", 1): 6})
    assert older is not None
    assert newer is not None
    assert [older.done, newer.done] == [False, False]
    newer.run()
    assert [older.done, newer.done] == [True, True]
    older.run()
    assert file.prepare({TopicPartition("t", 1): 6}) is None
    assert read_offsets(disk, path) == {TopicPartition("t", 1): 6}
    assert [entry.name for entry in tmp_path.iterdir()] == ["recovery-point-offset-checkpoint"]
