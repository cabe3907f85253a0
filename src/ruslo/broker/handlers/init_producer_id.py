"""InitProducerId v0-6: the producer id and epoch of an idempotent or transactional producer.

v3: the producer sends its current id and epoch (KIP-360). v4: PRODUCER_FENCED. v6: two-phase commit
(KIP-939); it is not stable, so it is served with ``unstable.api.versions.enable`` only.
Without a transactional id every request returns a new producer id with epoch 0; with one, the transaction
coordinator handles it.
"""

from __future__ import annotations

import logging

from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.txns.errors import error_response
from ruslo.machines.txns.init_producer import check
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse

logger = logging.getLogger(__name__)


def handle(services: Services, request: InitProducerIdRequest, context: RequestContext) -> Response:
    if request.transactional_id is not None:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        if request.enable2_pc:
            context.require(
                Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, request.transactional_id
            )
    elif not (
        context.allows(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, audited=False)
        or context.access.allows_any(Operation.WRITE, ResourceType.TOPIC, context.api_name)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    code = check(request, services.transactions.settings)
    if code is not ErrorCode.NONE:
        return error_response(request, context.api_version, code)
    if request.transactional_id is None:
        return _new(services, request, context)
    return services.transactions.submit(request.transactional_id, request, context.api_version)


async def _new(services: Services, request: InitProducerIdRequest, context: RequestContext) -> Message:
    try:
        producer_id = await services.producer_ids.generate()
    except KafkaError as error:
        # As in Kafka, a failed request to the controller is retriable for the producer.
        logger.warning("Allocating a producer id for a client failed: %s", error)
        return error_response(request, context.api_version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
