"""InitProducerId: every row of the state table."""

from __future__ import annotations

import pytest

from ruslo.machines.txns.init_producer import check
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from tests.support.txns.txn_bench import FIRST_PRODUCER_ID, TxnBench
from tests.support.txns.txn_client import ORDERS_0, TWO_PHASE_INIT, TxnClient, init_request

IDLE = (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
FENCED_BY_VERSION = [
    (3, ErrorCode.INVALID_PRODUCER_EPOCH),
    (4, ErrorCode.PRODUCER_FENCED),
    (5, ErrorCode.PRODUCER_FENCED),
]


# -- the request itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 0)])
@pytest.mark.parametrize("transactional_id", ["t", None])
def test_producer_id_and_epoch_are_given_together(
    producer_id: int, epoch: int, transactional_id: str | None
) -> None:
    request = init_request(transactional_id, producer_id, epoch, timeout_ms=0)
    assert check(request, TxnSettings()) is ErrorCode.INVALID_REQUEST


def test_empty_id() -> None:
    assert check(init_request(""), TxnSettings()) is ErrorCode.INVALID_REQUEST


def test_idempotent_producer_ignores_producer_id_and_timeout() -> None:
    assert check(init_request(None, 5, 3, timeout_ms=-9), TxnSettings()) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (-1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (1, ErrorCode.NONE),
        (900_000, ErrorCode.NONE),
        (900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_timeout(timeout_ms: int, code: ErrorCode) -> None:
    assert TxnClient(TxnBench()).init(timeout_ms=timeout_ms) is code


# -- two-phase commit (KIP-939) ------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [0, 1, 900_001])
def test_two_phase_commit_has_no_timeout(timeout_ms: int) -> None:
    request = init_request(timeout_ms=timeout_ms)
    request.enable2_pc = True
    bench = TxnBench(TxnSettings(two_phase_commit=True))
    assert bench.call(request, InitProducerIdResponse, TWO_PHASE_INIT).error_code == ErrorCode.NONE
    value = bench.records()[-1].value
    assert value is not None
    assert value.transaction_timeout_ms == 2**31 - 1


@pytest.mark.parametrize(
    ("transactional_id", "enabled", "keep", "code"),
    [
        ("t", False, False, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("t", False, True, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("t", True, True, ErrorCode.UNSUPPORTED_VERSION),
        ("", False, True, ErrorCode.INVALID_REQUEST),
        (None, False, True, ErrorCode.NONE),
    ],
)
def test_two_phase_commit_that_is_refused(
    transactional_id: str | None, enabled: bool, keep: bool, code: ErrorCode
) -> None:
    request = init_request(transactional_id, timeout_ms=0)
    request.enable2_pc, request.keep_prepared_txn = True, keep
    assert check(request, TxnSettings(two_phase_commit=enabled)) is code


def test_keeping_a_prepared_transaction_is_not_supported() -> None:
    request = init_request(timeout_ms=0)
    request.keep_prepared_txn = True
    assert check(request, TxnSettings()) is ErrorCode.UNSUPPORTED_VERSION


def test_rejected_request_allocates_no_producer_id() -> None:
    response = TxnBench().call(init_request(timeout_ms=0), InitProducerIdResponse)
    assert (response.producer_id, response.producer_epoch) == (-1, -1)


# -- unknown ids ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("producer_and_epoch", [(-1, -1), (77, 5)])
def test_unknown_id_gets_a_new_producer_id(producer_and_epoch: tuple[int, int]) -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    assert client.init(*producer_and_epoch) is ErrorCode.NONE
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID, 0)
    assert bench.states() == ["Empty@0"]


def test_response_waits_for_the_commit() -> None:
    bench = TxnBench()
    bench.commits_immediately = False
    token = bench.send(init_request())
    assert bench.is_parked(token)
    bench.commit()
    assert bench.response(token, InitProducerIdResponse).error_code == ErrorCode.NONE


def test_failed_producer_id_allocation_creates_no_transaction() -> None:
    bench = TxnBench()
    bench.ids_available = False
    token = bench.send(init_request())
    assert bench.is_parked(token)
    bench.allocate_id(None)
    response = bench.response(token, InitProducerIdResponse)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.log == []
    assert not bench.shard.state.transactions


def test_two_concurrent_requests_do_not_both_create_the_id() -> None:
    bench = TxnBench()
    bench.ids_available = bench.commits_immediately = False
    first, second = bench.send(init_request()), bench.send(init_request())
    bench.allocate_id(41)
    bench.allocate_id(42)
    assert bench.response(second, InitProducerIdResponse).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    bench.commit()
    response = bench.response(first, InitProducerIdResponse)
    assert (response.producer_id, response.producer_epoch) == (41, 0)


def test_id_that_failed_to_append_does_not_exist() -> None:
    bench = TxnBench()
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    client = TxnClient(bench)
    assert client.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not bench.shard.state.transactions
    assert client.init() is ErrorCode.NONE
    assert client.epoch == 0


# -- known ids -----------------------------------------------------------------------------------------------


def test_pending_transition() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    bench.commits_immediately = False
    bench.send(init_request())
    response = bench.call(init_request(), InitProducerIdResponse)
    assert response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("state", [TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT])
@pytest.mark.parametrize("producer_and_epoch", [(-1, -1), (500, 3), (9, 9)])
def test_prepared_end(state: TxnState, producer_and_epoch: tuple[int, int]) -> None:
    bench = TxnBench()
    bench.leaders_respond = False
    bench.start_at(state, 3, partitions=[ORDERS_0])
    assert TxnClient(bench).init(*producer_and_epoch) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("state", [*IDLE, TxnState.ONGOING])
@pytest.mark.parametrize(("version", "code"), FENCED_BY_VERSION)
def test_another_producer_id_is_fenced(state: TxnState, version: int, code: ErrorCode) -> None:
    bench = TxnBench()
    bench.start_at(state, 3)
    response = bench.call(init_request("t", 501, 3), InitProducerIdResponse, version)
    assert response.error_code == code


def test_ongoing_transaction_is_aborted_and_the_retry_bumps_the_epoch() -> None:
    bench = TxnBench()
    old, new = TxnClient(bench), TxnClient(bench)
    old.init()
    old.add(ORDERS_0)
    assert new.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.states()[-2:] == ["PrepareAbort@1", "CompleteAbort@1"]
    assert new.init() is ErrorCode.NONE
    assert new.epoch == 2
    assert old.add(ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert old.commit() is ErrorCode.PRODUCER_FENCED


def test_ongoing_transaction_of_the_same_producer_is_aborted() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    assert client.init(client.producer_id, client.epoch) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert client.init(client.producer_id, client.epoch) is ErrorCode.NONE
    assert client.epoch == 1, "the producer may continue with the epoch of its own abort"


@pytest.mark.parametrize("state", IDLE)
def test_idle_without_an_epoch(state: TxnState) -> None:
    bench = TxnBench()
    bench.start_at(state, 3)
    client = TxnClient(bench)
    assert client.init() is ErrorCode.NONE
    assert (client.producer_id, client.epoch) == (500, 4)
    assert bench.shard.state.transactions["t"].last_epoch == -1


@pytest.mark.parametrize("state", IDLE)
def test_idle_with_the_current_epoch_and_its_retry(state: TxnState) -> None:
    bench = TxnBench()
    bench.start_at(state, 3)
    client = TxnClient(bench)
    assert client.init(500, 3) is ErrorCode.NONE
    assert client.epoch == 4
    assert client.init(500, 3) is ErrorCode.NONE
    assert client.epoch == 4, "the first response was lost"
    assert bench.states()[-2:] == ["Empty@4", "Empty@4"]
    assert client.init(500, 3) is ErrorCode.NONE, "the request may be repeated"


def test_retry_is_unknown_to_a_new_coordinator() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.init(client.producer_id, 0)
    bench.reload()
    assert client.init(client.producer_id, 0) is ErrorCode.PRODUCER_FENCED


def test_retry_of_a_producer_that_was_fenced_in_between() -> None:
    bench = TxnBench()
    zombie, new = TxnClient(bench), TxnClient(bench)
    zombie.init()
    zombie.init(zombie.producer_id, 0)
    new.init()
    assert zombie.init(zombie.producer_id, 1) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("epoch", [0, 2, 4])
@pytest.mark.parametrize(("version", "code"), FENCED_BY_VERSION)
def test_idle_with_another_epoch(state: TxnState, epoch: int, version: int, code: ErrorCode) -> None:
    bench = TxnBench()
    bench.start_at(state, 3)
    assert bench.call(init_request("t", 500, epoch), InitProducerIdResponse, version).error_code == code


def test_last_epoch_of_a_version_2_end_counts_as_the_previous_epoch() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    client.commit()
    assert client.epoch == 1
    assert client.init(client.producer_id, 0) is ErrorCode.NONE
    assert client.epoch == 1


def test_timeout_is_that_of_the_latest_producer() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init(timeout_ms=60_000)
    client.init(timeout_ms=1_000)
    assert bench.metadata().timeout_ms == 1_000


# -- exhausted epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("epoch", [32_766, 32_767])
def test_exhausted_without_an_epoch(state: TxnState, epoch: int) -> None:
    bench = TxnBench()
    bench.start_at(state, epoch)
    client = TxnClient(bench)
    assert client.init() is ErrorCode.NONE
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID, 0)
    value = bench.records()[-1].value
    assert value is not None
    assert (value.previous_producer_id, value.next_producer_id) == (500, -1)
    assert bench.states()[-1] == "Empty@0"


def test_exhausted_with_the_current_epoch_and_its_retry() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.COMPLETE_COMMIT, 32_766)
    client = TxnClient(bench)
    assert client.init(500, 32_766) is ErrorCode.NONE
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID, 0)
    assert client.init(500, 32_766) is ErrorCode.NONE, "with the previous producer id"
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID, 0)
    assert client.init(500, 32_765) is ErrorCode.PRODUCER_FENCED


def test_exhausted_with_another_epoch() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.EMPTY, 32_766)
    assert TxnClient(bench).init(500, 32_765) is ErrorCode.PRODUCER_FENCED


def test_exhausted_and_failed_producer_id_allocation() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.EMPTY, 32_766)
    bench.ids_available = False
    token = bench.send(init_request())
    bench.allocate_id(None)
    response = bench.response(token, InitProducerIdResponse)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.states() == ["Empty@32766"]


def test_last_but_one_epoch_is_not_exhausted() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.EMPTY, 32_765)
    client = TxnClient(bench)
    client.init()
    assert (client.producer_id, client.epoch) == (500, 32_766)


def test_fencing_abort_of_an_exhausted_producer_rotates_the_producer_id() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.ONGOING, 32_766, partitions=[ORDERS_0])
    client = TxnClient(bench)
    assert client.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.states()[-2:] == ["PrepareAbort@32767", "CompleteAbort@0"]
    assert [(each.producer_id, each.epoch) for each in bench.markers] == [(500, 32_767)]
    assert client.init() is ErrorCode.NONE
    assert (client.producer_id, client.epoch) == (FIRST_PRODUCER_ID, 1)
