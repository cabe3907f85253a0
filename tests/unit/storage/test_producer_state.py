"""The rules of producer state, row by row."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import HEADER, TRANSACTIONAL, HeaderFields
from ruslo.storage.producer_state import ProducerStates, TransactionMarker
from tests.unit.storage.workbench import NOW, batch

MAX_SEQUENCE = 2**31 - 1


def header(
    sequence: int, *, epoch: int = 0, count: int = 1, transactional: bool = False, timestamp: int = NOW
) -> HeaderFields:
    data = batch(
        count,
        producer_id=7,
        producer_epoch=epoch,
        sequence=sequence,
        timestamp=timestamp,
        attributes=TRANSACTIONAL if transactional else 0,
    )
    fields: HeaderFields = HEADER.unpack_from(data)
    return fields


def marker(epoch: int, *, coordinator_epoch: int = 0, commits: bool = True) -> TransactionMarker:
    return TransactionMarker(7, epoch, coordinator_epoch, commits, NOW)


class Producers:
    """Producer state and the offsets of the batches."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end_offset = 0

    def add(self, fields: HeaderFields) -> int:
        base = self.end_offset
        self.states.append_data(fields, base)
        self.end_offset = base + fields[6] + 1
        return base

    def rejection(self, fields: HeaderFields, *, check_sequence: bool = True, v2: bool = False) -> ErrorCode:
        try:
            duplicate = self.states.check(fields, check_sequence=check_sequence, transaction_v2=v2)
        except KafkaError as error:
            return error.code
        assert duplicate is None
        return ErrorCode.NONE


@pytest.fixture
def producers() -> Producers:
    """Seven batches of two records at epoch 1, with sequences 0 to 13."""
    made = Producers()
    for sequence in range(0, 14, 2):
        made.add(header(sequence, epoch=1, count=2))
    return made


