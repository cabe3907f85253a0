"""Timeouts: late transactions are aborted, and unused transactional ids expire."""

from __future__ import annotations

import pytest

from ruslo.machines.machine import MAX_ITEMS_PER_EVENT, TimerFired
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from tests.support.txns.txn_bench import FIRST_PRODUCER_ID, Cluster, TxnBench
from tests.support.txns.txn_client import ORDERS_0, ORDERS_1, V1_ADD, TxnClient, add_request

TIMEOUT_MS = 60_000
RETRY_MS = 10_000
MAX_MESSAGE_BYTES = 1_048_588
"""The default max.message.bytes of a topic."""


def open_transaction(*, tv2: bool = True, settings: TxnSettings | None = None) -> tuple[TxnBench, TxnClient]:
    bench = TxnBench(settings)
    client = TxnClient(bench, tv2=tv2)
    client.init(timeout_ms=TIMEOUT_MS)
    bench.advance(5_000)
    client.add(ORDERS_0)
    return bench, client


# -- late transactions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tv2", [True, False])
def test_transaction_is_aborted_after_its_timeout(tv2: bool) -> None:
    bench, _ = open_transaction(tv2=tv2)
    bench.advance(TIMEOUT_MS)
    assert bench.state() is TxnState.ONGOING
    bench.advance(1)
    assert bench.states()[-2:] == ["PrepareAbort@1", "CompleteAbort@1"]
    (marker,) = bench.markers
    assert (marker.epoch, marker.commits, marker.transaction_version) == (1, False, 2)
    value = bench.records()[-2].value
    assert value is not None
    assert value.client_transaction_version == 2, "as version 2 even for a client of version 1"


def test_two_phase_commit_transaction_is_never_aborted() -> None:
    bench = TxnBench(TxnSettings(two_phase_commit=True))
    client = TxnClient(bench)
    client.init(timeout_ms=TIMEOUT_MS, two_phase_commit=True)
    client.add(ORDERS_0)
    bench.advance(30 * 86_400_000)
    assert bench.state() is TxnState.ONGOING
    client.commit()
    assert bench.state() is TxnState.COMPLETE_COMMIT
    client.init(timeout_ms=TIMEOUT_MS)
    client.add(ORDERS_0)
    bench.advance(TIMEOUT_MS + 1)
    assert bench.state() is TxnState.COMPLETE_ABORT, "the producer gave two-phase commit up"


def test_timeout_counts_from_the_first_partition() -> None:
    bench, client = open_transaction()
    bench.advance(30_000)
    client.add(ORDERS_1)
    bench.advance(30_001)
    assert bench.state() is TxnState.COMPLETE_ABORT


def test_every_transaction_has_its_own_timeout() -> None:
    bench, client = open_transaction()
    bench.advance(50_000)
    client.commit()
    bench.advance(50_000)
    client.add(ORDERS_0)
    bench.advance(TIMEOUT_MS)
    assert bench.state() is TxnState.ONGOING
    bench.advance(1)
    assert bench.state() is TxnState.COMPLETE_ABORT


def test_shorter_timeout_of_a_later_producer_counts() -> None:
    bench, client = open_transaction()
    client.commit()
    client.init(timeout_ms=1_000)
    client.add(ORDERS_0)
    bench.advance(1_001)
    assert bench.state() is TxnState.COMPLETE_ABORT


def test_version_2_client_after_its_transaction_timed_out() -> None:
    bench, client = open_transaction()
    bench.advance(TIMEOUT_MS + 1)
    assert client.add(ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert client.commit() is ErrorCode.INVALID_TXN_STATE
    size = len(bench.log)
    assert client.abort() is ErrorCode.NONE, "the transaction is already aborted"
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID, 1)
    assert len(bench.log) == size
    assert client.add(ORDERS_0) is ErrorCode.NONE


def test_version_2_client_initializes_again_after_the_timeout() -> None:
    bench, client = open_transaction()
    bench.advance(TIMEOUT_MS + 1)
    assert client.init(client.producer_id, 0) is ErrorCode.NONE
    assert client.epoch == 1


def test_version_1_client_after_its_transaction_timed_out() -> None:
    bench, client = open_transaction(tv2=False)
    bench.advance(TIMEOUT_MS + 1)
    assert client.commit() is ErrorCode.PRODUCER_FENCED
    assert client.abort() is ErrorCode.PRODUCER_FENCED


