"""Requests of brokers and controllers to the active controller, which responds when the change is committed.

NOT_CONTROLLER makes the sender find the active controller.

AllocateProducerIds v0 (KIP-730), AlterPartition v2-3 (KIP-497), AssignReplicasToDirs v0 (KIP-858),
BrokerHeartbeat v0-2 and BrokerRegistration v0-4 (KIP-631), ControllerRegistration v0 (KIP-919),
UnregisterBroker v0 (KIP-631).
"""

from __future__ import annotations

import asyncio

from ruslo.broker.handlers.services import ControllerServices
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.message import Message
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest


def handle(
    services: ControllerServices, request: Message, context: RequestContext
) -> asyncio.Future[Message]:
    if isinstance(request, BrokerHeartbeatRequest) and context.connection is not None:
        services.liveness_probes.heartbeat_received(
            request.broker_id, request.broker_epoch, context.connection
        )
    return services.controller.submit(request, context)