class TestSequences:
    def test_next_in_sequence(self, producers: Producers) -> None:
        assert producers.rejection(header(14, epoch=1)) is ErrorCode.NONE

    @pytest.mark.parametrize("sequence", [4, 6, 8, 10, 12])
    def test_each_of_the_last_five_is_a_duplicate(self, producers: Producers, sequence: int) -> None:
        found = producers.states.check(header(sequence, epoch=1, count=2))
        assert found is not None
        assert (found.first_offset, found.last_offset) == (sequence, sequence + 1)
        assert found.timestamp == NOW

    @pytest.mark.parametrize(
        ("sequence", "count"),
        [
            (2, 2),  # an older duplicate
            (15, 1),  # a gap
            (12, 1),  # a part of the last batch
            (12, 3),  # more than the last batch
            (13, 2),  # overlapping its end
            (10, 4),  # two batches in one
        ],
    )
    def test_other_sequences_are_out_of_order(self, producers: Producers, sequence: int, count: int) -> None:
        assert (
            producers.rejection(header(sequence, epoch=1, count=count))
            is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )

    def test_an_old_epoch_is_rejected_even_for_duplicates(self, producers: Producers) -> None:
        assert producers.rejection(header(12, epoch=0, count=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert producers.rejection(header(14, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_new_epoch_starts_at_zero_and_drops_old_batches(self, producers: Producers) -> None:
        assert producers.rejection(header(14, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producers.rejection(header(0, epoch=2)) is ErrorCode.NONE
        producers.add(header(0, epoch=2))
        assert len(producers.states.entries[7].batches) == 1
        assert producers.rejection(header(12, epoch=1, count=2)) is ErrorCode.INVALID_PRODUCER_EPOCH

    @pytest.mark.parametrize("sequence", [0, 5, MAX_SEQUENCE])
    def test_an_unknown_producer_may_start_at_any_sequence(self, sequence: int) -> None:
        assert Producers().rejection(header(sequence)) is ErrorCode.NONE

    def test_an_unknown_transactional_producer_of_version_two_starts_at_zero(self) -> None:
        producers = Producers()
        assert (
            producers.rejection(header(5, transactional=True), v2=True)
            is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        assert producers.rejection(header(0, transactional=True), v2=True) is ErrorCode.NONE
        assert producers.rejection(header(5, transactional=True)) is ErrorCode.NONE

    def test_the_sequence_wraps_to_zero(self) -> None:
        producers = Producers()
        producers.add(header(MAX_SEQUENCE))
        assert producers.rejection(header(0)) is ErrorCode.NONE

    def test_a_batch_may_span_the_wrap(self) -> None:
        producers = Producers()
        spanning = header(MAX_SEQUENCE - 1, count=4)
        producers.add(spanning)
        assert producers.states.entries[7].last_sequence == 1
        assert producers.states.check(spanning) is not None
        assert producers.rejection(header(2)) is ErrorCode.NONE

    def test_coordinators_skip_the_sequence_rules_but_not_the_epoch(self, producers: Producers) -> None:
        assert producers.rejection(header(0, epoch=1), check_sequence=False) is ErrorCode.NONE
        assert (
            producers.rejection(header(0, epoch=0), check_sequence=False) is ErrorCode.INVALID_PRODUCER_EPOCH
        )


class TestTransactions:
    def test_a_plain_batch_in_an_open_transaction(self) -> None:
        producers = Producers()
        producers.add(header(0, transactional=True))
        assert producers.rejection(header(1)) is ErrorCode.INVALID_TXN_STATE
        assert producers.rejection(header(1, transactional=True)) is ErrorCode.NONE

    def test_a_marker_of_the_same_epoch_keeps_the_sequence(self) -> None:
        producers = Producers()
        producers.add(header(0, transactional=True))
        producers.states.append_marker(marker(0), 1)
        assert producers.rejection(header(1, transactional=True)) is ErrorCode.NONE

    def test_a_marker_of_the_next_epoch_resets_the_sequence(self) -> None:
        producers = Producers()
        producers.add(header(0, transactional=True))
        producers.states.append_marker(marker(1), 1)
        assert producers.rejection(header(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producers.rejection(header(0, epoch=1, transactional=True), v2=True) is ErrorCode.NONE
        assert producers.rejection(header(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH

    @pytest.mark.parametrize(
        ("epoch", "version", "is_open", "code"),
        [
            (4, 2, True, ErrorCode.INVALID_PRODUCER_EPOCH),
            (5, 2, True, ErrorCode.INVALID_PRODUCER_EPOCH),  # Late: the data already has this epoch.
            (6, 2, True, ErrorCode.NONE),
            (5, 2, False, ErrorCode.NONE),  # A retried marker.
            (5, 1, True, ErrorCode.NONE),
            (4, 1, True, ErrorCode.INVALID_PRODUCER_EPOCH),
            (4, 1, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        ],
    )
    def test_epochs_of_markers(self, epoch: int, version: int, is_open: bool, code: ErrorCode) -> None:
        producers = Producers()
        producers.add(header(0, epoch=5, transactional=is_open))
        response = ErrorCode.NONE
        try:
            producers.states.check_marker(marker(epoch), version)
        except KafkaError as error:
            response = error.code
        assert response is code

    def test_a_marker_of_an_older_coordinator(self) -> None:
        producers = Producers()
        producers.states.append_marker(marker(0, coordinator_epoch=4), 0)
        with pytest.raises(KafkaError) as caught:
            producers.states.check_marker(marker(1, coordinator_epoch=3), 2)
        assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        producers.states.check_marker(marker(1, coordinator_epoch=4), 2)

    def test_an_abort_with_data_is_indexed(self) -> None:
        producers = Producers()
        producers.add(header(0, transactional=True, count=3))
        aborted = producers.states.append_marker(marker(1, commits=False), 3)
        assert aborted == (7, 0, 3, 4)

    def test_an_abort_without_data_and_a_commit_are_not_indexed(self) -> None:
        producers = Producers()
        assert producers.states.append_marker(marker(1, commits=False), 0) is None
        producers.add(header(0, epoch=1, transactional=True))
        assert producers.states.append_marker(marker(2, commits=True), 2) is None

    def test_the_first_unstable_offset(self) -> None:
        producers = Producers()
        states = producers.states
        producers.add(header(0, transactional=True))
        assert states.first_unstable_offset(1) == 0
        states.append_marker(marker(1), 1)
        # The transaction is complete, but its marker is not below the high watermark.
        assert states.first_unstable_offset(1) == 0
        assert states.has_transactions
        assert states.first_unstable_offset(2) is None
        assert not states.has_transactions


class TestExpiry:
    def test_inactive_producers_expire(self) -> None:
        producers = Producers()
        producers.add(header(0, timestamp=NOW - 1000))
        assert producers.states.expire(NOW, 1001) == 0
        assert producers.states.expire(NOW, 1000) == 1
        assert len(producers.states) == 0

    def test_producers_with_an_open_transaction_do_not_expire(self) -> None:
        producers = Producers()
        producers.add(header(0, transactional=True, timestamp=NOW - 1000))
        assert producers.states.expire(NOW, 10) == 0


class TestGuards:
    """KIP-890: a batch that would start a transaction is checked with its verification guard."""

    def test_the_first_batch_removes_the_guard(self) -> None:
        producers = Producers()
        guard = producers.states.guard(7, 0, 0, NOW)
        assert producers.states.guard(7, 0, 0, NOW) is guard
        assert producers.states.check(header(0, transactional=True), guard=guard) is None
        producers.add(header(0, transactional=True))
        assert producers.states.has_open_transaction(7, 0)
        assert not producers.states.has_open_transaction(7, 1)
        assert producers.states.guard(7, 1, 0, NOW) is not guard
        # For a second batch with this guard the transaction is open.
        assert producers.states.check(header(1, transactional=True), guard=guard) is None

    def test_a_marker_removes_the_guard(self) -> None:
        producers = Producers()
        guard = producers.states.guard(7, 0, 0, NOW)
        producers.states.append_marker(marker(0), 0)
        with pytest.raises(KafkaError) as caught:
            producers.states.check(header(0, transactional=True), guard=guard)
        assert caught.value.code is ErrorCode.INVALID_TXN_STATE
        with pytest.raises(KafkaError) as caught:
            producers.states.check_epoch_and_guard(7, 0, guard)
        assert caught.value.code is ErrorCode.INVALID_TXN_STATE

    def test_a_duplicate_in_the_open_transaction_is_detected(self) -> None:
        producers = Producers()
        producers.add(header(0, transactional=True))
        earlier = producers.states.check(header(0, transactional=True))
        assert earlier is not None
        assert earlier.first_offset == 0

    def test_sequences_of_an_ended_transaction_cannot_be_reused(self) -> None:
        producers = Producers()
        producers.add(header(0, transactional=True))
        producers.states.append_marker(marker(0), 1)
        assert producers.rejection(header(0, transactional=True)) is ErrorCode.UNKNOWN_PRODUCER_ID
        # The same holds while the next transaction is open.
        producers.add(header(1, transactional=True))
        assert producers.rejection(header(0, transactional=True)) is ErrorCode.UNKNOWN_PRODUCER_ID

    def test_no_batch_overtakes_a_waiting_one(self) -> None:
        producers = Producers()
        states = producers.states
        guard = states.guard(7, 0, 0, NOW)
        states.guard(7, 0, 5, NOW)
        with pytest.raises(KafkaError) as caught:
            states.check(header(5, transactional=True), guard=guard)
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert states.check(header(0, transactional=True), guard=guard) is None
        # A newer epoch has its own lowest sequence.
        states.guard(7, 1, 3, NOW)
        assert guard.lowest_sequence == 3

    def test_an_old_epoch_is_rejected_with_any_guard(self) -> None:
        producers = Producers()
        producers.states.append_marker(marker(4), 0)
        guard = producers.states.guard(7, 3, 0, NOW)
        with pytest.raises(KafkaError) as caught:
            producers.states.check_epoch_and_guard(7, 3, guard)
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        producers.states.check_epoch_and_guard(7, 4, producers.states.guard(7, 4, 0, NOW))

    def test_guards_expire(self) -> None:
        producers = Producers()
        producers.states.guard(7, 0, 0, NOW)
        producers.states.expire(NOW + 999, 1000)
        assert producers.states.guards
        producers.states.expire(NOW + 1000, 1000)
        assert not producers.states.guards
