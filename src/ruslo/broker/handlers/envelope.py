"""Envelope v0 (KIP-590): a broker forwards the request of a client together with the client's principal."""

from __future__ import annotations

import ipaddress
from inspect import isawaitable

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.error_responses import error_response
from ruslo.broker.requests.forwarding import envelope_response, open_envelope
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.messages.envelope_request import EnvelopeRequest
from ruslo.protocol.messages.envelope_response import EnvelopeResponse


async def handle(
    services: NodeServices, request: EnvelopeRequest, context: RequestContext
) -> EnvelopeResponse:
    try:
        header, message, principal = open_envelope(request)
        host = str(ipaddress.ip_address(bytes(request.client_host_address)))
    except (ProtocolError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The envelope cannot be decoded: {error}") from error
    api = API_BY_KEY[header.api_key]
    handler = services.apis.handlers.get(api.key)
    if handler is None or not api.forwardable:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{api.name} cannot be forwarded")
    if services.raft.leader_id != services.node_id:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    original = RequestContext(
        api_version=header.api_version,
        client_id=header.client_id,
        listener_name=context.listener_name,
        peer_host=host,
        principal=principal,
        forwarded=True,
        access=services.open_session(principal, host).access,
        api_name=api.name,
    )
    try:
        response = handler(services, message, original)
        if isawaitable(response):
            response = await response
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        response = error_response(message, error, header.api_version)
        if response is None:
            raise
    return EnvelopeResponse(response_data=envelope_response(header, response))
