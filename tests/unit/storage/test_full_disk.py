"""The disk becomes full between two files of one append: no partial append remains."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import TRANSACTIONAL
from ruslo.storage.disk import DiskError
from ruslo.storage.local_disk import LocalFile
from ruslo.storage.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX
from tests.unit.storage.test_disk import largest_file
from tests.unit.storage.workbench import NOW, Workbench, batch, records_from

LOG = "00000000000000000000.log"
ABORTED = [(1, 0, 1, 2)]


@contextmanager
def disk_full_for(suffix: str) -> Iterator[None]:
    """Writes to files with this suffix are partial and fail."""
    append = LocalFile.append

    def refuse(file: LocalFile, data: ReadBuffer) -> None:
        if not file.path.endswith(suffix):
            append(file, data)
            return
        append(file, bytes(data)[: len(data) // 2])
        raise DiskError("d", file.path, "write to", OSError(errno.ENOSPC, "No space left on device"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFile, "append", refuse)
        yield


@pytest.fixture
def leader(tmp_path: Path) -> Workbench:
    (tmp_path / "leader").mkdir()
    bench = Workbench(tmp_path / "leader")
    bench.append_transactional(1, 0, 0)
    return bench


@pytest.mark.parametrize("first", [0, 7])
def test_batches_in_flight_after_one_that_failed_on_a_full_disk_fail_too(tmp_path: Path, first: int) -> None:
    """Otherwise librdkafka starts a new epoch and resends batches that other partitions already have."""
    bench = Workbench(tmp_path)
    if first:
        bench.append(batch(first, producer_id=1, producer_epoch=0, sequence=0))
    in_flight = [batch(producer_id=1, producer_epoch=0, sequence=first + at) for at in range(3)]
    with largest_file(bench.log.size_bytes + 10), pytest.raises(DiskError):
        bench.append(in_flight[0])
    for later in in_flight[1:]:
        with pytest.raises(KafkaError) as caught:
            bench.append(later)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [bench.append(each).base_offset for each in in_flight] == [first, first + 1, first + 2]
    with pytest.raises(KafkaError) as caught:
        bench.append(batch(producer_id=1, producer_epoch=0, sequence=first + 9))
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_does_not_wait_for_a_batch_of_the_old_one(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)
    bench.append(batch(producer_id=1, producer_epoch=0, sequence=0))
    with largest_file(bench.log.size_bytes + 10), pytest.raises(DiskError):
        bench.append(batch(producer_id=1, producer_epoch=0, sequence=1))
    assert bench.append(batch(producer_id=1, producer_epoch=1, sequence=0)).base_offset == 1
    assert bench.append(batch(producer_id=1, producer_epoch=1, sequence=1)).base_offset == 2


def test_a_batch_that_was_retried_through_another_leader_is_not_awaited(tmp_path: Path) -> None:
    def transactional(sequence: int, offset: int = 0) -> bytearray:
        return batch(
            producer_id=1,
            producer_epoch=0,
            sequence=sequence,
            base_offset=offset,
            leader_epoch=1,
            attributes=TRANSACTIONAL,
        )

    bench = Workbench(tmp_path)
    bench.append(transactional(0))
    with largest_file(bench.log.size_bytes + 10), pytest.raises(DiskError):
        bench.append(transactional(1))
    # Another broker leads for a while, and the transaction ends.
    for sequence in (1, 2):
        bench.log.append_follower(transactional(sequence, bench.log.end_offset), 1, NOW)
    bench.end_transaction(1, 0, commit=True, version=1)
    assert bench.append(transactional(3)).base_offset == 4


@pytest.mark.parametrize("suffix", [TXN_INDEX_SUFFIX, LOG_SUFFIX])
def test_a_leader_writes_a_marker_and_its_index_entry_or_neither(leader: Workbench, suffix: str) -> None:
    before = leader.content(LOG)
    leader.log.make_room(1, 1, 0, NOW, NOW)  # This forces a new lookup of the append function.
    with disk_full_for(suffix):
        leader.log._write = leader.log.active.file.append
        with pytest.raises(DiskError) as caught:
            leader.end_transaction(1, 1, commit=False)
    leader.log._write = leader.log.active.file.append
    assert caught.value.disk_full
    assert not caught.value.fatal
    assert leader.content(LOG) == before
    assert leader.log.end_offset == 1
    assert leader.log.producers.open_transactions() == [(0, 1)]
    leader.end_transaction(1, 1, commit=False)
    leader.append(batch())
    leader.commit_all()
    assert leader.log.aborted_transactions(0, 100) == ABORTED
    leader.reopen(clean=False)
    assert leader.log.aborted_transactions(0, 100) == ABORTED


def test_a_follower_keeps_the_batches_before_a_marker_that_failed_on_a_full_disk(
    leader: Workbench, tmp_path: Path
) -> None:
    leader.end_transaction(1, 1, commit=False)
    for _ in range(3):
        leader.append(batch())
    (tmp_path / "follower").mkdir()
    follower = Workbench(tmp_path / "follower")
    sent = leader.content(LOG)
    with disk_full_for(TXN_INDEX_SUFFIX), pytest.raises(DiskError) as caught:
        follower.log.append_as_is(sent, NOW)
    assert not caught.value.fatal
    assert follower.log.end_offset == 1
    # The follower fetches from its end offset again and continues.
    follower.log.append_as_is(sent[len(follower.content(LOG)) :], NOW)
    leader.append(batch())
    follower.log.append_as_is(leader.content(LOG)[len(sent) :], NOW)
    assert follower.content(LOG) == leader.content(LOG)
    follower.commit_all()
    assert follower.log.aborted_transactions(0, 100) == ABORTED
    assert [offset for offset, _ in records_from(follower.log)] == list(range(6))


def test_a_log_is_truncated_even_if_its_snapshot_fails_on_a_full_disk(leader: Workbench) -> None:
    for sequence in range(1, 4):
        leader.append_transactional(1, 0, sequence)

    def refuse(disk: object, path: str, data: ReadBuffer) -> None:
        raise DiskError("d", path, "write", OSError(errno.ENOSPC, "No space left on device"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(leader.disk), "write_file", refuse)
        assert leader.log.truncate_to(2)
    assert leader.log.end_offset == 2
    assert leader.append_transactional(1, 0, 2).base_offset == 2
    assert [offset for offset, _ in records_from(leader.log)] == [0, 1, 2]
