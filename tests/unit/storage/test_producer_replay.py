"""Transaction markers that are replayed from a log."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.records.batch import CONTROL, HEADER, TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.control import ControlType, control_key, end_txn_batch
from ruslo.records.record import Record
from ruslo.storage.producer_replay import _decode_marker, read_marker
from ruslo.storage.producer_state import TransactionMarker
from tests.unit.storage.workbench import Workbench

NOW = 1_700_000_000_000


def control(key: bytes, value: bytes) -> bytearray:
    attributes = CONTROL | TRANSACTIONAL
    return build_batch([Record(0, NOW, key, value)], producer_id=7, producer_epoch=3, attributes=attributes)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("coordinator_epoch", [0, 1, 2**31 - 1])
def test_markers_of_brokers(commit: bool, coordinator_epoch: int) -> None:
    batch = end_txn_batch(
        commit=commit,
        producer_id=7,
        producer_epoch=32_767,
        coordinator_epoch=coordinator_epoch,
        timestamp=NOW,
    )
    expected = TransactionMarker(7, 32_767, coordinator_epoch, commit, NOW)
    assert read_marker(batch) == expected
    assert _decode_marker(HEADER.unpack_from(batch), batch) == expected


@pytest.mark.parametrize(
    "value",
    [struct.pack(">hi", 1, 9), struct.pack(">hib", 1, 9, 0), struct.pack(">hi", 0, 9) + bytes(80)],
    ids=["same size", "one more field", "many more"],
)
def test_markers_of_a_newer_version(value: bytes) -> None:
    batch = control(control_key(ControlType.COMMIT), value)
    assert read_marker(batch) == TransactionMarker(7, 3, 9, True, NOW)


def test_other_batches_are_not_markers() -> None:
    value = struct.pack(">hi", 0, 9)
    assert read_marker(control(control_key(ControlType.LEADER_CHANGE), value)) is None
    plain = build_batch([Record(0, NOW, control_key(1), value)], producer_id=7, attributes=TRANSACTIONAL)
    assert read_marker(plain) is None


def test_damaged_markers() -> None:
    with pytest.raises(ProtocolError, match="version -1"):
        read_marker(control(struct.pack(">hh", -1, 1), struct.pack(">hi", 0, 9)))
    with pytest.raises(ProtocolError, match="at least 6 bytes"):
        read_marker(control(control_key(ControlType.COMMIT), b"\x00\x00"))


@pytest.fixture
def ended(tmp_path: Path) -> Workbench:
    """A transaction at offsets 1 and 2, its uncommitted marker at 3, and a snapshot after it."""
    bench = Workbench(tmp_path)
    bench.append_many(1)
    bench.append_transactional(1, 0, 0, count=2)
    bench.end_transaction(1, 1, commit=True)
    bench.log.roll(bench.log.end_offset, NOW)
    bench.append_many(2)
    bench.log.advance_high_watermark(3)
    assert bench.log.last_stable_offset == 1
    return bench


@pytest.mark.parametrize("clean", [True, False])
def test_an_uncommitted_marker_holds_the_last_stable_offset_after_a_restart(
    ended: Workbench, clean: bool
) -> None:
    log = ended.reopen(clean=clean, recovery_point=4)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4


def test_an_uncommitted_marker_holds_the_last_stable_offset_after_a_truncation(ended: Workbench) -> None:
    log = ended.log
    assert log.truncate_to(5)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5


def test_a_log_with_an_unknown_high_watermark_is_not_read(ended: Workbench) -> None:
    ended.log.high_watermark = 0
    log = ended.reopen()
    assert not log.producers.has_transactions