def test_abort_waits_for_a_pending_transition() -> None:
    bench, client = open_transaction()
    bench.commits_immediately = False
    bench.send(add_request(V1_ADD, client.producer_id, 0, ORDERS_1), V1_ADD)
    bench.advance(TIMEOUT_MS + 1)
    assert bench.states()[-1] == "Ongoing@0"
    bench.commit()
    bench.commits_immediately = True
    bench.advance(0)
    assert bench.state() is TxnState.COMPLETE_ABORT
    assert {each.partition for each in bench.markers} == {ORDERS_0, ORDERS_1}


def test_fence_that_failed_to_append_bumps_the_epoch_once() -> None:
    bench, client = open_transaction()
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(TIMEOUT_MS + 1)
    assert bench.state() is TxnState.ONGOING
    assert client.commit() is ErrorCode.PRODUCER_FENCED, "the producer is still fenced"
    assert client.add(ORDERS_1) is ErrorCode.PRODUCER_FENCED
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(RETRY_MS)
    assert bench.state() is TxnState.ONGOING
    bench.advance(RETRY_MS)
    assert bench.states()[-2:] == ["PrepareAbort@1", "CompleteAbort@1"]
    assert [each.epoch for each in bench.markers] == [1]


def test_init_whose_fence_failed_to_append_bumps_the_epoch_once() -> None:
    bench, _ = open_transaction()
    new = TxnClient(bench)
    bench.append_error = ErrorCode.REQUEST_TIMED_OUT
    assert new.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert new.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.states()[-1] == "CompleteAbort@1"
    new.init()
    assert new.epoch == 2


def test_last_epoch_rotates_once_a_producer_id_is_allocated() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.ONGOING, 32_766, partitions=[ORDERS_0])
    bench.ids_available = False
    bench.advance(TIMEOUT_MS + 1)
    bench.allocate_id(None)
    assert bench.state() is TxnState.ONGOING
    bench.advance(RETRY_MS)
    bench.allocate_id(77)
    assert bench.states()[-2:] == ["PrepareAbort@32767", "CompleteAbort@0"]
    assert bench.metadata().producer_id == 77
    assert [(each.producer_id, each.epoch) for each in bench.markers] == [(500, 32_767)]


def test_late_producer_id_is_not_used() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.ONGOING, 32_766, partitions=[ORDERS_0])
    bench.ids_available = False
    bench.advance(TIMEOUT_MS + 1)
    client = TxnClient(bench, tv2=False)
    client.producer_id, client.epoch = 500, 32_766
    assert client.commit() is ErrorCode.NONE
    bench.allocate_id(77)
    assert bench.states()[-1] == "CompleteCommit@32766"


def test_timeout_continues_under_a_new_coordinator() -> None:
    bench, _ = open_transaction()
    bench.advance(40_000)
    bench.reload()
    bench.advance(20_000)
    assert bench.state() is TxnState.ONGOING
    bench.advance(1)
    assert bench.state() is TxnState.COMPLETE_ABORT


@pytest.mark.parametrize("shift_ms", [-3_600_000, 3_600_000])
def test_wall_clock_adjustment_does_not_move_the_timeout(shift_ms: int) -> None:
    bench, client = open_transaction()
    bench.advance(20_000)
    bench.wall_shift_ms = shift_ms
    client.add(ORDERS_1)
    bench.advance(40_000)
    assert bench.state() is TxnState.ONGOING
    bench.advance(1)
    assert bench.state() is TxnState.COMPLETE_ABORT


def test_after_a_load_the_remaining_time_never_exceeds_the_timeout() -> None:
    bench, _ = open_transaction()
    bench.wall_shift_ms = -3_600_000
    bench.reload()
    bench.advance(TIMEOUT_MS + 1)
    assert bench.state() is TxnState.COMPLETE_ABORT


# -- unused ids ----------------------------------------------------------------------------------------------

EXPIRY = TxnSettings(id_expiration_ms=10_000_000, expiry_interval_ms=1_000_000)


