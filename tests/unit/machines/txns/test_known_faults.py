"""Known faults of transactions, each as one test: what prevents it, or for which clients it remains.

Partition leaders prevent some of them (verification of Produce, the epoch check of markers). These tests
cover the coordinator's half.
"""

from __future__ import annotations

import pytest

from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from tests.support.txns.txn_bench import FIRST_PRODUCER_ID, TxnBench
from tests.support.txns.txn_client import ORDERS_0, ORDERS_1, TxnClient, end_request


def second_transaction(*, tv2: bool) -> tuple[TxnBench, TxnClient]:
    """The first transaction was committed, and the second one is open."""
    bench = TxnBench()
    client = TxnClient(bench, tv2=tv2)
    client.init()
    client.add(ORDERS_0)
    client.commit()
    client.add(ORDERS_0)
    return bench, client


@pytest.mark.parametrize("commit", [True, False])
def test_late_end_txn_cannot_end_the_next_transaction(commit: bool) -> None:
    """KAFKA-17754: the epoch was bumped, so the late request carries the previous one."""
    bench, client = second_transaction(tv2=True)
    late = bench.call(end_request(client.producer_id, 0, commit=commit), EndTxnResponse)
    assert late.error_code == ErrorCode.PRODUCER_FENCED
    assert bench.state() is TxnState.ONGOING
    assert client.commit() is ErrorCode.NONE


def test_late_end_txn_of_version_1_still_ends_the_next_transaction() -> None:
    """KAFKA-17754 cannot be prevented without an epoch bump, so clients of version 1 still have it."""
    bench, client = second_transaction(tv2=False)
    assert client.abort() is ErrorCode.NONE
    assert bench.states()[-1] == "CompleteAbort@0"


def test_late_end_txn_of_a_fenced_version_1_producer_does_nothing() -> None:
    bench, old = second_transaction(tv2=False)
    new = TxnClient(bench, tv2=False)
    new.init()
    new.init()
    new.add(ORDERS_0)
    assert old.commit() is ErrorCode.PRODUCER_FENCED
    assert bench.state() is TxnState.ONGOING


def test_late_add_partitions_cannot_open_a_transaction() -> None:
    """A delayed AddPartitionsToTxn carries the epoch of the transaction it belonged to."""
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    client.commit()
    assert client.add(ORDERS_1, epoch=0) is ErrorCode.PRODUCER_FENCED
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_late_add_partitions_of_version_1_opens_an_empty_transaction() -> None:
    """The transaction ends by its timeout and blocks only readers of its partitions."""
    bench = TxnBench()
    client = TxnClient(bench, tv2=False)
    client.init()
    client.add(ORDERS_0)
    client.commit()
    assert client.add(ORDERS_1) is ErrorCode.NONE
    assert bench.state() is TxnState.ONGOING
    bench.advance(60_001)
    assert bench.state() is TxnState.COMPLETE_ABORT


def test_late_produce_of_a_version_1_client_is_not_verified() -> None:
    """KAFKA-14402: a write after its marker would hang forever, so the partition leader verifies it first."""
    bench = TxnBench()
    client = TxnClient(bench, tv2=False)
    client.init()
    client.add(ORDERS_0)
    client.abort()
    assert client.verify(ORDERS_0) is ErrorCode.TRANSACTION_ABORTABLE


def test_late_produce_of_a_version_2_client_is_not_added() -> None:
    """KAFKA-14402, version 2: the leader's AddPartitionsToTxn carries an old epoch."""
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    client.abort()
    assert client.add(ORDERS_0, epoch=0) is ErrorCode.PRODUCER_FENCED


def test_late_marker_is_older_than_the_next_transaction() -> None:
    """KAFKA-19446: a marker carries the epoch of the next transaction, never a later one."""
    bench, client = second_transaction(tv2=True)
    client.commit()
    assert [each.epoch for each in bench.markers] == [1, 2]
    assert {each.transaction_version for each in bench.markers} == {2}


def test_retried_marker_equals_the_first_one() -> None:
    """KAFKA-19999: a leader that already has the marker recognizes the retry."""
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.leaders_respond = False
    client.commit()
    first = bench.sends[0].markers
    bench.lose_markers()
    bench.advance(100)
    assert bench.sends[0].markers == first
    bench.respond_to_markers()
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_fencing_abort_bumps_the_epoch_once() -> None:
    """KAFKA-20090: the fence and the abort that follows it share one bump, for both client versions."""
    for tv2 in (True, False):
        bench = TxnBench()
        client = TxnClient(bench, tv2=tv2)
        client.init()
        client.add(ORDERS_0)
        TxnClient(bench).init()
        assert bench.states()[-2:] == ["PrepareAbort@1", "CompleteAbort@1"]
        assert [each.epoch for each in bench.markers] == [1]


def test_repeated_end_txn_bumps_the_epoch_once() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    for _ in range(3):
        assert client.commit(epoch=0) is ErrorCode.NONE
        assert client.epoch == 1
    assert bench.states() == ["Empty@0", "Ongoing@0", "PrepareCommit@1", "CompleteCommit@1"]


@pytest.mark.parametrize("reload", [False, True])
def test_overflow_between_decision_and_markers(reload: bool) -> None:
    """KAFKA-18660, KAFKA-19367: the markers carry the last epoch, and the log has the next producer id."""
    bench = TxnBench()
    bench.start_at(TxnState.ONGOING, 32_766, partitions=[ORDERS_0])
    client = TxnClient(bench)
    client.producer_id, client.epoch = 500, 32_766
    bench.leaders_respond = False
    assert client.commit() is ErrorCode.NONE
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID, 0)
    assert client.add(ORDERS_1) is ErrorCode.CONCURRENT_TRANSACTIONS, (
        "the old producer id is not complete yet"
    )
    if reload:
        bench.reload()
    bench.respond_to_markers()
    assert [(each.producer_id, each.epoch) for each in bench.markers] == [(500, 32_767)]
    bench.leaders_respond = True
    assert client.add(ORDERS_1) is ErrorCode.NONE
    assert client.commit() is ErrorCode.NONE
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID, 1)


def test_zombie_after_overflow() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.ONGOING, 32_766, partitions=[ORDERS_0])
    new = TxnClient(bench)
    assert new.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert new.init() is ErrorCode.NONE
    zombie = TxnClient(bench)
    zombie.producer_id, zombie.epoch = 500, 32_766
    assert zombie.add(ORDERS_0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert zombie.commit() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert zombie.init(500, 32_766) is ErrorCode.PRODUCER_FENCED


def test_no_marker_is_sent_before_the_commit() -> None:
    """A marker that is sent before its decision is committed could contradict the next coordinator."""
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.commits_immediately = False
    token = client.send_end(commit=True)
    assert bench.sends == []
    assert bench.markers == []
    assert bench.is_parked(token)
    bench.log.pop()
    bench.commits_immediately = True
    bench.reload()
    assert bench.state() is TxnState.ONGOING
    assert client.abort() is ErrorCode.NONE
    assert [each.commits for each in bench.markers] == [False]


def test_version_2_zombie_does_not_get_the_epoch_of_its_successor() -> None:
    """The zombie's own EndTxn would have bumped the epoch to the same value that its successor now has."""
    bench = TxnBench()
    zombie = TxnClient(bench, tv2=True)
    zombie.init()
    successor = TxnClient(bench, tv2=False)
    successor.init()
    assert successor.epoch == zombie.epoch + 1
    successor.add(ORDERS_0)
    successor.abort()
    assert zombie.abort() is ErrorCode.PRODUCER_FENCED
    assert zombie.epoch < successor.epoch
