"""EndTxn: the state table of version 5, the responses of older versions, and exhausted epochs."""

from __future__ import annotations

import pytest

from ruslo.machines.txns.end_txn import V2_TABLE
from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from tests.support.txns.txn_bench import FIRST_PRODUCER_ID, TxnBench
from tests.support.txns.txn_client import ORDERS_0, ORDERS_1, TxnClient, end_request, init_request

EPOCH = 3
NONE, FENCED, INVALID = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
PREPARES = "prepares"
REPEATS = "repeats"

# State: the result of an abort and a commit at the current epoch, then of an abort and a commit at the last
# one.
ROWS: dict[TxnState, tuple[str | ErrorCode, ...]] = {
    TxnState.ONGOING: (PREPARES, PREPARES, FENCED, FENCED),
    TxnState.EMPTY: (PREPARES, INVALID, FENCED, FENCED),
    TxnState.COMPLETE_ABORT: (PREPARES, INVALID, REPEATS, INVALID),
    TxnState.COMPLETE_COMMIT: (PREPARES, INVALID, INVALID, REPEATS),
}
CASES = [
    (state, epoch, commit, row[column])
    for state, row in ROWS.items()
    for column, (epoch, commit) in enumerate(
        [(EPOCH, False), (EPOCH, True), (EPOCH - 1, False), (EPOCH - 1, True)]
    )
]


def loaded(state: TxnState, epoch: int = EPOCH, *, producer_id: int = 500) -> TxnBench:
    bench = TxnBench()
    partitions = [ORDERS_0] if state is TxnState.ONGOING else []
    bench.start_at(state, epoch, producer_id=producer_id, partitions=partitions)
    return bench


def end(
    bench: TxnBench, epoch: int, *, commit: bool, version: int = 5, producer_id: int = 500
) -> EndTxnResponse:
    return bench.call(end_request(producer_id, epoch, commit=commit), EndTxnResponse, version)


# -- version 5 -----------------------------------------------------------------------------------------------


def test_table_has_a_row_for_every_reachable_state() -> None:
    assert {state for state, _, _ in V2_TABLE} == set(ROWS)
    assert len(V2_TABLE) == len(CASES)


@pytest.mark.parametrize(("state", "epoch", "commit", "result"), CASES)
def test_version_5(state: TxnState, epoch: int, commit: bool, result: str | ErrorCode) -> None:
    bench = loaded(state)
    before = len(bench.log)
    response = end(bench, epoch, commit=commit)
    if result == PREPARES:
        assert response.error_code == NONE
        assert (response.producer_id, response.producer_epoch) == (500, EPOCH + 1)
        outcome = "Commit" if commit else "Abort"
        assert bench.states()[before:] == [f"Prepare{outcome}@4", f"Complete{outcome}@4"]
        markers = [(each.partition, each.epoch, each.commits) for each in bench.markers]
        assert markers == ([(ORDERS_0, EPOCH + 1, commit)] if state is TxnState.ONGOING else [])
    elif result == REPEATS:
        assert response.error_code == NONE
        assert (response.producer_id, response.producer_epoch) == (500, EPOCH)
        assert len(bench.log) == before
    else:
        assert response.error_code == result
        assert (response.producer_id, response.producer_epoch) == (-1, -1)
        assert len(bench.log) == before


@pytest.mark.parametrize("state", ROWS)
@pytest.mark.parametrize("epoch", [0, 1, 4, 5])
@pytest.mark.parametrize("commit", [True, False])
def test_version_5_at_another_epoch(state: TxnState, epoch: int, commit: bool) -> None:
    assert end(loaded(state), epoch, commit=commit).error_code == FENCED


@pytest.mark.parametrize("state", ROWS)
def test_version_5_of_another_producer(state: TxnState) -> None:
    response = end(loaded(state), 99, commit=True, producer_id=501)
    assert response.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_version_5_checks_the_pending_transition_first() -> None:
    bench = loaded(TxnState.EMPTY)
    bench.commits_immediately = False
    bench.send(init_request())
    response = end(bench, 99, commit=True, producer_id=501)
    assert response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("version", [0, 4, 5])
