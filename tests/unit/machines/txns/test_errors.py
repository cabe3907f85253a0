"""Error responses."""

from __future__ import annotations

import pytest

from ruslo.machines.txns.errors import append_error, error_response
from ruslo.model.errors import ErrorCode
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from tests.support.txns.txn_client import ORDERS_0, ORDERS_1, add_request, codes_of, end_request, init_request

CODE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (init_request(), 5),
        (AddOffsetsToTxnRequest(), 4),
        (end_request(1, 0, commit=True), 5),
        (end_request(1, 0, commit=True), 0),
        (ListTransactionsRequest(), 2),
    ],
)
def test_one_code_for_all(request_: Message, version: int) -> None:
    response = error_response(request_, version, CODE)
    assert getattr(response, "error_code") == CODE  # noqa: B009
    assert type(response).from_bytes(response.to_bytes(version), version) == response


@pytest.mark.parametrize("version", range(6))
def test_error_response_has_every_partition(version: int) -> None:
    response = error_response(add_request(version, 1, 0, ORDERS_0, ORDERS_1), version, CODE)
    assert isinstance(response, AddPartitionsToTxnResponse)
    assert codes_of(response) == {ORDERS_0: CODE, ORDERS_1: CODE}


def test_error_response_has_every_description() -> None:
    response = error_response(DescribeTransactionsRequest(transactional_ids=["a", "b"]), 0, CODE)
    assert isinstance(response, DescribeTransactionsResponse)
    errors = [(each.transactional_id, each.error_code) for each in response.transaction_states]
    assert errors == [("a", CODE), ("b", CODE)]


def test_error_response_of_init_has_no_producer() -> None:
    response = error_response(init_request(), 5, CODE)
    assert isinstance(response, InitProducerIdResponse)
    assert (response.producer_id, response.producer_epoch) == (-1, -1)


def test_requests_of_other_coordinators() -> None:
    with pytest.raises(TypeError, match="ApiVersionsRequest"):
        error_response(ApiVersionsRequest(), 0, CODE)


def test_unexpected_append_errors_are_server_errors() -> None:
    assert append_error(ErrorCode.RECORD_LIST_TOO_LARGE) is ErrorCode.UNKNOWN_SERVER_ERROR
