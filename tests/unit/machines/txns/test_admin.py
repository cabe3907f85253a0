"""ListTransactions and DescribeTransactions."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse
from tests.support.txns.txn_bench import FIRST_PRODUCER_ID, TxnBench
from tests.support.txns.txn_client import ORDERS_0, ORDERS_1, PARCELS_0, TxnClient, init_request


@pytest.fixture
def bench() -> TxnBench:
    """``idle`` never began a transaction, ``done`` committed one, ``open`` has had one for five seconds."""
    bench = TxnBench()
    for name in ("idle", "done", "open"):
        TxnClient(bench, name).init()
    done = TxnClient(bench, "done")
    done.init()
    done.add(ORDERS_0)
    done.commit()
    opened = TxnClient(bench, "open")
    opened.init()
    opened.add(ORDERS_1, ORDERS_0, PARCELS_0)
    bench.advance(5_000)
    return bench


def listed(
    bench: TxnBench,
    *,
    states: list[str] | None = None,
    producers: list[int] | None = None,
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[str]:
    request = ListTransactionsRequest(
        state_filters=states or [],
        producer_id_filters=producers or [],
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    response = bench.call(request, ListTransactionsResponse)
    assert response.error_code == ErrorCode.NONE
    return [each.transactional_id for each in response.transaction_states]


def described(bench: TxnBench, transactional_id: str) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (state,) = bench.call(request, DescribeTransactionsResponse).transaction_states
    assert state.transactional_id == transactional_id
    return state


def test_list_all(bench: TxnBench) -> None:
    response = bench.call(ListTransactionsRequest(), ListTransactionsResponse, 0)
    assert [(each.transactional_id, each.transaction_state) for each in response.transaction_states] == [
        ("idle", "Empty"),
        ("done", "CompleteCommit"),
        ("open", "Ongoing"),
    ]
    assert response.transaction_states[0].producer_id == FIRST_PRODUCER_ID


def test_list_by_state(bench: TxnBench) -> None:
    assert listed(bench, states=["Ongoing", "Empty"]) == ["idle", "open"]
    assert listed(bench, states=["PrepareCommit"]) == []


def test_list_by_unknown_states(bench: TxnBench) -> None:
    request = ListTransactionsRequest(state_filters=["ongoing", "Ongoing", "Nonsense"])
    response = bench.call(request, ListTransactionsResponse)
    assert response.unknown_state_filters == ["ongoing", "Nonsense"]
    assert [each.transactional_id for each in response.transaction_states] == ["open"]
    assert listed(bench, states=["ongoing"]) == []


def test_list_by_producer(bench: TxnBench) -> None:
    assert listed(bench, producers=[FIRST_PRODUCER_ID + 2, 9]) == ["open"]


def test_list_by_duration(bench: TxnBench) -> None:
    assert listed(bench, duration_ms=4_999) == ["idle", "done", "open"], (
        "an empty transaction has no start time"
    )
    assert listed(bench, duration_ms=5_000) == ["idle"]
    assert listed(bench, duration_ms=0, states=["Ongoing"]) == ["open"]


def test_list_by_pattern(bench: TxnBench) -> None:
    assert listed(bench, pattern="") == ["idle", "done", "open"]
    assert listed(bench, pattern="d.*") == ["done"]
    assert listed(bench, pattern="on") == [], "the pattern must match the whole id"


def test_list_with_an_invalid_pattern(bench: TxnBench) -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    response = bench.call(request, ListTransactionsResponse)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_describe_an_open_transaction(bench: TxnBench) -> None:
    state = described(bench, "open")
    assert state.error_code == ErrorCode.NONE
    assert state.transaction_state == "Ongoing"
    assert state.transaction_timeout_ms == 60_000
    assert state.transaction_start_time_ms == bench.wall_ms - 5_000
    assert (state.producer_id, state.producer_epoch) == (FIRST_PRODUCER_ID + 2, 1)
    assert [(each.topic, each.partitions) for each in state.topics] == [("orders", [0, 1]), ("parcels", [0])]


def test_describe_an_idle_id(bench: TxnBench) -> None:
    state = described(bench, "idle")
    assert (state.transaction_state, state.transaction_start_time_ms, state.topics) == ("Empty", -1, [])


def test_describe_an_unknown_id(bench: TxnBench) -> None:
    assert described(bench, "unknown").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_uncommitted_state_is_not_shown(bench: TxnBench) -> None:
    bench.commits_immediately = False
    bench.send(init_request("new"))
    assert "new" not in listed(bench)
    assert described(bench, "new").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
