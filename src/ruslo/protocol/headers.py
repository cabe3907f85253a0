"""Headers of requests and responses.

A flexible request has header version 2, any other version 1; a flexible response has version 1, any other
version 0. There are two exceptions:

* The response header of ApiVersions is always version 0: a client must be able to read the response to a
  version that the broker does not support (KIP-511).
* The client id keeps its two-byte length in version 2, so that a broker can read it before it knows whether
  it supports the request.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.primitives import DECODE_ERRORS, STRING_BYTES_MAX, length_error, read_unknown_tags

_API_VERSIONS_KEY = 18
_REQUEST_START = Struct(">hhih")  # api key, api version, correlation id, length of the client id
_CORRELATION_ID = Struct(">i")
_FLEXIBLE_FROM = {api.key: api.flexible_from for api in API_BY_KEY.values()}


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, version: int) -> int:
    return 2 if version >= _flexible_from(api_key) else 1


def response_header_version(api_key: int, version: int) -> int:
    return 1 if version >= _flexible_from(api_key) and api_key != _API_VERSIONS_KEY else 0


def _flexible_from(api_key: int) -> int:
    flexible_from = _FLEXIBLE_FROM.get(api_key)
    if flexible_from is None:
        raise _unknown_api(api_key)
    return flexible_from


def _unknown_api(api_key: int) -> ProtocolError:
    return ProtocolError(f"there is no API with key {api_key}")


def read_request_header(buf: ReadBuffer, pos: int) -> tuple[RequestHeader, int]:
    """Read the header at ``pos``: the header, and the position after it."""
    try:
        api_key, version, correlation_id, length = _REQUEST_START.unpack_from(buf, pos)
        pos += 10
        client_id = None
        if length >= 0:
            end = pos + length
            if end > len(buf):
                raise length_error("client id", length, len(buf) - pos)
            client_id = str(buf[pos:end], "utf-8")
            pos = end
        flexible_from = _FLEXIBLE_FROM.get(api_key)
        if flexible_from is None:
            raise _unknown_api(api_key)
        if version >= flexible_from:
            count = buf[pos]
            pos += 1
            if count:
                _, pos = read_unknown_tags(buf, pos, len(buf), count)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"malformed request header: {error}") from error
    return RequestHeader(api_key, version, correlation_id, client_id), pos


def write_request_header(
    out: bytearray, api_key: int, version: int, correlation_id: int, client_id: str | None
) -> None:
    flexible = request_header_version(api_key, version) == 2
    name = b"" if client_id is None else client_id.encode()
    if len(name) > STRING_BYTES_MAX:
        raise ProtocolError(f"client id has {len(name)} bytes, the protocol allows {STRING_BYTES_MAX}")
    out += _REQUEST_START.pack(api_key, version, correlation_id, -1 if client_id is None else len(name))
    out += name
    if flexible:
        out.append(0)


def read_response_header(buf: ReadBuffer, pos: int, api_key: int, version: int) -> tuple[int, int]:
    """Read the header of a response to this API version: correlation id, and the position after it."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buf, pos)
        pos += 4
        if response_header_version(api_key, version):
            count = buf[pos]
            pos += 1
            if count:
                _, pos = read_unknown_tags(buf, pos, len(buf), count)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"malformed response header: {error}") from error
    return correlation_id, pos


def write_response_header(out: bytearray, api_key: int, version: int, correlation_id: int) -> None:
    out += _CORRELATION_ID.pack(correlation_id)
    if response_header_version(api_key, version):
        out.append(0)
