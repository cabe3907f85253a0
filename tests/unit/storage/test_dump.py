from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import StorageError
from ruslo.model.ids import uuid_to_text
from ruslo.storage.dump import Row, dump_file
from tests.unit.storage.workbench import NOW, TOPIC_ID, Workbench, batch


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    made = Workbench(tmp_path, LogConfig(index_interval_bytes=0))
    made.append(batch(2, producer_id=4, producer_epoch=1, sequence=7), leader_epoch=3)
    made.append_transactional(5, 0, 0)
    made.end_transaction(5, 1, commit=False, coordinator_epoch=6)
    made.log.close(NOW)
    return made


def rows(bench: Workbench, name: str, *, records: bool = False) -> list[Row]:
    return list(dump_file(f"{bench.path}/{name}", records=records))


LOG = "0" * 20 + ".log"


def test_batches(bench: Workbench) -> None:
    first, second, marker = rows(bench, LOG)
    size = len(batch(2, producer_id=4, producer_epoch=1, sequence=7))
    assert first["row"] == "batch"
    assert (first["base_offset"], first["last_offset"], first["count"]) == (0, 1, 2)
    assert (first["base_sequence"], first["last_sequence"]) == (7, 8)
    assert (first["position"], second["position"]) == (0, size)
    assert (first["leader_epoch"], first["codec"], first["valid"]) == (3, "none", True)
    assert (second["transactional"], marker["control"], marker["last_sequence"]) == (True, True, -1)


def test_records(bench: Workbench) -> None:
    found = [row for row in rows(bench, LOG, records=True) if row["row"] == "record"]
    assert [row["offset"] for row in found] == [0, 1, 2, 3]
    assert found[0]["value"] == b"v"
    assert found[3]["control"] == "ABORT"


def test_damaged_bytes_are_reported(bench: Workbench) -> None:
    path = Path(bench.path, LOG)
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data + b"torn")
    found = rows(bench, LOG)
    assert [row.get("valid") for row in found] == [False, True, True, None]
    assert found[-1] == {"row": "rest", "position": len(data), "size": 4}


def test_the_other_files(bench: Workbench) -> None:
    size = len(batch(2, producer_id=4, producer_epoch=1, sequence=7))
    assert rows(bench, "0" * 20 + ".index")[0] == {"row": "index", "offset": 2, "position": size}
    assert rows(bench, "0" * 20 + ".timeindex") == [{"row": "timeindex", "timestamp": NOW, "offset": 1}]
    assert rows(bench, "0" * 20 + ".txnindex") == [
        {
            "row": "txnindex",
            "producer_id": 5,
            "first_offset": 2,
            "last_offset": 3,
            "last_stable_offset": 4,
        }
    ]
    producers = rows(bench, f"{4:020d}.snapshot")
    assert [row["producer_id"] for row in producers] == [4, 5]
    assert (producers[0]["last_sequence"], producers[0]["last_offset"]) == (8, 1)
    assert (producers[1]["producer_epoch"], producers[1]["coordinator_epoch"]) == (1, 6)
    assert rows(bench, "leader-epoch-checkpoint") == [{"row": "epoch", "epoch": 3, "start_offset": 0}]
    assert rows(bench, "partition.metadata") == [{"row": "partition", "topic_id": uuid_to_text(TOPIC_ID)}]


def test_checkpoints_and_renamed_files(bench: Workbench) -> None:
    checkpoint = Path(bench.path, "replication-offset-checkpoint")
    checkpoint.write_bytes(b"0\n1\nt 3 9\n")
    assert list(dump_file(str(checkpoint))) == [{"row": "offset", "topic": "t", "partition": 3, "offset": 9}]
    Path(bench.path, LOG).rename(Path(bench.path, LOG + ".deleted"))
    assert len(rows(bench, LOG + ".deleted")) == 3


def test_other_files_raise_with_a_hint(bench: Workbench) -> None:
    with pytest.raises(StorageError, match=r"Name a \.log, \.index"):
        rows(bench, "notes.txt")
