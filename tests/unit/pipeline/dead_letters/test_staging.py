from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.dead_letters.staging import DeadLetterStaging
from ruslo.pipeline.staging.folder import StagingFolder
from ruslo.pipeline.staging.identity import BatchIdentity
from ruslo.records.record import Record
from ruslo.runs.dead_letters import REASON, origin_headers, origin_key

SOURCE = TopicPartition("orders", 3)


def dead_letter(offset: int, value: bytes = b"junk", source: TopicPartition = SOURCE) -> Record:
    return Record(0, 1000, b"k", value, (("trace", b"1"), *origin_headers(source, offset, "not JSON")))


@pytest.fixture
def staging(tmp_path: Path) -> DeadLetterStaging:
    folder = StagingFolder.prepare(str(tmp_path))
    return DeadLetterStaging.of(folder.location, BatchIdentity("sink", "q", 4), "run-1")


def offsets(dead_letters: list[Record]) -> list[int]:
    return [origin_key(each)[2] for each in dead_letters]


def test_a_dead_letter_that_tasks_staged_twice_is_read_once(staging: DeadLetterStaging) -> None:
    assert staging.is_empty()
    staging.add([dead_letter(9), dead_letter(10)])
    staging.add([dead_letter(10), dead_letter(2)])
    assert not staging.is_empty()
    assert offsets(staging.read()) == [2, 9, 10]
    (first, *_) = staging.read()
    assert (first.key, first.value, first.timestamp) == (b"k", b"junk", 1000)
    assert dict(first.headers)[REASON] == b"not JSON"


def test_dead_letters_are_sorted_by_their_origin(staging: DeadLetterStaging) -> None:
    other = TopicPartition("orders", 1)
    staging.add([dead_letter(5), dead_letter(7, source=other), dead_letter(4)])
    assert offsets(staging.read()) == [7, 4, 5]


def test_dead_letters_of_another_run_are_ignored(staging: DeadLetterStaging) -> None:
    staging.add([dead_letter(1)])
    assert DeadLetterStaging.of(staging.location, BatchIdentity("sink", "q", 4), "run-2").is_empty()


def test_a_truncated_batch_is_ignored_and_a_damaged_one_is_an_error(
    staging: DeadLetterStaging, tmp_path: Path
) -> None:
    staging.add([dead_letter(1, bytes(400_000)), dead_letter(2, bytes(400_000))])
    (file,) = (tmp_path / staging.folder).iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert offsets(staging.read()) == [1]
    file.write_bytes(whole[:-1] + b"\xff")
    with pytest.raises(StorageError, match="is damaged"):
        staging.read()


def test_an_unprepared_staging_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not see the staging folder"):
        DeadLetterStaging(str(tmp_path), "dead-letters").add([dead_letter(1)])
