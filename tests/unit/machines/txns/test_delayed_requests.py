"""Requests of version 1 clients that arrive before the markers of their last transaction are written."""

from __future__ import annotations

import pytest

from ruslo.machines.txns.delayed_requests import MAX_DELAY_MS
from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from tests.support.txns.txn_bench import TxnBench
from tests.support.txns.txn_client import (
    ORDERS_0,
    ORDERS_1,
    PARCELS_0,
    V1_ADD,
    TxnClient,
    add_request,
    codes_of,
)


def ended(*, commit: bool = True) -> TxnClient:
    """The client knows that its transaction has ended, but its partitions have no marker yet."""
    client = TxnClient(TxnBench(), tv2=False)
    client.init()
    client.add(ORDERS_0, PARCELS_0)
    client.bench.leaders_respond = False
    token = client.send_end(commit=commit)
    assert client.bench.response(token, EndTxnResponse).error_code == ErrorCode.NONE
    return client


def send_add(client: TxnClient, epoch: int | None = None) -> int:
    epoch = client.epoch if epoch is None else epoch
    return client.bench.send(add_request(V1_ADD, client.producer_id, epoch, ORDERS_1), V1_ADD)


def code_of(client: TxnClient, token: int) -> ErrorCode:
    return codes_of(client.bench.response(token, AddPartitionsToTxnResponse))[ORDERS_1]


def write_markers(bench: TxnBench) -> None:
    while bench.sends:
        bench.respond_to_markers()


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_transaction_begins_when_the_last_marker_is_written(commit: bool) -> None:
    client = ended(commit=commit)
    bench = client.bench
    token = send_add(client)
    assert bench.is_parked(token)
    bench.respond_to_markers()
    assert bench.is_parked(token), "another partition has no marker yet"
    write_markers(bench)
    assert code_of(client, token) is ErrorCode.NONE
    assert bench.state() is TxnState.ONGOING
    assert bench.metadata().partitions == {ORDERS_1}
    end = "Commit" if commit else "Abort"
    assert bench.states()[-3:] == [f"Prepare{end}@0", f"Complete{end}@0", "Ongoing@0"]


def test_request_waits_until_the_completion_is_committed() -> None:
    client = ended()
    bench = client.bench
    token = send_add(client)
    bench.commits_immediately = False
    write_markers(bench)
    assert bench.is_parked(token)
    bench.commit()
    assert bench.is_parked(token), "the record of the next transaction is not committed yet"
    bench.commit()
    assert code_of(client, token) is ErrorCode.NONE


def test_offsets_wait_too() -> None:
    client = ended()
    bench = client.bench
    request = AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=client.producer_id, producer_epoch=client.epoch, group_id="g"
    )
    token = bench.send(request, 3)
    assert bench.is_parked(token)
    write_markers(bench)
    assert bench.response(token, AddOffsetsToTxnResponse).error_code == ErrorCode.NONE
    assert bench.state() is TxnState.ONGOING


def test_wait_is_limited() -> None:
    client = ended()
    bench = client.bench
    first = send_add(client)
    bench.advance(MAX_DELAY_MS - 1)
    second = send_add(client)
    assert bench.is_parked(first)
    bench.advance(1)
    assert code_of(client, first) is code_of(client, second) is ErrorCode.CONCURRENT_TRANSACTIONS
    write_markers(bench)
    assert bench.state() is TxnState.COMPLETE_COMMIT, "a rejected request has no later effect"
    assert client.add(ORDERS_1) is ErrorCode.NONE


def test_second_wait_has_its_full_time() -> None:
    client = ended()
    bench = client.bench
    first = send_add(client)
    bench.advance(MAX_DELAY_MS // 2)
    write_markers(bench)
    assert code_of(client, first) is ErrorCode.NONE
    client.send_end(commit=True)
    second = send_add(client)
    bench.advance(MAX_DELAY_MS - 1)
    assert bench.is_parked(second)
    write_markers(bench)
    assert code_of(client, second) is ErrorCode.NONE


def test_the_first_delayed_request_continues() -> None:
    client = ended()
    bench = client.bench
    first, second = send_add(client), send_add(client)
    write_markers(bench)
    assert code_of(client, first) is ErrorCode.NONE
    assert code_of(client, second) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.state() is TxnState.ONGOING


def test_another_epoch_is_rejected_at_once() -> None:
    client = ended()
    assert code_of(client, send_add(client, epoch=client.epoch + 1)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_delayed_requests_fail_when_the_partition_moves() -> None:
    client = ended()
    bench = client.bench
    token = send_add(client)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    write_markers(bench)
    assert bench.is_parked(token), "the completion failed to append"
    bench.reload()
    assert code_of(client, token) is ErrorCode.NOT_COORDINATOR


def test_append_of_a_delayed_request_may_fail() -> None:
    client = ended()
    bench = client.bench
    token = send_add(client)
    bench.commits_immediately = False
    write_markers(bench)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.commit()
    assert code_of(client, token) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.state() is TxnState.COMPLETE_COMMIT
