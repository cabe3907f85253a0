from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import StorageError
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import TRANSACTIONAL
from ruslo.storage.checkpoints import RECOVERY_POINTS, format_offsets, read_offsets
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.repair import repair_partition
from ruslo.storage.verify import Kind, PartitionCheck, PartitionReport, partition_directories
from tests.unit.storage.compacting import COMPACTED, compact, keyed, roll
from tests.unit.storage.workbench import PARTITION, Workbench, records_from


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """A log of several segments, with all kinds of batches, after a clean shutdown."""
    bench = Workbench(tmp_path, COMPACTED)
    for number in range(30):
        bench.append(keyed([(b"k%d" % number, bytes(60)), (b"k%d" % (number // 2), b"v")], codec=number % 5))
    bench.append(keyed([(b"a", b"x")], producer_id=9, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL))
    bench.end_transaction(9, 1, commit=False)
    roll(bench)
    bench.append(keyed([(b"last", b"1")]))
    bench.append(keyed([(b"last", b"2")]))
    bench.log.close(bench.clock.ms)
    return bench


def verify(bench: Workbench) -> PartitionReport:
    return PartitionCheck(LocalDisk(bench.directory), bench.path).run()


def damage(path: Path, position: int, byte: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[position] = data[position] ^ 0x10 if byte is None else byte
    path.write_bytes(data)


def test_valid_log_before_and_after_compaction(bench: Workbench) -> None:
    report = verify(bench)
    assert report.findings == []
    assert (report.records, report.segments) == (64, len(bench.log.segments))
    bench.reopen()
    bench.commit_all()
    compact(bench)
    bench.log.close(bench.clock.ms)
    compacted = verify(bench)
    assert compacted.findings == []
    assert compacted.records < report.records


def test_every_damaged_range_is_found(bench: Workbench) -> None:
    first, second = (Path(segment.path_of(".log")) for segment in bench.log.segments[:2])
    damage(first, 100)
    damage(second, 3)  # in the base offset, which the checksum does not cover
    report = verify(bench)
    found = [(Path(each.file).name, each.kind, each.offset) for each in report.findings]
    assert found == [
        (first.name, Kind.RECORDS, 0),
        (second.name, Kind.RECORDS, bench.log.segments[1].base_offset),
    ]
    assert report.findings[0].position == 0
    assert report.records == 60


def test_damaged_header_affects_only_its_batch(bench: Workbench) -> None:
    path = Path(bench.log.segments[0].path_of(".log"))
    second_batch = 12 + int.from_bytes(path.read_bytes()[8:12], "big")
    damage(path, second_batch + 8, 0x7F)  # its length
    (finding,) = verify(bench).findings
    assert (finding.position, finding.offset) == (second_batch, 2)
    assert verify(bench).records == 62


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_damaged_indexes_and_snapshots_are_found_and_rebuilt(bench: Workbench, kind: str) -> None:
    path = max(path for path in Path(bench.path).glob(f"*{kind}") if path.stat().st_size)
    whole = path.read_bytes()
    damage(path, 9)
    (finding,) = verify(bench).findings
    assert (finding.kind, finding.file) == (Kind.INDEX, str(path))
    before = records_from(bench.reopen())
    bench.log.close(bench.clock.ms)
    damage(path, 9, whole[9] ^ 0x10)
    repair_partition(LocalDisk(bench.directory), verify(bench), None)
    assert verify(bench).findings == []
    if kind in (".txnindex", ".snapshot"):
        assert path.read_bytes() == whole
    assert records_from(bench.reopen()) == before


def test_missing_indexes_are_rebuilt(bench: Workbench) -> None:
    Path(bench.log.segments[0].path_of(".index")).unlink()
    assert [each.message for each in verify(bench).findings] == ["it is missing"]
    repair_partition(LocalDisk(bench.directory), verify(bench), None)
    assert verify(bench).findings == []


def test_a_missing_transaction_index_is_found(bench: Workbench) -> None:
    (path,) = Path(bench.path).glob("*.txnindex")
    whole = path.read_bytes()
    path.unlink()
    (finding,) = verify(bench).findings
    assert "differ from the 1 aborted transactions" in finding.message
    repair_partition(LocalDisk(bench.directory), verify(bench), None)
    assert path.read_bytes() == whole


def test_repair_removes_damaged_bytes_and_keeps_a_copy(bench: Workbench, tmp_path: Path) -> None:
    expected = records_from(bench.reopen())
    bench.log.close(bench.clock.ms)
    path = Path(bench.log.segments[1].path_of(".log"))
    damage(path, path.stat().st_size - 2)
    damaged = path.read_bytes()
    disk, checkpoint = LocalDisk(bench.directory), f"{bench.directory}/{RECOVERY_POINTS}"
    disk.replace_file(checkpoint, format_offsets({PARTITION: 0, TopicPartition("u", 1): 4}))
    report = verify(bench)
    (finding,) = report.findings
    repair_partition(disk, report, str(tmp_path / "kept"))
    # The next start, even after an unclean shutdown, must not treat the gap as a loss.
    end_offset = bench.log.end_offset
    assert read_offsets(disk, checkpoint) == {PARTITION: end_offset, TopicPartition("u", 1): 4}
    assert (tmp_path / "kept" / "t-0" / path.name).read_bytes() == damaged
    after = records_from(bench.reopen())
    lost = [record for record in expected if record not in after]
    assert {offset for offset, _ in lost} == {finding.offset, finding.offset + 1}
    assert after == [record for record in expected if record not in lost]
    assert verify(bench).findings == []


def test_repair_fills_the_gap_at_the_end_of_a_segment(tmp_path: Path) -> None:
    """In a log that is not compacted a gap there would count as damage."""
    bench = Workbench(tmp_path, LogConfig(segment_bytes=500))
    bench.append_many(30, 2)
    expected = records_from(bench.log)
    bench.log.close(bench.clock.ms)
    first, second, third = bench.log.segments[:3]
    damage(Path(first.path_of(".log")), first.size - 2)
    damage(Path(second.path_of(".log")), 70)
    repair_partition(LocalDisk(bench.directory), verify(bench), None)
    assert verify(bench).findings == []
    lost = {second.base_offset - 2, second.base_offset - 1, second.base_offset, second.base_offset + 1}
    assert records_from(bench.reopen()) == [each for each in expected if each[0] not in lost]
    assert third.base_offset in dict(expected)


def test_an_unknown_topic_cannot_be_repaired(bench: Workbench) -> None:
    Path(bench.path, "partition.metadata").write_bytes(b"version: 3\ntopic_id: " + b"A" * 22)
    report = verify(bench)
    assert [each.kind for each in report.findings] == [Kind.IDENTITY]
    with pytest.raises(StorageError, match="does not have the topic id"):
        repair_partition(LocalDisk(bench.directory), report, None)


def test_a_log_directory_or_one_partition(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "other-1").mkdir()
    (tmp_path / "other-1" / f"{0:020d}.log").write_bytes(b"")
    (tmp_path / "no-partition").mkdir()
    disk = LocalDisk(str(tmp_path))
    assert partition_directories(disk, str(tmp_path)) == [str(tmp_path / "other-1"), bench.path]
    assert partition_directories(disk, bench.path) == [bench.path]
