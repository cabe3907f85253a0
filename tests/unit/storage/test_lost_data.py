"""Lost data: its description, its log line and its removal."""

from __future__ import annotations

import logging

import pytest

from ruslo.model.topics import TopicPartition
from ruslo.storage.lost_data import LossKind, LostData, LostDataList

TP = TopicPartition("t", 0)
TAIL = LostData(TP, LossKind.TAIL, "a segment is gone", 411, 750)


def test_an_entry_describes_the_loss() -> None:
    assert str(TAIL) == "t-0: the tail of the log is lost, offsets 411 to 749 (a segment is gone)"
    assert str(LostData(TP, LossKind.REPLICA, "gone")) == "t-0: the whole of the log is lost (gone)"
    assert str(LostData(TP, LossKind.RECORDS, "x", 3, 4)) == "t-0: records are lost, offsets 3 to 3 (x)"


def test_a_loss_is_logged_once_at_error(caplog: pytest.LogCaptureFixture) -> None:
    lost = LostDataList()
    lost.add(TAIL)
    lost.add(TAIL)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, f"Lost data: {TAIL}")
    ]
    assert list(lost) == [TAIL]


def test_losses_of_a_partition_are_removed() -> None:
    lost = LostDataList()
    other = LostData(TP, LossKind.RECORDS, "bad checksum", 7, 9)
    lost.add(TAIL)
    lost.add(other)
    lost.forget(TP, LossKind.TAIL)
    assert list(lost) == [other]
    lost.forget(TP)
    assert len(lost) == 0
