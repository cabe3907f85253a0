from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.staging.folder import StagingFolder
from ruslo.pipeline.staging.identity import TaskBatch
from ruslo.pipeline.staging.staged_rows import Stage, StagedReader, StagedRows
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(value: bytes) -> bytearray:
    return build_batch([Record(0, 1, None, value)])


def stage(
    folder: StagingFolder,
    memory_bytes: int,
    *batches: tuple[TopicPartition, bytearray],
    path: str = "q/3/file",
) -> StagedRows:
    collected = Stage(folder, "q/3/file", memory_bytes)
    for target, records in batches:
        collected.add(target, records)
    sent = pickle.dumps(collected.close(TaskBatch("q", 3, "r")))
    received = pickle.loads(sent)
    assert isinstance(received, StagedRows)
    return received


def read(folder: StagingFolder, *staged: StagedRows) -> dict[TopicPartition, list[bytearray]]:
    reader = StagedReader(folder.location, staged)
    reader.check_complete()
    found = {target: list(batches) for target, batches in reader.by_target().items()}
    reader.close()
    return found


@pytest.fixture
def folder(tmp_path: Path) -> StagingFolder:
    return StagingFolder.prepare(str(tmp_path / "staging"))


def test_small_results_are_returned_and_large_ones_go_to_a_file(folder: StagingFolder) -> None:
    few = stage(folder, 10_000, (A, batch(b"1")), (B, batch(b"2")))
    many = stage(folder, 100, (A, batch(b"3")), (B, batch(b"4")), (A, batch(b"5")))
    assert (few.path, many.path, many.data) == (None, "q/3/file", b"")
    assert read(folder, few, many) == {
        A: [batch(b"1"), batch(b"3"), batch(b"5")],
        B: [batch(b"2"), batch(b"4")],
    }


def test_a_task_that_fails_leaves_no_file(folder: StagingFolder) -> None:
    collected = Stage(folder, "q/3/file", 0)
    collected.add(A, batch(b"1"))
    collected.discard()
    assert not Path(folder.location, "q/3/file").exists()


def test_remove_deletes_the_staged_file(folder: StagingFolder) -> None:
    staged = stage(folder, 0, (A, batch(b"1")))
    StagedReader(folder.location, [staged]).remove()
    assert not Path(folder.location, "q/3/file").exists()


def test_the_driver_reports_a_missing_file(folder: StagingFolder, tmp_path: Path) -> None:
    staged = stage(folder, 0, (A, batch(b"1")))
    elsewhere = StagingFolder.prepare(str(tmp_path / "elsewhere"))
    with pytest.raises(StorageError, match="must be a folder that the driver and all executors share"):
        read(elsewhere, staged)


def test_the_driver_reports_a_damaged_file(folder: StagingFolder) -> None:
    staged = stage(folder, 0, (A, batch(b"1")))
    file = Path(folder.location, "q/3/file")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(StorageError, match="is damaged"):
        read(folder, staged)


def test_a_large_result_needs_the_folder_of_the_driver(folder: StagingFolder) -> None:
    Path(folder.location, ".ruslo-staging").write_text("another machine's")
    with pytest.raises(ConfigError, match="does not see the driver's staging folder"):
        stage(folder, 0, (A, batch(b"1")))
