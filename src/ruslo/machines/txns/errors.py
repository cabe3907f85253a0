"""Responses that contain only an error, in the schema of each request.

| situation                                              | code                         |
|--------------------------------------------------------|------------------------------|
| this node does not lead the partition, or cannot load  | NOT_COORDINATOR              |
| the partition is loading, or no producer id is left    | COORDINATOR_LOAD_IN_PROGRESS |
| the append failed, or was not committed in time        | see ``append_error``         |
"""

from __future__ import annotations

from ruslo.machines.machine import COORDINATOR_APPEND_ERRORS
from ruslo.machines.txns.add_partitions import partitions_of, response_of, transactions_of
from ruslo.machines.txns.metadata import NO_EPOCH, NO_PRODUCER_ID
from ruslo.model.errors import ErrorCode
from ruslo.protocol.message import Message
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from ruslo.protocol.messages.end_txn_request import EndTxnRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse

_APPEND_ERRORS = COORDINATOR_APPEND_ERRORS | {ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_COORDINATOR}


def append_error(code: ErrorCode) -> ErrorCode:
    """The error of a client whose records could not be appended, or not committed in time."""
    return _APPEND_ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def error_response(request: Message, api_version: int, code: ErrorCode) -> Message:
    """The response that contains only ``code``. Raises TypeError for a request of another coordinator."""
    match request:
        case InitProducerIdRequest():
            return InitProducerIdResponse(
                error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
            )
        case AddPartitionsToTxnRequest():
            codes = {
                each.transactional_id: dict.fromkeys(partitions_of(each.topics), code)
                for each in transactions_of(request, api_version)
            }
            return response_of(codes, api_version)
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(error_code=code)
        case EndTxnRequest():
            return EndTxnResponse(error_code=code)
        case ListTransactionsRequest():
            return ListTransactionsResponse(error_code=code)
        case DescribeTransactionsRequest():
            return DescribeTransactionsResponse(
                transaction_states=[
                    TransactionState(error_code=code, transactional_id=each)
                    for each in request.transactional_ids
                ]
            )
    raise TypeError(f"{type(request).__name__} is not a request for a transaction coordinator")
