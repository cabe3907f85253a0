from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.identity import BatchIdentity
from ruslo.pipeline.sink.staging import StagingPlace
from ruslo.pipeline.staged_letters import LetterBox, about, letter_batches
from ruslo.records.reader import read_records
from ruslo.records.record import Record
from ruslo.runs.dead_letters import OFFSET, REASON

SOURCE = TopicPartition("orders", 3)


def letter(offset: int, value: bytes = b"junk", source: TopicPartition = SOURCE) -> Record:
    return Record(0, 1000, b"k", value, (("trace", b"1"), *about(source, offset, "not JSON")))


@pytest.fixture
def box(tmp_path: Path) -> LetterBox:
    place = StagingPlace.prepare(str(tmp_path))
    return LetterBox.of(place.location, BatchIdentity("sink", "q", 4), "run-1")


def offsets(letters: list[Record]) -> list[int]:
    return [int(dict(each.headers)[OFFSET] or b"") for each in letters]


def test_what_tasks_have_staged_twice_is_one_letter(box: LetterBox) -> None:
    assert not box.is_used()
    box.put([letter(9), letter(10)])
    box.put([letter(10), letter(2)])
    assert box.is_used()
    assert offsets(box.letters()) == [2, 9, 10]
    (first, *_) = box.letters()
    assert (first.key, first.value, first.timestamp) == (b"k", b"junk", 1000)
    assert dict(first.headers)[REASON] == b"not JSON"


def test_letters_of_another_run_are_not_this_ones(box: LetterBox) -> None:
    box.put([letter(1)])
    assert not LetterBox.of(box.location, BatchIdentity("sink", "q", 4), "run-2").is_used()


def test_they_keep_to_a_partition_and_to_their_order(box: LetterBox) -> None:
    other = TopicPartition("orders", 1)
    box.put([letter(5), letter(7, source=other), letter(4)])
    found = {
        target.partition: offsets([record for batch in batches for record in read_records(batch)])
        for target, batches in box.by_target("dead", 2).items()
    }
    assert found == {1: [7, 4, 5]}


def test_a_file_cut_short_is_read_as_far_as_it_goes_and_damage_is_told(
    box: LetterBox, tmp_path: Path
) -> None:
    box.put([letter(1, bytes(400_000)), letter(2, bytes(400_000))])
    (file,) = (tmp_path / box.folder).iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert offsets(box.letters()) == [1]
    file.write_bytes(whole[:-1] + b"\xff")
    with pytest.raises(StorageError, match="is damaged"):
        box.letters()


def test_a_folder_that_no_driver_has_prepared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not see the staging folder"):
        LetterBox(str(tmp_path), "letters").put([letter(1)])


def test_batches_have_a_usual_size_and_a_large_letter_is_one_by_itself() -> None:
    letters = [letter(1, bytes(100)), letter(2, bytes(700_000)), letter(3), letter(4)]
    assert [offsets(list(read_records(batch))) for batch in letter_batches(letters)] == [[1], [2], [3, 4]]
