"""The content of an Envelope (KIP-590): a client's request as it was received, and its principal.

RequestData and ResponseData are header and body, without the length prefix. The principal is a version of two
bytes and the body of DefaultPrincipalData.
"""

from __future__ import annotations

import ipaddress
import struct

from ruslo.broker.requests.context import RequestContext
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.model.principals import Principal
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)
from ruslo.protocol.message import Message
from ruslo.protocol.messages.default_principal_data import DefaultPrincipalData
from ruslo.protocol.messages.envelope_request import EnvelopeRequest

_PRINCIPAL_VERSION = struct.Struct(">h")
_CORRELATION_ID = 0


def envelope(request: Message, context: RequestContext) -> EnvelopeRequest:
    data = bytearray()
    version = context.api_version
    write_request_header(data, request.API_KEY, version, _CORRELATION_ID, context.client_id)
    request.write(data, version)
    who = context.principal
    principal = _PRINCIPAL_VERSION.pack(0) + DefaultPrincipalData(
        type=who.type, name=who.name, token_authenticated=who.token_authenticated
    ).to_bytes(0)
    return EnvelopeRequest(
        request_data=bytes(data),
        request_principal=principal,
        client_host_address=_address(context.peer_host),
    )


def open_envelope(request: EnvelopeRequest) -> tuple[RequestHeader, Message, Principal]:
    """Return the header, the request and the principal. Raises ProtocolError."""
    header, position = read_request_header(request.request_data, 0)
    api = API_BY_KEY[header.api_key]
    if not api.min_version <= header.api_version <= api.max_version:
        raise ProtocolError(f"{api.name} v{header.api_version} is not supported")
    message, _ = api.request.read(request.request_data, position, header.api_version)
    data = request.request_principal or b""
    if len(data) < _PRINCIPAL_VERSION.size:
        raise ProtocolError("the envelope has no principal")
    (version,) = _PRINCIPAL_VERSION.unpack_from(data)
    principal = DefaultPrincipalData.from_bytes(memoryview(data)[_PRINCIPAL_VERSION.size :], version)
    return header, message, Principal(principal.type, principal.name, principal.token_authenticated)


def envelope_response(header: RequestHeader, response: Message) -> bytes:
    data = bytearray()
    write_response_header(data, header.api_key, header.api_version, header.correlation_id)
    response.write(data, header.api_version)
    return bytes(data)


def open_response(request: Message, version: int, data: ReadBuffer) -> Message:
    """Raises ProtocolError."""
    _, position = read_response_header(data, 0, request.API_KEY, version)
    response, _ = API_BY_KEY[request.API_KEY].response.read(data, position, version)
    return response


def _address(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        # The client has left already. No ACL names this address.
        return ipaddress.IPv4Address("0.0.0.0").packed
