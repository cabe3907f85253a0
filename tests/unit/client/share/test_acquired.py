from __future__ import annotations

import pytest

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.client.share.acquired import Acquired, checked_ranges, decode
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.errors import ProtocolError
from ruslo.model.ids import random_uuid
from ruslo.records.batch import CONTROL
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

PARTITION = SharePartitionId("orders", random_uuid(), 0)


def batch(base_offset: int, count: int, attributes: int = 0) -> bytearray:
    records = [Record(at, 1_000, None, b"v%d" % (base_offset + at)) for at in range(count)]
    return build_batch(records, base_offset=base_offset, attributes=attributes)


def acquired(records: bytes | bytearray, *ranges: tuple[int, int, int]) -> Acquired:
    return Acquired(PARTITION, 1, [AcquiredRange(*each) for each in ranges], records, 30_000, 1_000)


def test_only_acquired_records_are_decoded_each_with_its_delivery_count() -> None:
    found = decode(acquired(batch(0, 5) + batch(5, 5), (1, 2, 1), (6, 6, 3)))
    assert [(each.record.offset, each.record.value, each.delivery_count) for each in found.records] == [
        (1, b"v1", 1),
        (2, b"v2", 1),
        (6, b"v6", 3),
    ]
    assert found.problems == {}


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    found = decode(acquired(batch(0, 2) + batch(3, 1, CONTROL) + batch(4, 1), (0, 4, 1)))
    assert [each.record.offset for each in found.records] == [0, 1, 4]
    assert found.problems == dict.fromkeys((2, 3), AcknowledgeType.GAP)


def test_a_damaged_batch_is_rejected_and_the_others_are_delivered() -> None:
    damaged = batch(0, 2)
    damaged[-2] ^= 1
    found = decode(acquired(damaged + batch(2, 1), (0, 2, 1)))
    assert [each.record.offset for each in found.records] == [2]
    assert found.problems == dict.fromkeys((0, 1), AcknowledgeType.REJECT)
    assert "CRC" in str(found.damage)


def test_a_batch_that_was_cut_off_is_not_decoded() -> None:
    found = decode(acquired(batch(0, 2) + batch(2, 1)[:-3], (0, 1, 1)))
    assert [each.record.offset for each in found.records] == [0, 1]


@pytest.mark.parametrize("ranges", [[(0, 5), (5, 6)], [(3, 2)], [(-1, 2)], [(0, 10**12)]])
def test_ranges_that_no_broker_can_acquire_are_refused(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(ProtocolError, match="invalid offsets of orders-0"):
        checked_ranges((AcquiredRange(first, last, 1) for first, last in ranges), PARTITION)