def test_unknown_and_empty_ids(version: int) -> None:
    bench = TxnBench()
    assert end(bench, 0, commit=True, version=version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    nameless = end_request(500, 0, commit=True, transactional_id="")
    assert bench.call(nameless, EndTxnResponse, version).error_code == ErrorCode.INVALID_REQUEST


def test_response_is_sent_when_prepare_is_committed() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0, ORDERS_1)
    bench.commits_immediately = bench.leaders_respond = False
    token = client.send_end(commit=True)
    assert bench.is_parked(token), "the end is not decided before its record is committed"
    assert bench.sends == []
    assert client.commit() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.commit()
    assert client.ended(token) is NONE
    assert client.epoch == 1
    assert bench.state() is TxnState.PREPARE_COMMIT
    assert len(bench.sends) == 2
    assert client.commit() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert client.add(ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert client.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.respond_to_markers()
    bench.respond_to_markers()
    assert bench.state() is TxnState.PREPARE_COMMIT
    assert client.add(ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS, "the completion is not committed yet"
    bench.commit()
    assert bench.state() is TxnState.COMPLETE_COMMIT
    bench.commits_immediately = True
    assert client.add(ORDERS_0) is NONE


def test_decision_that_failed_to_append_does_not_count() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert client.commit() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.state() is TxnState.ONGOING
    assert bench.markers == []
    assert client.abort() is NONE, "the client may still abort"
    assert [each.commits for each in bench.markers] == [False]


# -- up to version 4 -----------------------------------------------------------------------------------------

# State: the result of a commit and of an abort at the current epoch.
V1_ROWS: dict[TxnState, tuple[str | ErrorCode, str | ErrorCode]] = {
    TxnState.ONGOING: (PREPARES, PREPARES),
    TxnState.EMPTY: (INVALID, INVALID),
    TxnState.COMPLETE_COMMIT: (NONE, INVALID),
    TxnState.COMPLETE_ABORT: (INVALID, NONE),
}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("state", V1_ROWS)
@pytest.mark.parametrize("commit", [True, False])
def test_older_versions(version: int, state: TxnState, commit: bool) -> None:
    bench = loaded(state)
    before = len(bench.log)
    code = end(bench, EPOCH, commit=commit, version=version).error_code
    result = V1_ROWS[state][0 if commit else 1]
    if result == PREPARES:
        outcome = "Commit" if commit else "Abort"
        assert code == NONE
        assert bench.states()[before:] == [f"Prepare{outcome}@3", f"Complete{outcome}@3"]
        assert [(each.epoch, each.transaction_version) for each in bench.markers] == [(EPOCH, 0)]
    else:
        assert code == result
        assert len(bench.log) == before


@pytest.mark.parametrize(
    ("version", "code"),
    [(0, ErrorCode.INVALID_PRODUCER_EPOCH), (1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, FENCED), (4, FENCED)],
)
@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_older_versions_at_another_epoch(version: int, code: ErrorCode, epoch: int) -> None:
    assert end(loaded(TxnState.ONGOING), epoch, commit=True, version=version).error_code == code


def test_older_versions_check_producer_and_epoch_before_pending() -> None:
    bench = TxnBench()
    bench.leaders_respond = False
    bench.start_at(TxnState.PREPARE_COMMIT, EPOCH, partitions=[ORDERS_0])
    other = end(bench, EPOCH, commit=True, version=4, producer_id=501)
    assert other.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end(bench, EPOCH - 1, commit=True, version=4).error_code == FENCED
    for commit in (True, False):
        response = end(bench, EPOCH, commit=commit, version=4)
        assert response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_clients_of_both_versions() -> None:
    bench = TxnBench()
    old, new = TxnClient(bench, "old", tv2=False), TxnClient(bench, "new")
    for client in (old, new):
        client.init()
        client.add(ORDERS_0)
    assert old.commit() is NONE
    assert new.commit() is NONE
    assert bench.states("old") == ["Empty@0", "Ongoing@0", "PrepareCommit@0", "CompleteCommit@0"]
    assert bench.states("new") == ["Empty@0", "Ongoing@0", "PrepareCommit@1", "CompleteCommit@1"]
    assert [(each.epoch, each.transaction_version) for each in bench.markers] == [(0, 0), (1, 2)]


# -- exhausted epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_last_epoch_goes_to_the_markers_and_the_client_gets_a_new_producer_id(commit: bool) -> None:
    bench = loaded(TxnState.ONGOING, 32_766)
    bench.leaders_respond = False
    response = end(bench, 32_766, commit=commit)
    assert (response.producer_id, response.producer_epoch) == (FIRST_PRODUCER_ID, 0)
    prepared = bench.records()[-1].value
    assert prepared is not None
    assert (prepared.producer_id, prepared.producer_epoch) == (500, 32_767)
    assert (prepared.previous_producer_id, prepared.next_producer_id) == (500, FIRST_PRODUCER_ID)
    bench.respond_to_markers()
    assert [(each.producer_id, each.epoch) for each in bench.markers] == [(500, 32_767)]
    complete = bench.records()[-1].value
    assert complete is not None
    assert (complete.producer_id, complete.producer_epoch) == (FIRST_PRODUCER_ID, 0)
    assert (complete.previous_producer_id, complete.next_producer_id) == (500, -1)

    retried = end(bench, 32_766, commit=commit)
    assert retried.error_code == NONE
    assert (retried.producer_id, retried.producer_epoch) == (FIRST_PRODUCER_ID, 0)
    assert end(bench, 32_766, commit=not commit).error_code == INVALID
    assert end(bench, 32_765, commit=commit).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_rotation_survives_a_new_coordinator() -> None:
    bench = loaded(TxnState.ONGOING, 32_766)
    bench.leaders_respond = False
    end(bench, 32_766, commit=True)
    bench.leaders_respond = True
    bench.reload()
    assert bench.states()[-1] == "CompleteCommit@0"
    retried = end(bench, 32_766, commit=True)
    assert (retried.producer_id, retried.producer_epoch) == (FIRST_PRODUCER_ID, 0)


def test_retry_fails_once_the_next_transaction_has_begun() -> None:
    bench = loaded(TxnState.ONGOING, 32_766)
    client = TxnClient(bench)
    client.producer_id, client.epoch = 500, 32_766
    client.commit()
    client.add(ORDERS_0)
    assert end(bench, 32_766, commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_empty_abort_at_the_last_epoch_rotates_the_producer_id() -> None:
    bench = loaded(TxnState.EMPTY, 32_766)
    response = end(bench, 32_766, commit=False)
    assert (response.producer_id, response.producer_epoch) == (FIRST_PRODUCER_ID, 0)
    assert bench.states()[-2:] == ["PrepareAbort@32767", "CompleteAbort@0"]


def test_failed_producer_id_allocation_changes_nothing() -> None:
    bench = loaded(TxnState.ONGOING, 32_766)
    bench.ids_available = False
    token = bench.send(end_request(500, 32_766, commit=True))
    bench.allocate_id(None)
    assert bench.response(token, EndTxnResponse).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.states() == ["Ongoing@32766"]
    token = bench.send(end_request(500, 32_766, commit=True))
    bench.allocate_id(77)
    assert bench.response(token, EndTxnResponse).producer_id == 77


def test_state_is_checked_again_with_the_new_producer_id() -> None:
    bench = loaded(TxnState.ONGOING, 32_766)
    bench.ids_available = False
    commit = bench.send(end_request(500, 32_766, commit=True))
    abort = bench.send(end_request(500, 32_766, commit=False))
    bench.allocate_id(77)
    bench.allocate_id(78)
    assert bench.response(commit, EndTxnResponse).producer_id == 77
    assert bench.response(abort, EndTxnResponse).error_code == INVALID
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_older_versions_do_not_rotate_the_producer_id() -> None:
    bench = loaded(TxnState.ONGOING, 32_766)
    assert end(bench, 32_766, commit=True, version=4).error_code == NONE
    assert bench.states()[-1] == "CompleteCommit@32766"
