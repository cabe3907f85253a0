"""DescribeCluster v0-2 (KIP-700): the brokers.

v1 can request the controllers from a controller (KIP-919), v2 includes fenced brokers.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.metadata.controller_id import controller_id
from ruslo.broker.requests.access import NOT_REQUESTED
from ruslo.broker.requests.context import RequestContext, cluster_operations
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ruslo.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

_BROKERS, _CONTROLLERS = 1, 2
_TYPE_NAMES = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}


def handle(
    services: NodeServices, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    is_controller_listener = context.listener_name in services.config.controller_listener_names
    served_type = _CONTROLLERS if is_controller_listener else _BROKERS
    if request.endpoint_type not in (_BROKERS, _CONTROLLERS):
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unknown endpoint type {request.endpoint_type}: use 1 or 2",
        )
    if request.endpoint_type != served_type:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=f"The request was sent to an endpoint of type {_TYPE_NAMES[served_type]}, but we "
            f"wanted an endpoint of type {_TYPE_NAMES[request.endpoint_type]}",
        )
    operations = NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(context)
    response = DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=services.cluster_id,
        cluster_authorized_operations=operations,
    )
    if served_type == _CONTROLLERS:
        response.controller_id = services.raft.leader_id
        response.brokers = _controllers(services, context.listener_name)
    else:
        response.controller_id = controller_id(services.metadata, services.node_id)
        response.brokers = _brokers(services, context.listener_name, request.include_fenced_brokers)
    return response


def _brokers(services: NodeServices, listener_name: str, include_fenced: bool) -> list[DescribeClusterBroker]:
    brokers: list[DescribeClusterBroker] = []
    for broker in services.metadata.image.cluster.brokers.values():
        endpoint = broker.endpoint(listener_name)
        if endpoint is not None and (include_fenced or not broker.fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=broker.id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
            )
    return brokers


def _controllers(services: NodeServices, listener_name: str) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker_id=voter.node_id, host=endpoint.host, port=endpoint.port)
        for voter in services.raft.voters.voters
        for endpoint in voter.endpoints
        if endpoint.listener == listener_name
    ]