def test_unused_id_expires() -> None:
    bench = TxnBench(EXPIRY)
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    client.commit()
    bench.advance(9_000_000)
    assert bench.state() is TxnState.COMPLETE_COMMIT
    bench.advance(1_000_000)
    assert bench.states()[-1] == "deleted"
    assert not bench.shard.state.transactions
    assert client.add(ORDERS_0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert client.commit() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert client.init(client.producer_id, client.epoch) is ErrorCode.NONE
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID + 1, 0)


def test_used_id_does_not_expire() -> None:
    bench = TxnBench(EXPIRY)
    client = TxnClient(bench)
    client.init()
    bench.advance(8_000_000)
    client.init()
    bench.advance(2_000_000)
    assert bench.state() is TxnState.EMPTY
    bench.advance(8_000_000)
    assert bench.states()[-1] == "deleted"


def test_open_and_pending_ids_do_not_expire() -> None:
    bench = TxnBench(TxnSettings(id_expiration_ms=1_000, expiry_interval_ms=1_000))
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.advance(30_000)
    assert bench.state() is TxnState.ONGOING
    bench.leaders_respond = False
    client.commit()
    bench.advance(30_000)
    assert bench.state() is TxnState.PREPARE_COMMIT


def test_tombstone_that_failed_to_append() -> None:
    bench = TxnBench(EXPIRY)
    client = TxnClient(bench)
    client.init()
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(10_000_000)
    assert client.init() is ErrorCode.NONE
    assert client.epoch == 1, "the id still exists"


def test_many_ids_expire_in_steps() -> None:
    bench = TxnBench(EXPIRY)
    for number in range(MAX_ITEMS_PER_EVENT + 3):
        TxnClient(bench, f"t{number}").init()
    before = len(bench.log)
    bench.advance(10_000_000)
    assert not bench.shard.state.transactions
    assert len(bench.log) == before + MAX_ITEMS_PER_EVENT + 3


def largest_batch(bench: TxnBench) -> int:
    """Fire all due timers; return the size of the largest batch of records."""
    largest = 0
    while (deadline_ms := bench.shard.deadline_ms()) is not None and deadline_ms <= bench.now_ms:
        before = len(bench.log)
        bench.commits_immediately = False
        bench.run(TimerFired())
        largest = max(largest, sum(len(key) + len(value or b"") for key, value in bench.log[before:]))
        bench.commits_immediately = True
        bench.commit()
    return largest


def test_ids_that_expire_together_fit_into_batches() -> None:
    bench = TxnBench(EXPIRY)
    for number in range(4 * MAX_ITEMS_PER_EVENT):
        TxnClient(bench, f"{number}-" + "t" * 30_000).init()
    bench.now_ms = 10_000_000
    assert largest_batch(bench) < MAX_MESSAGE_BYTES
    assert not bench.shard.state.transactions


def test_large_transactions_that_time_out_together_fit_into_batches() -> None:
    topics = [f"{number:03}-" + "o" * 240 for number in range(80)]
    bench = TxnBench(cluster=Cluster({topic: [1] for topic in topics}))
    partitions = [TopicPartition(topic, 0) for topic in topics]
    for number in range(MAX_ITEMS_PER_EVENT):
        client = TxnClient(bench, f"t{number}")
        client.init(timeout_ms=TIMEOUT_MS)
        client.add(*partitions)
    bench.now_ms = TIMEOUT_MS + 1
    assert largest_batch(bench) < MAX_MESSAGE_BYTES
    states = {each.metadata.state for each in bench.shard.state.transactions.values()}
    assert states == {TxnState.COMPLETE_ABORT}


def test_ends_that_failed_to_append_together_fit_into_batches() -> None:
    bench = TxnBench()
    bench.leaders_respond = False
    for number in range(60):
        client = TxnClient(bench, f"{number}-" + "t" * 30_000)
        client.init()
        client.add(ORDERS_0)
        client.commit()
    while bench.sends:
        bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        bench.respond_to_markers()
    bench.now_ms = bench.settings.retry_backoff_ms
    assert largest_batch(bench) < MAX_MESSAGE_BYTES
    states = {each.metadata.state for each in bench.shard.state.transactions.values()}
    assert states == {TxnState.COMPLETE_COMMIT}


def test_expired_ids_stay_deleted_after_a_load() -> None:
    bench = TxnBench(EXPIRY)
    TxnClient(bench).init()
    bench.advance(10_000_000)
    bench.reload()
    assert not bench.shard.state.transactions
