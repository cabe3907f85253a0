from __future__ import annotations

import random
from typing import Any

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    request_header_version,
    response_header_version,
    write_request_header,
    write_response_header,
)
from tests.support.protocol.mutations import mutated
from tests.support.protocol.values import message_class

API_VERSIONS = 18
ALL_VERSIONS = [
    (api.key, version)
    for api in API_BY_KEY.values()
    for version in range(api.min_version, api.max_version + 1)
]


def test_header_versions() -> None:
    assert [request_header_version(0, version) for version in (3, 8, 9, 13)] == [1, 1, 2, 2]
    assert [response_header_version(0, version) for version in (3, 8, 9, 13)] == [0, 0, 1, 1]
    assert request_header_version(API_VERSIONS, 4) == 2
    assert response_header_version(API_VERSIONS, 4) == 0, (
        "the client may not know the version of the response"
    )
    assert request_header_version(API_VERSIONS, 999) == 2, "unknown later versions are flexible"
    for function in (request_header_version, response_header_version):
        with pytest.raises(ProtocolError, match="no API with key 95"):
            function(95, 0)


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "é" * 100])
def test_headers_have_the_bytes_of_the_generated_codecs(client_id: str | None) -> None:
    request_header_class: Any = message_class("RequestHeader")
    response_header_class: Any = message_class("ResponseHeader")
    for api_key, version in ALL_VERSIONS:
        out = bytearray(b"head")
        write_request_header(out, api_key, version, 77, client_id)
        generated = request_header_class(
            request_api_key=api_key, request_api_version=version, correlation_id=77, client_id=client_id
        )
        assert out == b"head" + generated.to_bytes(request_header_version(api_key, version))
        assert read_request_header(out, 4) == (RequestHeader(api_key, version, 77, client_id), len(out))

        out = bytearray()
        write_response_header(out, api_key, version, -5)
        generated_response = response_header_class(correlation_id=-5)
        assert out == generated_response.to_bytes(response_header_version(api_key, version))
        assert read_response_header(out, 0, api_key, version) == (-5, len(out))


def test_tagged_fields_of_headers_are_skipped() -> None:
    request = b"\x00\x00\x00\x09\x00\x00\x00\x07\xff\xff" + b"\x01\x05\x03abc"
    assert read_request_header(request, 0) == (RequestHeader(0, 9, 7, None), len(request))
    response = b"\x00\x00\x00\x07" + b"\x01\x05\x03abc"
    assert read_response_header(response, 0, 0, 9) == (7, len(response))


def test_unknown_apis_are_rejected() -> None:
    with pytest.raises(ProtocolError, match="no API with key 500"):
        read_request_header(b"\x01\xf4" + bytes(20), 0)


def test_a_client_id_that_is_too_long_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="32768 bytes"):
        write_request_header(bytearray(), 0, 9, 1, "x" * 32768)


def test_mutated_headers_raise_only_protocol_errors() -> None:
    source = random.Random(11)
    out = bytearray()
    write_request_header(out, 0, 9, 77, "client")
    understood = 0
    for _ in range(3000):
        try:
            _, end = read_request_header(mutated(source, [bytes(out)]), 0)
        except ProtocolError:
            continue
        understood += 1
        assert end >= 10
    assert 0 < understood < 3000
    for size in range(5):
        with pytest.raises(ProtocolError):
            read_response_header(b"\0\0\0\0\0"[:size], 0, 0, 9)
