"""Kafka's own dump tool reads every type of file that storage writes and prints the same as ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.records.batch import HEADER, TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.compression import Codec
from ruslo.records.record import Record
from ruslo.storage.dump import Row, dump_file
from tests.support.tools.java_tools import run_tool
from tests.support.tools.programs import require_tool
from tests.unit.storage.workbench import NOW, Workbench

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = re.compile(
    r"mismatch|isvalid: false|invalid|Non-consecutive|Exception|truncated|corrupt", re.IGNORECASE
)
# The tool starts counting at -1 in every file, so it reports each first batch, even Kafka's own.
FIRST_BATCH = re.compile(r"Non-consecutive offsets in .*\n\s+-1 is followed by \d+\n")
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def fill(bench: Workbench, plain_id: int = 1, transactional_id: int = 2) -> None:
    """All codecs, an idempotent producer, committed and aborted transactions, several epochs and segments."""
    sequence = 0
    for round_ in range(30):
        for codec in CODECS:
            records = [
                Record(delta, NOW + round_ * 100 + delta, b"key", b"value %d" % delta * 20, (("h", b"1"),))
                for delta in range(1 + round_ % 4)
            ]
            data = build_batch(
                records, codec=codec, producer_id=plain_id, producer_epoch=0, base_sequence=sequence
            )
            sequence += len(records)
            bench.append(data, leader_epoch=round_ // 10)
        data = build_batch(
            [Record(0, NOW + round_ * 100, b"t", b"in a transaction")],
            producer_id=transactional_id,
            producer_epoch=round_,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
        bench.log.append_leader(data, HEADER.unpack_from(data), round_ // 10, NOW)
        bench.end_transaction(transactional_id, round_ + 1, commit=round_ % 3 != 0)
    bench.commit_all()


@pytest.fixture(scope="module", params=["clean", "recovered", "cut"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    require_tool("java")
    made = Workbench(
        tmp_path_factory.mktemp("dump"), LogConfig(segment_bytes=8_000, index_interval_bytes=500)
    )
    fill(made)
    if request.param == "recovered":
        with open(made.log.active.stem + ".log", "ab") as file:
            file.write(b"a torn batch")
        made.reopen(clean=False)
    elif request.param == "cut":
        made.log.truncate_to(made.log.end_offset - 25)
        fill(made, 3, 4)
    made.log.close(NOW)
    return made


def files(bench: Workbench, *suffixes: str) -> list[str]:
    return sorted(str(path) for path in Path(bench.path).iterdir() if path.name.endswith(suffixes))


def rows(bench: Workbench, suffix: str, *, records: bool = False) -> list[Row]:
    return [row for path in files(bench, suffix) for row in dump_file(path, records=records)]


def kafka_dump(bench: Workbench, suffixes: tuple[str, ...], *options: str) -> str:
    result = run_tool(DUMP, "--files", ",".join(files(bench, *suffixes)), *options)
    assert result.returncode == 0, result.stderr
    complaints = [
        line
        for line in FIRST_BATCH.sub("", result.stdout + result.stderr).splitlines()
        if COMPLAINTS.search(line)
    ]
    assert complaints == []
    return result.stdout


def test_batches(bench: Workbench) -> None:
    text = kafka_dump(bench, (".log",))
    seen = re.findall(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* isvalid: true", text)
    ours = rows(bench, ".log")
    assert len(files(bench, ".log")) > 2
    assert [tuple(map(int, row)) for row in seen] == [
        (row["base_offset"], row["last_offset"], row["count"]) for row in ours
    ]
    assert all(row["valid"] for row in ours)


def test_records(bench: Workbench) -> None:
    text = kafka_dump(bench, (".log",), "--deep-iteration", "--print-data-log")
    seen = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)]
    ours = [row for row in rows(bench, ".log", records=True) if row["row"] == "record"]
    assert seen == [row["offset"] for row in ours]
    assert text.count("endTxnMarker: ABORT") == sum(row.get("control") == "ABORT" for row in ours) > 0


def test_indexes_match_the_log(bench: Workbench) -> None:
    kafka_dump(bench, (".index",), "--verify-index-only")
    text = kafka_dump(bench, (".index", ".timeindex"), "--index-sanity-check")
    assert text.count("passed sanity check") == len(files(bench, ".index", ".timeindex"))
    text = kafka_dump(bench, (".index", ".timeindex"))
    offsets = re.findall(r"^offset: (\d+) position: (\d+)", text, re.MULTILINE)
    ours = rows(bench, ".index")
    assert len(ours) > 10
    assert [tuple(map(int, row)) for row in offsets] == [(row["offset"], row["position"]) for row in ours]
    times = re.findall(r"^timestamp: (\d+) offset: (\d+)", text, re.MULTILINE)
    assert [tuple(map(int, row)) for row in times] == [
        (row["timestamp"], row["offset"]) for row in rows(bench, ".timeindex")
    ]


def test_aborted_transactions(bench: Workbench) -> None:
    text = kafka_dump(bench, (".txnindex",))
    seen = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", text)
    ours = rows(bench, ".txnindex")
    assert len(ours) >= 9
    assert [tuple(map(int, row)) for row in seen] == [
        (row["producer_id"], row["first_offset"], row["last_offset"], row["last_stable_offset"])
        for row in ours
    ]


def test_producer_snapshots(bench: Workbench) -> None:
    text = kafka_dump(bench, (".snapshot",))
    seen = re.findall(
        r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+) "
        r"lastTimestamp: (\d+) firstSequence: (-?\d+) lastSequence: (-?\d+) lastOffset: (-?\d+)",
        text,
    )
    ours = rows(bench, ".snapshot")
    assert len(ours) > 4
    assert [
        (int(row[0]), int(row[1]), int(row[2]), int(row[4]), int(row[6]), int(row[7])) for row in seen
    ] == [
        (
            row["producer_id"],
            row["producer_epoch"],
            row["coordinator_epoch"],
            row["last_timestamp"],
            row["last_sequence"],
            row["last_offset"],
        )
        for row in ours
        if row["last_offset"] != -1
    ]
