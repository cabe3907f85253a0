from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.batch_encoder import EncodedBatch
from ruslo.pipeline.sink.staging import Stage, StagedReader, StagedRows, StagingPlace, TaskBatch
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(target: TopicPartition, value: bytes) -> EncodedBatch:
    return EncodedBatch(target, build_batch([Record(0, 1, None, value)]), 1)


def stage(
    place: StagingPlace, memory_bytes: int, *batches: EncodedBatch, path: str = "q/3/file"
) -> StagedRows:
    collected = Stage(place, "q/3/file", memory_bytes)
    for each in batches:
        collected.add(each)
    sent = pickle.dumps(collected.close(TaskBatch("q", 3, "r")))
    received = pickle.loads(sent)
    assert isinstance(received, StagedRows)
    return received


def read(place: StagingPlace, *staged: StagedRows) -> dict[TopicPartition, list[bytearray]]:
    reader = StagedReader(place.location, staged)
    reader.check_complete()
    found = {target: list(batches) for target, batches in reader.by_target().items()}
    reader.close()
    return found


@pytest.fixture
def place(tmp_path: Path) -> StagingPlace:
    return StagingPlace.prepare(str(tmp_path / "staging"))


def test_little_travels_with_the_result_and_much_in_a_file(place: StagingPlace) -> None:
    few = stage(place, 10_000, batch(A, b"1"), batch(B, b"2"))
    many = stage(place, 100, batch(A, b"3"), batch(B, b"4"), batch(A, b"5"))
    assert (few.path, many.path, many.data) == (None, "q/3/file", b"")
    assert read(place, few, many) == {
        A: [batch(A, b"1").records, batch(A, b"3").records, batch(A, b"5").records],
        B: [batch(B, b"2").records, batch(B, b"4").records],
    }


def test_a_task_that_fails_leaves_no_file(place: StagingPlace) -> None:
    collected = Stage(place, "q/3/file", 0)
    collected.add(batch(A, b"1"))
    collected.discard()
    assert not Path(place.location, "q/3/file").exists()


def test_what_was_sent_is_removed(place: StagingPlace) -> None:
    staged = stage(place, 0, batch(A, b"1"))
    StagedReader(place.location, [staged]).remove()
    assert not Path(place.location, "q/3/file").exists()


def test_the_driver_notices_a_file_that_it_cannot_see(place: StagingPlace, tmp_path: Path) -> None:
    staged = stage(place, 0, batch(A, b"1"))
    elsewhere = StagingPlace.prepare(str(tmp_path / "elsewhere"))
    with pytest.raises(StorageError, match="must be a folder that the driver and all executors share"):
        read(elsewhere, staged)


def test_the_driver_notices_a_damaged_file(place: StagingPlace) -> None:
    staged = stage(place, 0, batch(A, b"1"))
    file = Path(place.location, "q/3/file")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(StorageError, match="is damaged"):
        read(place, staged)


def test_a_task_notices_that_its_folder_is_not_the_drivers(place: StagingPlace) -> None:
    place.check_shared()
    Path(place.location, ".ruslo-staging").write_text("another machine's")
    with pytest.raises(ConfigError, match="does not see the driver's staging folder"):
        place.check_shared()
    with pytest.raises(ConfigError, match="does not see the driver's staging folder"):
        stage(place, 0, batch(A, b"1"))


def test_the_same_folder_is_known_again(place: StagingPlace) -> None:
    assert StagingPlace.prepare(place.location) == place


def test_without_a_path_a_temporary_folder_serves() -> None:
    place = StagingPlace.prepare(None)
    place.check_shared()
    assert Path(place.location).is_absolute()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be used by the driver"):
        StagingPlace.prepare(str(tmp_path / "file" / "staging"))
