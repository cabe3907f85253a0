"""AllocateProducerIds (KIP-730): a broker gets blocks of ids; no id is allocated twice."""

from __future__ import annotations

from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ruslo.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from ruslo.protocol.messages.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1000
_LAST_PRODUCER_ID = 2**63 - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    state.registered_broker(request.broker_id, request.broker_epoch)
    first = max(state.image.next_producer_id, 0)
    if first > _LAST_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are allocated")
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return [(record, 0)], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
