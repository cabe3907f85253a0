"""The golden bytes of the markers were compared with Kafka's own (tests/interop/test_records_java.py)."""

from __future__ import annotations

import struct

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.records import batch as layout
from ruslo.records.batch import read_header
from ruslo.records.control import (
    ControlRecord,
    ControlType,
    control_batch,
    control_key,
    end_txn_batch,
    read_control_type,
    read_coordinator_epoch,
)
from ruslo.records.reader import check_crc, read_records
from tests.unit.records.examples import NOW


@pytest.mark.parametrize(("commit", "crc", "kind"), [(True, "f5f27e9a", "0001"), (False, "01cca8d2", "0000")])
def test_the_marker_s_78_bytes(commit: bool, crc: str, kind: str) -> None:
    marker = end_txn_batch(
        commit=commit,
        producer_id=4711,
        producer_epoch=3,
        coordinator_epoch=12,
        timestamp=NOW,
        base_offset=55,
        leader_epoch=7,
    )
    assert len(marker) == 78
    assert marker == bytes.fromhex(
        f"0000000000000037 00000042 00000007 02 {crc} 0030 00000000 0000018bcfe56800 0000018bcfe56800"
        f"0000000000001267 0003 ffffffff 00000001 20 00 00 00 08 0000 {kind} 0c 0000 0000000c 00"
    )


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_round_trips(commit: bool) -> None:
    marker = end_txn_batch(
        commit=commit, producer_id=1, producer_epoch=2, coordinator_epoch=2**31 - 1, timestamp=NOW
    )
    (record,) = read_records(marker)
    assert read_control_type(record.key) == (ControlType.COMMIT if commit else ControlType.ABORT)
    assert read_coordinator_epoch(record.value) == 2**31 - 1


def test_a_batch_of_kraft_records() -> None:
    records = [
        ControlRecord(ControlType.SNAPSHOT_HEADER, struct.pack(">hqb", 0, NOW, 0)),
        ControlRecord(ControlType.KRAFT_VERSION, struct.pack(">hhb", 0, 1, 0)),
        ControlRecord(ControlType.SNAPSHOT_FOOTER, b"\x00\x00\x00"),
    ]
    batch = control_batch(records, timestamp=NOW, base_offset=5, leader_epoch=2)
    header = read_header(batch)
    assert check_crc(batch)
    assert (header.attributes, header.base_sequence, header.producer_id) == (layout.CONTROL, -1, -1)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (5, 7, 2)
    assert [(read_control_type(record.key), record.value) for record in read_records(batch)] == records


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_invalid_keys(key: bytes | None) -> None:
    with pytest.raises(ProtocolError, match="key of a control record"):
        read_control_type(key)


def test_unknown_control_types() -> None:
    assert read_control_type(control_key(99)) == 99
    assert read_control_type(b"\x00\x05\x00\x01and more") == 1


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x01"])
def test_invalid_markers(value: bytes | None) -> None:
    with pytest.raises(ProtocolError, match="transaction marker"):
        read_coordinator_epoch(value)
