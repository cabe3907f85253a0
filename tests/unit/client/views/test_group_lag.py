"""Lag in logs with compaction, transactions, old producers and retention."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.client.views.group_lag import NOT_COMMITTED, PartitionLag, measure_lag
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages import fetch_response as fetched
from ruslo.protocol.messages import list_offsets_response as listed
from ruslo.protocol.messages.fetch_request import FetchRequest
from ruslo.protocol.messages.list_offsets_request import ListOffsetsRequest
from ruslo.records.batch import LOG_APPEND_TIME, MAX_TIMESTAMP_AT, read_header
from ruslo.records.builder import build_batch, rebuild_batch, set_crc
from ruslo.records.control import end_txn_batch
from ruslo.records.reader import read_records
from ruslo.records.record import Record
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

T0 = TopicPartition("t", 0)
START_MS = 1_700_000_000_000


def batch(base_offset: int, seconds: Sequence[float], attributes: int = 0) -> bytearray:
    """A batch whose records have timestamps this many seconds after START_MS."""
    records = [Record(n, START_MS + int(s * 1000), b"k", b"v") for n, s in enumerate(seconds)]
    return build_batch(records, base_offset=base_offset, attributes=attributes)


def timeless(base_offset: int) -> bytearray:
    return build_batch([Record(0, -1, None, b"v")], base_offset=base_offset)


def marker(offset: int, seconds: float) -> bytearray:
    return end_txn_batch(
        commit=True,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=START_MS + int(seconds * 1000),
        base_offset=offset,
    )


def with_gaps(whole: bytearray, kept: set[int]) -> bytearray:
    """A batch after compaction."""
    return rebuild_batch(read_header(whole), [r for r in read_records(whole) if r.offset in kept])


class Log:
    """A broker with one partition; every fetch returns a single batch, as with large batches."""

    def __init__(self, *batches: bytearray, end: int | None = None, start: int = 0) -> None:
        self.batches = batches
        self.start = start
        self.end = (
            end if end is not None else max((read_header(b).last_offset + 1 for b in batches), default=0)
        )
        self.fetches = 0
        self.code = 0

    def __call__(self, received: ReceivedRequest) -> ScriptedResponse:
        if isinstance(received.message, FetchRequest):
            self.fetches += 1
            offset = received.message.topics[0].partitions[0].fetch_offset
            code = self.code or (0 if self.start <= offset <= self.end else ErrorCode.OFFSET_OUT_OF_RANGE)
            found = next((b for b in self.batches if read_header(b).last_offset >= offset), b"")
            partition = fetched.PartitionData(partition_index=0, error_code=code, records=found)
            topic_id = received.message.topics[0].topic_id
            return fetched.FetchResponse(
                responses=[fetched.FetchableTopicResponse(topic_id=topic_id, partitions=[partition])]
            )
        if isinstance(received.message, ListOffsetsRequest):
            timestamp = received.message.topics[0].partitions[0].timestamp
            return self._listed(*self._offset(timestamp))
        raise KeyError

    def _offset(self, timestamp: int) -> tuple[int, int]:
        if timestamp == Spec.MAX_TIMESTAMP:
            return max(
                ((r.offset, r.timestamp) for b in self.batches for r in read_records(b)), key=lambda r: r[1]
            )
        return {Spec.EARLIEST: self.start, Spec.LATEST: self.end}[Spec(timestamp)], -1

    def _listed(self, offset: int, timestamp: int) -> ScriptedResponse:
        partition = listed.ListOffsetsPartitionResponse(partition_index=0, offset=offset, timestamp=timestamp)
        return listed.ListOffsetsResponse(
            topics=[listed.ListOffsetsTopicResponse(name="t", partitions=[partition])]
        )


def lag(log: Log, committed: int, *, in_seconds: bool = True) -> PartitionLag:
    async def run() -> PartitionLag:
        async with ScriptedBroker(log) as broker:
            broker.topics = {"t": 1}
            async with Admin(f"127.0.0.1:{broker.port}") as admin:
                return (await measure_lag(admin, {T0: committed}, in_seconds=in_seconds))[T0]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("committed", "expected"),
    [(0, (6, 6, 50.0)), (2, (6, 4, 30.0)), (3, (6, 3, 20.0)), (5, (6, 1, 0.0)), (6, (6, 0, 0.0))],
)
def test_records_and_seconds(committed: int, expected: tuple[int, int, float]) -> None:
    log = Log(batch(0, [0, 10, 20]), batch(3, [30, 40, 50]))
    assert lag(log, committed) == expected


def test_no_record_is_fetched_without_lag_or_without_seconds() -> None:
    log = Log(batch(0, [0, 10]))
    assert lag(log, 2) == (2, 0, 0.0)
    assert lag(log, 0, in_seconds=False) == (2, 2, None)
    assert lag(log, NOT_COMMITTED) == (2, None, None)
    assert log.fetches == 0


def test_an_empty_partition() -> None:
    assert lag(Log(), 0) == (0, 0, 0.0)


def test_a_commit_beyond_the_end_is_not_behind() -> None:
    assert lag(Log(batch(0, [0])), 7) == (1, 0, 0.0)


def test_compacted_records_are_skipped() -> None:
    log = Log(
        with_gaps(batch(0, [0, 10, 20]), {0}),
        with_gaps(batch(3, [30, 40]), set()),
        with_gaps(batch(5, [50, 60, 70]), {6}),
        end=10,
    )
    assert lag(log, 1) == (10, 9, 0.0)
    assert lag(log, 0) == (10, 10, 60.0)


def test_a_gap_at_the_end_beyond_the_search_limit() -> None:
    log = Log(batch(0, [0, 25]), end=1000)
    assert lag(log, 0) == (1000, 1000, 25.0)


def test_transaction_markers_are_not_records() -> None:
    log = Log(batch(0, [0, 10]), marker(2, 500), batch(3, [20]), marker(4, 1000))
    assert lag(log, 0).seconds == 20.0
    assert lag(log, 2).seconds == 0.0
    assert lag(log, 4) == (5, 1, 0.0)


def test_log_append_time_applies_to_the_batch() -> None:
    first, second = batch(0, [0, 1], LOG_APPEND_TIME), batch(2, [0, 1], LOG_APPEND_TIME)
    for late, stamped in ((5, first), (65, second)):
        stamped[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = (START_MS + late * 1000).to_bytes(8, "big")
        set_crc(stamped)
    assert lag(Log(first, second), 1) == (4, 3, 60.0)


def test_records_without_a_timestamp() -> None:
    assert lag(Log(timeless(0), timeless(1)), 0) == (2, 2, None)
    assert lag(Log(timeless(0), batch(1, [0])), 0) == (2, 2, None)
    assert lag(Log(batch(0, [0]), timeless(1)), 0) == (2, 2, None)


def test_timestamps_out_of_order_do_not_make_the_lag_negative() -> None:
    assert lag(Log(batch(0, [100]), batch(1, [0])), 0) == (2, 2, 0.0)


def test_deleted_records_count_but_have_no_time() -> None:
    log = Log(batch(5, [50, 60]), start=5)
    assert lag(log, 2) == (7, 5, 10.0)


def test_without_read_permission_the_time_is_unknown() -> None:
    log = Log(batch(0, [0, 10]))
    log.code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert lag(log, 0) == (2, 2, None)


def test_batches_of_an_unknown_format() -> None:
    old = batch(0, [0, 10])
    old[16] = 1
    assert lag(Log(old, end=2), 0) == (2, 2, None)


async def test_deleted_partitions_have_no_end_offset() -> None:
    log = Log(batch(0, [0]))
    deleted = TopicPartition("deleted", 0)
    async with ScriptedBroker(log) as broker:
        broker.topics = {"t": 1}
        async with Admin(f"127.0.0.1:{broker.port}") as admin:
            lags = await measure_lag(admin, {T0: 1, deleted: 3, TopicPartition("t", 9): 3})
        assert lags[deleted] == (None, None, None)
        assert lags[TopicPartition("t", 9)] == (None, None, None)
        assert lags[T0] == (1, 0, 0.0)
