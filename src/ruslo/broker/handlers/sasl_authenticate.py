"""SaslAuthenticate v0-2 (KIP-152): one step of the authentication of a client.

- v1: the response tells how long the session lasts (KIP-368).
- A failure is answered after ``connection.failed.authentication.delay.ms``, and the connection is closed. The
  response does not tell whether the user exists.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from functools import partial

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.connection import Connection, FrameHandler
from ruslo.net.sasl.mechanism import AuthenticationFailed
from ruslo.net.sasl.server_exchange import Authenticated, ServerExchange
from ruslo.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ruslo.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse

_SIZE = struct.Struct(">i")


def handle(
    services: NodeServices, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse]:
    connection = context.connection
    exchange = None if connection is None else connection.exchange
    if connection is None or exchange is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate was received on a listener without SASL",
        )
    token = bytes(request.auth_bytes)
    if exchange.blocking:
        return _respond_from_thread(services, connection, exchange, token)
    try:
        result = exchange.authenticate(token, services.clock.now_ms())
    except (AuthenticationFailed, KafkaError) as error:
        return _refuse(services, connection, exchange, error)
    return _succeed(services, connection, *result)


async def _respond_from_thread(
    services: NodeServices, connection: Connection, exchange: ServerExchange, token: bytes
) -> SaslAuthenticateResponse:
    try:
        result = await asyncio.to_thread(exchange.authenticate, token, services.clock.now_ms())
    except (AuthenticationFailed, KafkaError) as error:
        return await _refuse(services, connection, exchange, error)
    return _succeed(services, connection, *result)


def _succeed(
    services: NodeServices, connection: Connection, challenge: bytes, authenticated: Authenticated | None
) -> SaslAuthenticateResponse:
    if authenticated is None:
        return SaslAuthenticateResponse(error_message=None, auth_bytes=challenge)
    connection.authenticated(authenticated)
    services.authentication.succeeded(connection)
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=challenge, session_lifetime_ms=authenticated.session_ms
    )


async def _refuse(
    services: NodeServices,
    connection: Connection,
    exchange: ServerExchange,
    error: AuthenticationFailed | KafkaError,
) -> SaslAuthenticateResponse:
    if isinstance(error, KafkaError):
        code, reason, public = error.code, error.message or error.code.name, error.message
    else:
        code, reason, public = ErrorCode.SASL_AUTHENTICATION_FAILED, error.reason, error.public
    services.authentication.failed(connection, reason)
    connection.finish()
    await asyncio.sleep(services.authentication.failure_delay_s)
    return SaslAuthenticateResponse(
        error_code=code,
        error_message=public
        or "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{exchange.mechanism_name}",
    )


def raw_token_handler(services: NodeServices) -> FrameHandler:
    """The handler of the tokens after SaslHandshake v0: frames without a header, and no error response."""
    return partial(_handle_raw_token, services)


def _handle_raw_token(
    services: NodeServices, connection: Connection, buf: bytearray, start: int, end: int
) -> bool:
    if not connection.admit(""):
        return False
    exchange = connection.exchange
    assert exchange is not None
    token = bytes(buf[start:end])
    if exchange.blocking:
        held = connection.hold()

        async def respond() -> None:
            try:
                result = await asyncio.to_thread(exchange.authenticate, token, services.clock.now_ms())
            except AuthenticationFailed as error:
                await _close_later(services, connection, error)
                return
            held.send((_complete(services, connection, *result),))

        services.authentication.tasks.start(respond())
        return True
    try:
        result = exchange.authenticate(token, services.clock.now_ms())
    except AuthenticationFailed as error:
        # The place in the order keeps the connection open until the delay is over.
        connection.hold()
        services.authentication.tasks.start(_close_later(services, connection, error))
        return True
    connection.send(_complete(services, connection, *result))
    return True


async def _close_later(services: NodeServices, connection: Connection, error: AuthenticationFailed) -> None:
    services.authentication.failed(connection, error.reason)
    connection.finish()
    await asyncio.sleep(services.authentication.failure_delay_s)
    connection.abort()


def _complete(
    services: NodeServices, connection: Connection, challenge: bytes, authenticated: Authenticated | None
) -> bytes:
    if authenticated is not None:
        connection.authenticated(authenticated)
        services.authentication.succeeded(connection)
    return _SIZE.pack(len(challenge)) + challenge
