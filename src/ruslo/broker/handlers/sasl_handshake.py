"""SaslHandshake v0-1 (KIP-43): chooses the SASL mechanism.

- v0: the tokens that follow are frames of their own, without a request header.
- v1: the tokens follow in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ruslo.broker.handlers.sasl_authenticate import raw_token_handler
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.connection import Connection
from ruslo.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ruslo.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

_HEADER_BYTES = 1024
"""Room for the header of a SaslAuthenticate request, beyond its token."""


def handle(
    services: NodeServices, request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse | Awaitable[SaslHandshakeResponse]:
    connection = context.connection
    exchange = None if connection is None else connection.exchange
    if connection is None or exchange is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    if not exchange.may_begin(services.clock.monotonic_ms()):
        # As in Kafka, the connection stays open.
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=exchange.mechanisms)
    try:
        exchange.choose(request.mechanism)
    except KafkaError as error:
        services.authentication.failed(connection, error.message or error.code.name)
        response = SaslHandshakeResponse(error_code=error.code, mechanisms=exchange.mechanisms)
        return _refuse(services, connection, response)
    connection.expect(exchange.max_message_bytes + _HEADER_BYTES)
    if context.api_version == 0:
        connection.receive_with(raw_token_handler(services))
    return SaslHandshakeResponse(mechanisms=exchange.mechanisms)


async def _refuse(
    services: NodeServices, connection: Connection, response: SaslHandshakeResponse
) -> SaslHandshakeResponse:
    # In a task: the response has its place by now, so the connection stays open until it is sent.
    connection.finish()
    await asyncio.sleep(services.authentication.failure_delay_s)
    return response
