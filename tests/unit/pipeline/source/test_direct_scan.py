from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ConfigError, CorruptLogError, KafkaError
from ruslo.pipeline.source.data_loss import DataLost
from ruslo.pipeline.source.direct_scan import scan_direct
from ruslo.pipeline.source.log_dirs import check_directory
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import OffsetRange
from ruslo.pipeline.source.segment_files import SegmentFiles
from tests.unit.storage.workbench import PARTITION, TOPIC_ID, Workbench, batch, records_from

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path, SMALL)


def options(**settings: str) -> SourceOptions:
    return SourceOptions.parse(
        {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "scan": "direct", **settings}, streaming=False
    )


def read(bench: Workbench, start: int, end: int, **settings: str) -> list[tuple[int, bytes | None]]:
    expected = options(**settings)
    offset_range = OffsetRange(PARTITION, TOPIC_ID, start, end, 100.0, bench.path)
    return [
        (int(rows.offsets[at]), rows.value(at))
        for chunk in scan_direct([offset_range], expected)
        for rows in chunk.rows(read_committed=expected.read_committed)
        for at in range(len(rows))
    ]


class TestReading:
    def test_the_same_records_as_the_log(self, bench: Workbench) -> None:
        for at in range(60):
            bench.append(batch(1 + at % 3, value=b"%d" % at))
        assert len(bench.log.segments) > 3
        end = bench.log.end_offset
        expected = records_from(bench.log)
        assert read(bench, 0, end) == expected
        for start, stop in ((0, 1), (7, 50), (end - 1, end), (33, 34)):
            assert read(bench, start, stop) == [row for row in expected if start <= row[0] < stop]

    def test_the_broker_appends_after_the_offset_range(self, bench: Workbench) -> None:
        bench.append_many(5)
        with open(bench.log.segments[-1].stem + ".log", "ab") as tail:
            tail.write(bytes(batch(base_offset=5))[:40])  # an unfinished write
        assert [offset for offset, _ in read(bench, 0, 5)] == [0, 1, 2, 3, 4]

    def test_a_batch_larger_than_one_read(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig())
        bench.append(batch(2, value=bytes(9_000_000)))
        bench.append(batch(1))
        assert [offset for offset, _ in read(bench, 0, 3)] == [0, 1, 2]

    def test_indexes_padded_with_zeros(self, bench: Workbench) -> None:
        """Apache Kafka pads the indexes of its active segment."""
        bench.append_many(40)
        bench.reopen()
        for suffix in (".index", ".timeindex"):
            with open(bench.log.segments[-1].stem + suffix, "ab") as index:
                index.write(bytes(24 * 100))
        assert [offset for offset, _ in read(bench, 31, 40)] == list(range(31, 40))

    def test_read_only_files(self, bench: Workbench) -> None:
        bench.append_many(5)
        for folder, _, names in os.walk(bench.path):
            for name in names:
                os.chmod(os.path.join(folder, name), 0o444)
        opened = SegmentFiles(bench.path).at(0)
        assert opened is not None
        assert not os.get_inheritable(opened.file.fileno())
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(opened.file.fileno(), b"x")


class TestTransactions:
    def append_transactions(self, bench: Workbench) -> None:
        for producer in range(1, 5):
            bench.append_transactional(producer, 0, 0, count=2)
            bench.append(batch(1))
        bench.end_transaction(1, 1, commit=True)
        bench.end_transaction(2, 1, commit=False)
        for _ in range(12):
            bench.append(batch(1))
        bench.append_transactional(2, 1, 0, count=2)
        bench.end_transaction(2, 2, commit=True)
        bench.end_transaction(3, 1, commit=False)
        bench.end_transaction(4, 1, commit=True)
        bench.commit_all()

    def test_aborted_records_are_skipped(self, bench: Workbench) -> None:
        self.append_transactions(bench)
        end = bench.log.end_offset
        all_rows = {offset for offset, _ in read(bench, 0, end, isolation="read_uncommitted")}
        committed = {offset for offset, _ in read(bench, 0, end)}
        assert all_rows - committed == {3, 4, 6, 7}
        assert len(bench.log.segments) > 1

    def test_reading_from_any_offset(self, bench: Workbench) -> None:
        self.append_transactions(bench)
        end = bench.log.end_offset
        whole = read(bench, 0, end)
        for start in range(end):
            assert read(bench, start, end) == [row for row in whole if row[0] >= start]


class TestDataLoss:
    def test_deleted_segments(self, bench: Workbench) -> None:
        bench.append_many(60)
        missing = bench.log.segments[0]
        first = bench.log.segments[1].base_offset
        os.unlink(missing.stem + ".log")
        with pytest.raises(DataLost, match=f"removed offsets 0 to {first - 1}.*failOnDataLoss"):
            read(bench, 0, 60)
        kept = read(bench, 0, 60, failOnDataLoss="false")
        assert [offset for offset, _ in kept] == list(range(first, 60))

    def test_an_end_beyond_the_log(self, bench: Workbench) -> None:
        bench.append_many(5)
        with pytest.raises(DataLost, match="removed offsets 5 to 9"):
            read(bench, 0, 10)
        assert len(read(bench, 0, 10, failOnDataLoss="false")) == 5

    def test_no_segment(self, bench: Workbench) -> None:
        os.unlink(bench.log.segments[0].stem + ".log")
        with pytest.raises(DataLost):
            read(bench, 0, 10)

    def test_a_truncated_file(self, bench: Workbench) -> None:
        bench.append(batch(3, value=bytes(300)))
        path = bench.log.segments[0].stem + ".log"
        scan = scan_direct([OffsetRange(PARTITION, TOPIC_ID, 0, 3, 100.0, bench.path)], options())
        os.truncate(path, 200)
        with pytest.raises((DataLost, CorruptLogError)):
            list(scan)


class TestLogDirectory:
    @pytest.mark.parametrize("content", [b"", bytes(900)])
    def test_an_emptied_or_zeroed_segment(self, bench: Workbench, content: bytes) -> None:
        bench.append_many(40)
        bench.log.close(bench.clock.ms)
        Path(bench.log.segments[1].stem + ".log").write_bytes(content)
        with pytest.raises((CorruptLogError, KafkaError), match="damaged"):
            read(bench, 0, 40)

    def test_a_missing_directory(self) -> None:
        with pytest.raises(ConfigError, match=r"/nowhere/t-0.*does not exist.*scan=wire"):
            check_directory("/nowhere/t-0", PARTITION, TOPIC_ID)

    def test_a_directory_of_another_broker(self, bench: Workbench) -> None:
        check_directory(bench.path, PARTITION, TOPIC_ID)
        with pytest.raises(ConfigError, match="belongs to another topic"):
            check_directory(bench.path, PARTITION, bytes(reversed(TOPIC_ID)))
