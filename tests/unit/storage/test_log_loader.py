from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.ids import ZERO_UUID
from ruslo.storage.checkpoints import CheckpointedState
from ruslo.storage.disk import DiskError
from ruslo.storage.log_loader import open_log
from ruslo.storage.lost_data import LossKind, LostData
from ruslo.testing.sim_disk import SimDisk
from tests.unit.storage.workbench import NOW, PARTITION, TOPIC_ID, Workbench, batch, headers_in, records_from

SIZE = len(batch(2, producer_id=1, producer_epoch=0, sequence=0))


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Ten batches of two records in segments of three batches, with base offsets 0, 6, 12 and 18."""
    made = Workbench(tmp_path, LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=SIZE))
    for at in range(10):
        made.append(batch(2, producer_id=1, producer_epoch=0, sequence=2 * at), leader_epoch=at // 4)
    made.commit_all()
    return made


def log_file(bench: Workbench, base: int) -> Path:
    return Path(bench.path, f"{base:020d}.log")


def offsets(bench: Workbench) -> list[int]:
    return [offset for offset, _ in records_from(bench.log)]


class TestClean:
    def test_all_state_is_restored(self, bench: Workbench) -> None:
        before = bench.log
        log = bench.reopen()
        assert (log.start_offset, log.end_offset, log.high_watermark) == (0, 20, 20)
        assert log.recovery_point == 20
        assert log.topic_id == TOPIC_ID
        assert log.epochs.entries() == before.epochs.entries() == [(0, 0), (1, 8), (2, 16)]
        assert log.producers.entries[1].next_sequence == 20
        assert offsets(bench) == list(range(20))
        assert [segment.size for segment in log.segments] == [segment.size for segment in before.segments]

    def test_appends_continue_as_without_a_restart(self, tmp_path: Path) -> None:
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        config = LogConfig(segment_bytes=9 * SIZE, index_interval_bytes=2 * SIZE)
        straight, stopped = Workbench(tmp_path / "one", config), Workbench(tmp_path / "two", config)
        for at in range(20):
            for bench in (straight, stopped):
                bench.append(batch(2, timestamp=NOW + at))
            if at % 3 == 0:
                stopped.reopen()
        straight.log.close(NOW)
        stopped.log.close(NOW)
        for name in straight.names():
            if not name.endswith(".timeindex"):
                assert straight.content(name) == stopped.content(name), name
        # A shutdown adds a last time index entry, so there are more entries, but they find the same records.
        straight.reopen()
        stopped.reopen()
        for at in range(20):
            assert straight.log.offset_for_timestamp(NOW + at, 40) == stopped.log.offset_for_timestamp(
                NOW + at, 40
            )

    def test_files_are_opened_on_first_use(self, bench: Workbench) -> None:
        bench.log.close(NOW)
        before = len(os.listdir("/proc/self/fd"))
        log = bench.reopen()
        assert len(os.listdir("/proc/self/fd")) == before
        log.read(0, 100, 20)
        assert len(os.listdir("/proc/self/fd")) > before

    def test_only_the_last_batch_of_a_producer_is_known_after_a_restart(self, bench: Workbench) -> None:
        bench.reopen()
        assert bench.append(batch(2, producer_id=1, producer_epoch=0, sequence=18)).duplicate
        assert len(bench.log.producers.entries[1].batches) == 1

    def test_expired_producers_are_not_loaded(self, bench: Workbench) -> None:
        bench.clock.ms = NOW + 86_400_000
        assert len(bench.reopen().producers) == 0

    def test_an_open_transaction_is_still_open(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path)
        bench.append(batch())
        bench.append_transactional(1, 0, 0)
        bench.append(batch())
        bench.commit_all()
        assert bench.reopen().last_stable_offset == 1
        bench.end_transaction(1, 1, commit=False)
        bench.commit_all()
        assert bench.log.last_stable_offset == 4
        assert bench.log.aborted_transactions(0, 4) == [(1, 1, 3, 4)]

    @pytest.mark.parametrize("suffix", [".index", ".timeindex"])
    @pytest.mark.parametrize("base", [0, 6, 18])
    def test_a_missing_index_is_rebuilt(self, bench: Workbench, base: int, suffix: str) -> None:
        bench.log.close(NOW)
        path = Path(bench.path, f"{base:020d}{suffix}")
        content = path.read_bytes()
        path.unlink()
        bench.reopen()
        assert path.read_bytes() == content
        assert offsets(bench) == list(range(20))

    def test_preallocated_indexes_are_read(self, bench: Workbench) -> None:
        bench.log.close(NOW)
        for base in (6, 18):
            for suffix in (".index", ".timeindex"):
                path = Path(bench.path, f"{base:020d}{suffix}")
                path.write_bytes(path.read_bytes() + bytes(480))
        bench.reopen()
        assert offsets(bench) == list(range(20))
        assert bench.append(batch()).base_offset == 20
        assert bench.log.read(7, 10, 21).first_batch_offset == 6
        assert bench.log.offset_for_timestamp(NOW, 21) == (0, NOW, 0)

    def test_a_damaged_transaction_index_is_rebuilt(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path)
        bench.append_transactional(1, 0, 0)
        bench.end_transaction(1, 1, commit=False)
        bench.log.close(NOW)
        Path(bench.path, "0" * 20 + ".txnindex").write_bytes(b"too short")
        bench.reopen()
        assert bench.log.aborted_transactions(0, 10) == [(1, 0, 1, 2)]

    def test_a_torn_tail_is_truncated_even_after_a_clean_shutdown(self, bench: Workbench) -> None:
        bench.log.close(NOW)
        with log_file(bench, 18).open("ab") as file:
            file.write(b"what is this")
        bench.reopen()
        assert offsets(bench) == list(range(20))
        assert log_file(bench, 18).stat().st_size == SIZE

    def test_stray_snapshots_and_orphan_indexes_are_deleted(self, bench: Workbench) -> None:
        bench.log.close(NOW)
        for name in ("00000000000000000003.snapshot", "00000000000000000099.snapshot", "0" * 19 + "3.index"):
            Path(bench.path, name).write_bytes(b"")
        bench.reopen()
        left = {name for name in bench.names() if name.endswith(".snapshot")}
        assert left == {f"{offset:020d}.snapshot" for offset in (6, 12, 18, 20)}
        assert "0" * 19 + "3.index" not in bench.names()

    def test_a_log_start_offset_past_the_end_starts_over(self, bench: Workbench) -> None:
        log = bench.reopen(start_offset=50)
        assert (log.start_offset, log.end_offset) == (50, 50)
        assert bench.append(batch()).base_offset == 50

    def test_no_files_at_all(self, bench: Workbench) -> None:
        bench.log.close(NOW)
        for name in bench.names():
            Path(bench.path, name).unlink()
        log = bench.reopen()
        assert (log.start_offset, log.end_offset) == (0, 0)
        assert log.topic_id == ZERO_UUID

    @pytest.mark.parametrize("data", [b"", bytes(43)])
    def test_partition_metadata_that_never_reached_the_disk(self, bench: Workbench, data: bytes) -> None:
        bench.log.close(NOW)
        Path(bench.path, "partition.metadata").write_bytes(data)
        assert bench.reopen().topic_id == ZERO_UUID

    def test_unreadable_partition_metadata_leaves_the_topic_unknown(
        self, bench: Workbench, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.log.close(NOW)
        Path(bench.path, "partition.metadata").write_bytes(b"version: 0\ntopic_id: " + b"?" * 22)
        assert bench.reopen().topic_id == ZERO_UUID
        assert "topic id is unknown" in caplog.text


class TestLostTail:
    def lost_tail(self, bench: Workbench, checkpointed: CheckpointedState) -> LostData | None:
        bench.log.close(NOW)
        return open_log(
            bench.disk, bench.path, PARTITION, bench.config, bench.trash, NOW, checkpointed
        ).lost_tail

    @pytest.mark.parametrize(
        ("checkpointed", "kind", "end"),
        [
            (CheckpointedState(clean=True, recovery_point=27, high_watermark=5), LossKind.TAIL, 27),
            (CheckpointedState(clean=True, high_watermark=27), LossKind.TAIL, 27),
            (CheckpointedState(clean=False, recovery_point=27, high_watermark=29), LossKind.TAIL, 29),
            (CheckpointedState(clean=False, recovery_point=0, high_watermark=29), LossKind.UNSYNCED_TAIL, 29),
        ],
    )
    def test_checkpoints_past_the_end(
        self, bench: Workbench, checkpointed: CheckpointedState, kind: LossKind, end: int
    ) -> None:
        lost = self.lost_tail(bench, checkpointed)
        assert lost is not None
        assert (lost.kind, lost.first_offset, lost.end_offset) == (kind, 20, end)

    def test_leader_epochs_past_the_end(self, bench: Workbench) -> None:
        bench.log.close(NOW)
        Path(bench.path, "leader-epoch-checkpoint").write_bytes(b"0\n1\n3 28\n")
        lost = self.lost_tail(bench, CheckpointedState())
        assert lost is not None
        assert lost.end_offset == 28
        assert "leader-epoch-checkpoint says 28" in lost.detail

    def test_a_producer_snapshot_past_the_end(self, bench: Workbench) -> None:
        bench.log.close(NOW)
        log_file(bench, 18).unlink()
        lost = self.lost_tail(bench, CheckpointedState())
        assert lost is not None
        assert (lost.kind, lost.first_offset, lost.end_offset) == (LossKind.TAIL, 18, 20)

    @pytest.mark.parametrize("kept", [0, 12, 18])
    def test_readers_skip_the_records_that_the_only_replica_lost(self, bench: Workbench, kept: int) -> None:
        bench.log.close(NOW)
        for base in (0, 6, 12, 18):
            if base >= kept:
                log_file(bench, base).unlink()
        log = bench.reopen(clean=True)
        assert log.end_offset == kept
        log.fill_gap_to(20, NOW)
        for _ in range(2):
            assert log.end_offset == 20
            assert offsets(bench) == list(range(kept))
            assert not log.damage
            log = bench.reopen(clean=True)
        assert bench.append(batch(2)).base_offset == 20
        assert offsets(bench) == [*range(kept), 20, 21]

    def test_no_lost_tail(self, bench: Workbench) -> None:
        for clean in (True, False):
            assert (
                self.lost_tail(bench, CheckpointedState(clean, recovery_point=20, high_watermark=20)) is None
            )


class TestUnclean:
    def test_without_damage_nothing_is_lost(self, bench: Workbench) -> None:
        log = bench.reopen(clean=False)
        assert offsets(bench) == list(range(20))
        assert log.recovery_point == 0
        assert log.epochs.entries() == [(0, 0), (1, 8), (2, 16)]
        assert log.producers.entries[1].next_sequence == 20
        assert len(log.producers.entries[1].batches) == 5
        assert bench.append(batch(2, producer_id=1, producer_epoch=0, sequence=12)).base_offset == 12

    def test_epochs_in_the_file_that_the_batches_contradict(self, bench: Workbench) -> None:
        """This replica led epoch 3 at offset 10 without appending, then fetched records of another leader."""
        Path(bench.path, "leader-epoch-checkpoint").write_bytes(b"0\n3\n0 0\n1 8\n3 10\n")
        log = bench.reopen(clean=False)
        assert log.epochs.entries() == [(0, 0), (1, 8), (2, 16)]

    @pytest.mark.parametrize("lost_bytes", [1, 2, SIZE // 2, SIZE - 61, SIZE - 60, SIZE - 12, SIZE - 1])
    def test_a_torn_tail(self, bench: Workbench, lost_bytes: int) -> None:
        path = log_file(bench, 18)
        os.truncate(path, SIZE - lost_bytes)
        log = bench.reopen(clean=False)
        assert log.end_offset == 18
        assert path.stat().st_size == 0
        assert offsets(bench) == list(range(18))
        assert log.producers.entries[1].next_sequence == 18

    # The checksum does not cover the offset: a flipped low bit looks like a gap of compaction.
    @pytest.mark.parametrize("at", [0, 8, 11, 16, 17, 21, 26, 43, 60, SIZE - 1])
    def test_a_flipped_bit_ends_the_log_there(self, bench: Workbench, at: int) -> None:
        path = log_file(bench, 6)
        data = bytearray(path.read_bytes())
        data[SIZE + at] ^= 0x80
        path.write_bytes(data)
        log = bench.reopen(clean=False)
        assert log.end_offset == 8
        assert headers_in(log) == [(0, 1), (2, 3), (4, 5), (6, 7)]
        assert sum(name.endswith(".log.deleted") for name in bench.names()) == 2
        assert log.epochs.entries() == [(0, 0)]
        assert log.producers.entries[1].next_sequence == 8
        assert bench.append(batch(2, producer_id=1, producer_epoch=0, sequence=8)).base_offset == 8

    @pytest.mark.parametrize("next_is_empty", [True, False])
    def test_whole_batches_lost_before_the_next_segment(self, bench: Workbench, next_is_empty: bool) -> None:
        os.truncate(log_file(bench, 12), SIZE)
        if next_is_empty:
            os.truncate(log_file(bench, 18), 0)
        log = bench.reopen(clean=False, recovery_point=7)
        assert log.end_offset == 14
        assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
        assert offsets(bench) == list(range(14))
        assert log.producers.entries[1].next_sequence == 14
        assert bench.append(batch(2, producer_id=1, producer_epoch=0, sequence=14)).base_offset == 14

    def test_a_segment_lost_as_a_whole(self, bench: Workbench) -> None:
        log_file(bench, 12).unlink()
        assert bench.reopen(clean=False, recovery_point=7).end_offset == 12
        assert offsets(bench) == list(range(12))

    @pytest.mark.parametrize(("counts", "end_offset"), [((2, 2), 6), ((5,), 7)])
    def test_a_truncated_segment_comes_back(
        self, tmp_path: Path, counts: tuple[int, ...], end_offset: int
    ) -> None:
        """A power failure undoes the rename of the segment, but not the later appends."""
        disk = SimDisk(str(tmp_path))
        bench = Workbench(tmp_path, LogConfig(segment_bytes=3 * SIZE), disk)
        bench.append_many(5, 2)
        bench.log.flush(NOW)
        bench.log.truncate_to(2)
        for count in counts:
            bench.append(batch(count, value=b"w"), leader_epoch=1)
        bench.log.active.file.sync()
        disk.medium.lose_power(everything=True)
        assert f"{6:020d}.log" in bench.names()
        log = bench.reopen(clean=False, recovery_point=2)
        values = [b"v"] * 2 + [b"w"] * (end_offset - 2)
        assert records_from(log) == list(enumerate(values))
        assert log.epochs.entries() == [(0, 0), (1, 2)]

    def test_a_log_that_lost_all_records_has_no_epoch(self, tmp_path: Path) -> None:
        """The checkpoint may lack the last epoch, so the leader would find a wrong divergence."""
        bench = Workbench(tmp_path, LogConfig(segment_bytes=3 * SIZE, retention_ms=0))
        bench.append(batch(2))
        bench.log.flush(NOW)
        bench.append(batch(2), leader_epoch=1)
        bench.commit_all()
        assert bench.log.delete_old_segments(NOW + 1) == 1
        assert bench.log.epochs.latest == 1
        log = bench.reopen(clean=False, recovery_point=2)
        assert (log.start_offset, log.end_offset, log.epochs.entries()) == (4, 4, [])

    def test_the_renames_of_dropped_segments_are_synced_soon(self, bench: Workbench) -> None:
        os.truncate(log_file(bench, 12), 10)
        log = bench.reopen(clean=False, recovery_point=7)
        assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
        assert log.sync_targets().directories == (bench.path,)

    def test_a_gap_that_compaction_may_have_left(self, bench: Workbench) -> None:
        os.truncate(log_file(bench, 6), SIZE)
        bench.compacted_at_most = 12
        assert bench.reopen(clean=False).end_offset == 20
        assert offsets(bench) == [*range(8), *range(12, 20)]

    def test_a_gap_that_was_sent_to_a_follower(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_bytes=2 * SIZE))
        for base_offset in (0, 2, 7, 2**31 + 9):
            bench.log.append_as_is(batch(2, base_offset=base_offset, leader_epoch=0), NOW)
        bases = [0, 4, 2**31 + 9]
        assert [segment.base_offset for segment in bench.log.segments] == bases
        log = bench.reopen(clean=False)
        assert [segment.base_offset for segment in log.segments] == bases
        assert [offset for offset, _ in records_from(log)] == [0, 1, 2, 3, 7, 8, 2**31 + 9, 2**31 + 10]

    def test_segments_below_the_recovery_point_are_trusted(self, bench: Workbench) -> None:
        path = log_file(bench, 0)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        assert bench.reopen(clean=False, recovery_point=6).end_offset == 20
        assert bench.reopen(clean=False, recovery_point=5).end_offset == 4

    def test_garbage_in_the_indexes_does_not_matter(self, bench: Workbench) -> None:
        for name in bench.names():
            if name.endswith((".index", ".timeindex")):
                Path(bench.path, name).write_bytes(b"\xff" * 1000)
        bench.reopen(clean=False)
        assert offsets(bench) == list(range(20))
        for offset in range(20):
            assert bench.log.read(offset, 10, 20).first_batch_offset == offset - offset % 2

    def test_zeros_at_the_end_as_some_file_systems_leave_them(self, bench: Workbench) -> None:
        with log_file(bench, 18).open("ab") as file:
            file.write(bytes(4096))
        assert bench.reopen(clean=False).end_offset == 20

    def test_aborted_transactions_are_found_again(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_bytes=400))
        for epoch in range(8):
            bench.append_transactional(1, epoch, 0)
            bench.end_transaction(1, epoch + 1, commit=epoch % 2 == 0)
        bench.commit_all()
        expected = bench.log.aborted_transactions(0, 16)
        assert len(expected) == 4
        for name in bench.names():
            if name.endswith(".txnindex"):
                Path(bench.path, name).unlink()
        bench.reopen(clean=False)
        assert bench.log.aborted_transactions(0, 16) == expected

    def test_a_damaged_snapshot_is_replaced_by_an_older_one(self, bench: Workbench) -> None:
        bench.log.close(NOW)
        for offset in (12, 18, 20):
            Path(bench.path, f"{offset:020d}.snapshot").write_bytes(b"damaged")
        bench.reopen()
        assert bench.log.producers.entries[1].next_sequence == 20

    def test_the_name_of_a_segment_that_starts_over_is_synced_by_the_next_flush(
        self, bench: Workbench
    ) -> None:
        for name in os.listdir(bench.path):
            if name.endswith((".log", ".index", ".timeindex", ".snapshot", "checkpoint")):
                os.unlink(f"{bench.path}/{name}")
        log = bench.reopen(clean=False)
        assert log.end_offset == 0
        assert bench.path in log.sync_targets().directories

    def test_files_of_recovery_are_synced_by_the_next_flush(self, bench: Workbench) -> None:
        log = bench.reopen(clean=False)
        targets = log.sync_targets()
        assert {Path(path).name for path in targets.paths} >= {f"{base:020d}.index" for base in (0, 6, 12)}
        log.flush(NOW)
        assert log.recovery_point == 20
        assert not log.is_dirty


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_every_change_loses_nothing_that_was_flushed(tmp_path: Path, seed: int) -> None:
    """The power fails at the N-th change of the disk, for every N."""
    config = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=SIZE)
    dies_at = 0
    while True:
        directory = tmp_path / str(dies_at)
        directory.mkdir()
        disk = SimDisk(str(directory), seed=seed)
        bench = Workbench(directory, config, disk)
        bench.log.flush(NOW)
        disk.medium.dies_at = disk.medium.changes + dies_at
        flushed = sequence = 0
        try:
            for at in range(10):
                bench.append(batch(2, producer_id=1, producer_epoch=0, sequence=sequence))
                sequence += 2
                if at % 4 == 3:
                    bench.log.flush(NOW)
                    flushed = bench.log.end_offset
            bench.log.close(NOW)
        except DiskError:
            disk.medium.lose_power()
        else:
            break
        disk.medium.dies_at = None
        log = bench.reopen(clean=False, recovery_point=flushed)
        assert flushed <= log.end_offset <= sequence + 2
        assert offsets(bench) == list(range(log.end_offset)), f"died at change {dies_at}"
        assert log.topic_id == TOPIC_ID
        assert bench.append(batch(producer_id=1, producer_epoch=0, sequence=log.end_offset)).base_offset == (
            log.end_offset - 1
        )
        dies_at += 1
    assert dies_at > 30
